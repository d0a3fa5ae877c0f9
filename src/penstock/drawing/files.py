"""Writes sketches to files: SVG directly, PNG in light colours with matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.drawing.sketch import TONES, Box, Curve, Dot, Label, Shape, Sketch
from penstock.drawing.svg import clean, svg
from penstock.errors import InvalidInput, PenstockError

_DPI = 144.0  # two pixels per unit, for high-resolution screens
_MAX_PIXELS = 16_000  # per side: larger sketches are scaled down
_ALIGN = {"start": "left", "middle": "center", "end": "right"}


def check(path: str | Path) -> Path:
    """Return the path. Raises `InvalidInput` if its suffix is not .svg or .png."""
    found = Path(path).expanduser()
    if found.suffix.lower() not in (".svg", ".png"):
        raise InvalidInput(f"cannot draw to '{path}': name a file that ends in .svg or .png")
    return found


def save(sketch: Sketch, path: str | Path) -> Path:
    """Write a sketch to a .svg or .png file, atomically.

    Raises `InvalidInput` if the file cannot be written, `PenstockError` if matplotlib is missing.
    """
    found = check(path)
    draft = found.with_name(f".{found.name}.draft{found.suffix.lower()}")
    try:
        if found.suffix.lower() == ".png":
            _rasterise(sketch, draft)
        else:
            draft.write_text(svg(sketch) + "\n", encoding="utf-8")
        draft.replace(found)
    except OSError as error:
        raise InvalidInput(f"cannot draw to '{path}': {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return found


def _rasterise(sketch: Sketch, path: Path) -> None:
    kit = _Matplotlib()
    scale = min(2.0, _MAX_PIXELS / max(sketch.width, sketch.height))
    size = (sketch.width * scale / _DPI, sketch.height * scale / _DPI)
    points = 72 * scale / _DPI  # per unit: matplotlib measures lines and letters in points
    with kit.rc_context({"font.family": "DejaVu Sans", "path.simplify": False}):
        sheet = kit.figure(figsize=size, dpi=_DPI, facecolor=TONES["page"].fill)
        kit.canvas(sheet)
        axes = sheet.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, sketch.width)
        axes.set_ylim(sketch.height, 0)
        for order, shape in enumerate(sketch.shapes):
            for artist in _artists(kit, shape, points):
                artist.set_zorder(order)
                axes.add_artist(artist)
        sheet.savefig(path, dpi=_DPI, metadata={"Software": None})


class _Matplotlib:
    """The parts of matplotlib in use. Raises `PenstockError` if it is missing."""

    def __init__(self) -> None:
        try:
            from matplotlib import patches, rc_context, text
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
            from matplotlib.path import Path as Line
        except ImportError:
            raise PenstockError(
                "PNG pictures need matplotlib: pip install 'penstock[pictures]'"
            ) from None
        self.patches, self.rc_context, self.text = patches, rc_context, text
        self.canvas, self.figure, self.line = FigureCanvasAgg, Figure, Line


def _artists(kit: _Matplotlib, shape: Shape, points: float) -> list[Any]:
    tone = TONES[shape.role]
    look = {"facecolor": tone.fill or "none", "edgecolor": tone.line or "none"}
    match shape:
        case Box():
            radius = min(shape.radius, shape.width / 2, shape.height / 2)
            style = kit.patches.BoxStyle("round", pad=0, rounding_size=radius)
            place = (shape.x, shape.y)
            return [
                kit.patches.FancyBboxPatch(
                    place, shape.width, shape.height, style, linewidth=points, **look
                )
            ]
        case Dot():
            return [kit.patches.Circle((shape.x, shape.y), shape.radius, linewidth=0, **look)]
        case Curve():
            return _curve(kit, shape, points)
        case Label():
            words = kit.text.Text(
                shape.x,
                shape.y,
                clean(shape.text).replace("$", r"\$"),
                color=tone.fill,
                fontsize=shape.size * points * 0.95,
                ha=_ALIGN[shape.anchor],
                va="baseline",
                rotation=shape.angle,
                rotation_mode="anchor",
                weight="bold" if shape.bold else "normal",
            )
            return [words]


def _curve(kit: _Matplotlib, curve: Curve, points: float) -> list[Any]:
    corners, codes = [curve.start], [kit.line.MOVETO]
    for step in curve.steps:
        corners += [(step[i], step[i + 1]) for i in range(0, len(step), 2)]
        codes += [kit.line.LINETO] if len(step) == 2 else [kit.line.CURVE4] * 3
    patch = kit.patches.PathPatch(
        kit.line(corners, codes),
        facecolor="none",
        edgecolor=TONES[curve.role].line or "none",
        linewidth=curve.width * points,
        capstyle="butt" if curve.dash else "round",
        joinstyle="round",
        alpha=curve.opacity,
    )
    if curve.dash:
        patch.set_linestyle((0, tuple(one / curve.width for one in curve.dash)))
    if not curve.arrow:
        return [patch]
    x, y = curve.steps[-1][-2:]
    half = 3.0 + curve.width / 2
    tip = [(x - half, y - half), (x + half, y), (x - half, y + half)]
    return [patch, kit.patches.Polygon(tip, facecolor=TONES["head"].fill, linewidth=0)]
