"""Digests of a picture, which show that it was drawn from the data next to it.

Drawing takes seconds, and another version of matplotlib draws other bytes. The figure to be drawn
is a value, which is made quickly and compared instead.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from numbers import Real
from pathlib import Path
from typing import Any

from penstock.drawing.figures import Figure


def digests(figure: Figure, png: Path, svg: Path) -> dict[str, str]:
    """Digests of a figure and of the two files that show it."""
    return {
        "figure": of(figure),
        "png": hashlib.sha256(png.read_bytes()).hexdigest(),
        "svg": hashlib.sha256(svg.read_bytes()).hexdigest(),
    }


def of(figure: Figure) -> str:
    """Digest of a figure: its texts, and its numbers to nine digits."""
    text = json.dumps(_plain(asdict(figure)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return f"{value:.9g}" if isinstance(value, Real) else value
