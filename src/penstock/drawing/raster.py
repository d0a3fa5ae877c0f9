"""Sketches as PNG, drawn with matplotlib in the colours for white paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.drawing.sketch import TONES, Box, Curve, Dot, Label, Shape, Sketch
from penstock.drawing.svg import clean
from penstock.errors import PenstockError

_DPI = 144.0  # two dots a unit, for screens that have them
_MOST = 16_000  # dots of an edge: what is longer is drawn smaller
_ACROSS = {"start": "left", "middle": "center", "end": "right"}


def save(sketch: Sketch, path: Path) -> Path:
    """Draw a sketch. Raises `PenstockError` where matplotlib is not installed."""
    matplotlib, figure, canvas, kit = _library()
    scale = min(2.0, _MOST / max(sketch.width, sketch.height))
    size = (sketch.width * scale / _DPI, sketch.height * scale / _DPI)
    points = 72 * scale / _DPI  # of a unit: lines and letters are measured in points
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "path.simplify": False}):
        sheet = figure(figsize=size, dpi=_DPI, facecolor=TONES["page"].fill)
        canvas(sheet)
        axes = sheet.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, sketch.width)
        axes.set_ylim(sketch.height, 0)
        for order, shape in enumerate(sketch.shapes):
            for one in _drawn(kit, shape, points):
                one.set_zorder(order)
                axes.add_artist(one)
        sheet.savefig(path, dpi=_DPI, metadata={"Software": None})
    return path


class _Kit:
    """What of matplotlib is drawn with."""

    def __init__(self) -> None:
        from matplotlib import patches, text
        from matplotlib.path import Path as Line

        self.patches, self.text, self.line = patches, text, Line


def _library() -> tuple[Any, Any, Any, _Kit]:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise PenstockError("pictures need matplotlib: pip install 'penstock[pictures]'") from None
    return matplotlib, Figure, FigureCanvasAgg, _Kit()


def _drawn(kit: _Kit, shape: Shape, points: float) -> list[Any]:
    tone = TONES[shape.role]
    look = {"facecolor": tone.fill or "none", "edgecolor": tone.line or "none"}
    match shape:
        case Box():
            round_ = min(shape.radius, shape.width / 2, shape.height / 2)
            style = kit.patches.BoxStyle("round", pad=0, rounding_size=round_)
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
                ha=_ACROSS[shape.anchor],
                va="baseline",
                weight="bold" if shape.bold else "normal",
            )
            return [words]


def _curve(kit: _Kit, curve: Curve, points: float) -> list[Any]:
    corners, codes = [curve.start], [kit.line.MOVETO]
    for step in curve.steps:
        corners += [(step[i], step[i + 1]) for i in range(0, len(step), 2)]
        codes += [kit.line.LINETO] if len(step) == 2 else [kit.line.CURVE4] * 3
    drawn: list[Any] = [
        kit.patches.PathPatch(
            kit.line(corners, codes),
            facecolor="none",
            edgecolor=TONES[curve.role].line or "none",
            linewidth=curve.width * points,
            capstyle="round",
            joinstyle="round",
        )
    ]
    if curve.arrow:
        x, y = curve.steps[-1][-2:]
        half = 3.0 + curve.width / 2
        tip = [(x - half, y - half), (x + half, y), (x - half, y + half)]
        drawn.append(kit.patches.Polygon(tip, facecolor=TONES["head"].fill, linewidth=0))
    return drawn
