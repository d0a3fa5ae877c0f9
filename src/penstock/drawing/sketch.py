"""Drawings as values: boxes, curves, dots and labels with roles that set colours.

Independent of file formats: `svg.py` and `files.py` render sketches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Box:
    """A rectangle with rounded corners. hint: the tooltip."""

    x: float
    y: float
    width: float
    height: float
    role: str
    radius: float = 6.0
    hint: str = ""


@dataclass(frozen=True)
class Curve:
    """A path of straight lines and Bézier curves.

    steps: two numbers are the end of a line, six are the handles and the end of a Bézier curve.
    dash: lengths of dashes and gaps in turn; empty is a solid line.
    """

    start: tuple[float, float]
    steps: tuple[tuple[float, ...], ...]
    role: str
    width: float = 1.5
    arrow: bool = False
    hint: str = ""
    dash: tuple[float, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    role: str
    hint: str = ""


@dataclass(frozen=True)
class Label:
    """Text on a baseline. angle: degrees, counter-clockwise."""

    x: float
    y: float
    text: str
    role: str
    size: float = 11.0
    anchor: Anchor = "start"
    bold: bool = False
    angle: float = 0.0


Shape = Box | Curve | Dot | Label


@dataclass(frozen=True)
class Sketch:
    """Shapes in drawing order, on a page of a given size."""

    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Tone:
    """Fill and outline of a role on a light and a dark page; None draws nothing."""

    fill: str | None
    line: str | None
    dark_fill: str | None
    dark_line: str | None


def _layered(role: str, tone: Tone) -> dict[str, Tone]:
    """Tones of a role, with outline (`-rim`) and fill (`-body`) as separate layers.

    For areas made of several overlapping shapes.
    """
    return {
        role: tone,
        f"{role}-rim": Tone(tone.line, tone.line, tone.dark_line, tone.dark_line),
        f"{role}-body": Tone(tone.fill, tone.fill, tone.dark_fill, tone.dark_fill),
    }


SERIES = ("#0072b2", "#d55e00", "#009e73", "#8e5a9b", "#e69f00", "#56b4e9", "#4d4d4d")
"""Okabe and Ito's colours for series, which colour-blind readers can tell apart."""

_SERIES_DARK = ("#5fb0e8", "#f08a3c", "#35c79f", "#c39ad0", "#f0b840", "#8fd0f5", "#b5bdc6")


def _series() -> dict[str, Tone]:
    """Tones by colour index: `line0` draws curves, `fill0` fills bars."""
    found = {}
    for n, (light, dark) in enumerate(zip(SERIES, _SERIES_DARK, strict=True)):
        found[f"line{n}"] = Tone(None, light, None, dark)
        found[f"fill{n}"] = Tone(light, None, dark, None)
    return found


TONES: Mapping[str, Tone] = {
    "page": Tone("#ffffff", None, "#14181d", None),
    "box": Tone("#ffffff", "#b6c0cc", "#1d232b", "#46515f"),
    **_layered("pipeline", Tone("#f1f5f9", "#9aa9ba", "#191f27", "#4c5a6b")),
    **_layered("pipeline-warm", Tone("#fff6e0", "#d99a12", "#2b2413", "#b98516")),
    **_layered("pipeline-hot", Tone("#fdebe9", "#cf3b2e", "#301816", "#d9564a")),
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
    "grid": Tone(None, "#e4e8ec", None, "#2b333d"),
    "axis": Tone(None, "#6e7a87", None, "#9aa8b8"),
    "level": Tone(None, "#b3261e", None, "#ff8a80"),
    "mark": Tone(None, "#1b2733", None, "#e6ebf1"),
    **_series(),
}
"""Colours of every role; text has a contrast of at least 4.5:1."""
