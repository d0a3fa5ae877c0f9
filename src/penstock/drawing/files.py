"""Sketches as files: `.svg` is written here, `.png` needs matplotlib."""

from __future__ import annotations

from pathlib import Path

from penstock.drawing import raster
from penstock.drawing.sketch import Sketch
from penstock.drawing.svg import svg
from penstock.errors import InvalidInput


def check(path: str | Path) -> Path:
    """The path, if it is of a kind that can be drawn. Raises `InvalidInput`."""
    found = Path(path).expanduser()
    if found.suffix.lower() not in (".svg", ".png"):
        raise InvalidInput(f"cannot draw to '{path}': name a file that ends in .svg or .png")
    return found


def save(sketch: Sketch, path: str | Path) -> Path:
    """Draw a sketch to a file, whole or not at all."""
    found = check(path)
    draft = found.with_name(f".{found.name}.draft{found.suffix.lower()}")
    try:
        if found.suffix.lower() == ".png":
            raster.save(sketch, draft)
        else:
            draft.write_text(svg(sketch) + "\n", encoding="utf-8")
        draft.replace(found)
    except OSError as error:
        raise InvalidInput(f"cannot draw to '{path}': {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return found
