"""Drawings as values: boxes, curves, dots and words, each with a role that gives it its colours.

A sketch knows nothing of files; `svg.py` and `raster.py` draw it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Box:
    """A rectangle with round corners; hint: what more there is to say of it."""

    x: float
    y: float
    width: float
    height: float
    role: str
    radius: float = 6.0
    hint: str = ""


@dataclass(frozen=True)
class Curve:
    """From the first point on: a point is a straight line, three are a curve with two handles."""

    start: tuple[float, float]
    steps: tuple[tuple[float, ...], ...]
    role: str
    width: float = 1.5
    arrow: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Dot:
    """A filled circle around a point."""

    x: float
    y: float
    radius: float
    role: str
    hint: str = ""


@dataclass(frozen=True)
class Label:
    """Words on a base line."""

    x: float
    y: float
    text: str
    role: str
    size: float = 11.0
    anchor: Anchor = "start"
    bold: bool = False


Shape = Box | Curve | Dot | Label


@dataclass(frozen=True)
class Sketch:
    """Shapes in the order in which they are drawn, on a page that has a size."""

    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Tone:
    """What a role is filled and outlined with, on white and on black; None is not at all."""

    fill: str | None
    line: str | None
    dark_fill: str | None
    dark_line: str | None


def _fields(role: str, tone: Tone) -> dict[str, Tone]:
    """A field, and the two layers of one that is put together from pieces."""
    return {
        role: tone,
        f"{role}-rim": Tone(tone.line, tone.line, tone.dark_line, tone.dark_line),
        f"{role}-body": Tone(tone.fill, tone.fill, tone.dark_fill, tone.dark_fill),
    }


TONES: Mapping[str, Tone] = {
    "page": Tone("#ffffff", None, "#14181d", None),
    "box": Tone("#ffffff", "#b6c0cc", "#1d232b", "#46515f"),
    **_fields("pipeline", Tone("#f1f5f9", "#9aa9ba", "#191f27", "#4c5a6b")),
    **_fields("pipeline-warm", Tone("#fff6e0", "#d99a12", "#2b2413", "#b98516")),
    **_fields("pipeline-hot", Tone("#fdebe9", "#cf3b2e", "#301816", "#d9564a")),
    "edge": Tone(None, "#8796a7", None, "#66758a"),
    "head": Tone("#8796a7", None, "#66758a", None),
    "source": Tone("#12876f", None, "#35b597", None),
    "stateless": Tone("#8796a7", None, "#7b8ba0", None),
    "keyed": Tone("#7a4fc0", None, "#a483e0", None),
    "global": Tone("#b3541e", None, "#e08a55", None),
    "sink": Tone("#2563a8", None, "#5b9be0", None),
    "cost": Tone("#c7d2de", None, "#3a4655", None),
    "instance": Tone("#5b6b7d", None, "#9fb0c3", None),
    "instance-warm": Tone("#d99a12", None, "#e0ad3d", None),
    "instance-hot": Tone("#cf3b2e", None, "#ee6a5e", None),
    "words": Tone("#1b2733", None, "#e6ebf1", None),
    "faint": Tone("#5a6878", None, "#9aa8b8", None),
    "warning": Tone("#8a5c00", None, "#e6b450", None),
    "alarm": Tone("#b3261e", None, "#ff8a80", None),
}
"""The colours of every role. Words have a contrast of 4.5 or more with what they stand on."""
