"""Drawing figures with matplotlib, without a screen and without its global state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.report.figures import Figure, Level, Line, Mark, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#8E5A9B", "#E69F00", "#56B4E9", "#4D4D4D")
"""Told apart by the colour-blind as well: Okabe and Ito's, the pale ones last."""

_INK, _GREY, _PALE = "#222222", "#6E6E6E", "#E4E4E4"
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "svg.hashsalt": "penstock",
    "svg.fonttype": "path",
}


def save(figure: Figure, base: Path) -> tuple[Path, Path]:
    """Draw a figure as PNG and SVG beside each other; any suffix of the path is replaced."""
    matplotlib, drawn, canvas = _library()
    rows = math.ceil(len(figure.panels) / figure.columns)
    with matplotlib.rc_context(_STYLE):
        sheet = drawn(figsize=(_width(figure), _height(figure, rows)), layout="constrained")
        canvas(sheet)
        sheet.get_layout_engine().set(h_pad=0.06, w_pad=0.08, hspace=0.02, wspace=0.04)
        sheet.suptitle(figure.title, x=0.012, ha="left", weight="bold", size=11, color=_INK)
        grid = sheet.subplots(rows, figure.columns, squeeze=False)
        for number, panel in enumerate(figure.panels):
            row, column = divmod(number, figure.columns)
            below = number + figure.columns
            last = below >= len(figure.panels) or figure.panels[below].x != panel.x
            _draw(grid[row][column], panel, last)
        for spare in list(grid.flat)[len(figure.panels) :]:
            spare.set_axis_off()
        sheet.align_ylabels()
        if figure.note:
            sheet.supxlabel(figure.note, x=0.012, ha="left", size=7.5, color=_GREY)
        png, svg = base.with_suffix(".png"), base.with_suffix(".svg")
        sheet.savefig(png, dpi=150, metadata={"Software": None})
        sheet.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def _library() -> tuple[Any, Any, Any]:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Drawn
    except ImportError:
        raise PenstockError("pictures need matplotlib: pip install 'penstock[pictures]'") from None
    return matplotlib, Drawn, FigureCanvasAgg


def _width(figure: Figure) -> float:
    return 7.6 if figure.columns == 1 else min(11.5, 4.6 * figure.columns)


def _height(figure: Figure, rows: int) -> float:
    each = 3.1 if rows == 1 else 2.3
    return each * rows + 0.55 + (0.2 if figure.note else 0.0)


def _draw(axes: Axes, panel: Panel, last: bool) -> None:
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=_PALE, linewidth=0.8)
    axes.set_ylabel(panel.y)
    if last:
        axes.set_xlabel(panel.x)
    if panel.title:
        axes.set_title(panel.title, pad=20 if _named(panel) else 6)
    if panel.log:
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.yaxis.set_minor_formatter(lambda value, _: "")
    for number, line in enumerate(panel.lines):
        _line(axes, line, number)
    _bars(axes, panel)
    _limits(axes, panel)
    if not panel.log and all(v == round(v) for v in _values(panel)):
        _whole(axes)
    for level in panel.levels:
        _level(axes, level)
    _marks(axes, panel.marks)
    if _named(panel):
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            borderaxespad=0.1,
            ncols=6,
            handlelength=1.6,
            columnspacing=1.4,
        )


def _whole(axes: Axes) -> None:
    """What is counted has no halves."""
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins="auto"))


def _named(panel: Panel) -> bool:
    """Whether a legend says more than the axes do."""
    return len(panel.lines) + len(panel.bars) > 1


def _line(axes: Axes, line: Line, number: int) -> None:
    tone = (number if line.tone is None else line.tone) % len(PALETTE)
    y = [math.nan if value is None else value for value in line.y]
    look: dict[str, Any] = {"color": PALETTE[tone], "label": line.label}
    if line.style == "points":
        axes.plot(line.x, y, linestyle="", marker="o", markersize=4, **look)
        return
    look |= {"linewidth": 1.0 if line.faint else 1.7, "alpha": 0.55 if line.faint else 1.0}
    if line.style == "step":
        axes.step(line.x, y, where="post", **look)
        return
    few = len(line.x) <= 12
    axes.plot(line.x, y, marker="o" if few else None, markersize=4, **look)


def _bars(axes: Axes, panel: Panel) -> None:
    if not panel.bars:
        return
    width = 0.8 / len(panel.bars)
    crowded = len(panel.bars) * len(panel.categories) > 24
    for number, one in enumerate(panel.bars):
        shift = (number - (len(panel.bars) - 1) / 2) * width
        spread = one.spread or (None,) * len(one.values)
        there = [(i + shift, v, s) for i, (v, s) in enumerate(zip(one.values, spread, strict=True))
                 if v is not None]  # fmt: skip
        tone = (number if one.tone is None else one.tone) % len(PALETTE)
        shown = axes.bar(
            [x for x, _, _ in there],
            [v for _, v, _ in there],
            width * 0.92,
            color=PALETTE[tone],
            label=one.label,
            yerr=[s or 0.0 for _, _, s in there] if one.spread else None,
            error_kw={"ecolor": _INK, "elinewidth": 0.9, "capsize": 2},
        )
        if not crowded and not one.spread:
            axes.bar_label(shown, [_short(v) for _, v, _ in there], size=7.5, color=_INK, padding=1)
    axes.set_xticks(range(len(panel.categories)), panel.categories)
    axes.tick_params(axis="x", length=0)
    axes.margins(y=0.12)


def _short(value: float) -> str:
    """Three digits that count: `0.25`, `36`, `1,650`, `12.5k`, `2M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit * 0.99995:
            return _short(value / (1e3 if unit == "k" else limit)) + unit
    if value and abs(value) < 0.0005:
        return f"{value:.2g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    shown = f"{value:,.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _limits(axes: Axes, panel: Panel) -> None:
    """From zero, with room for levels; as wide as the lines are."""
    if panel.log:
        values = [v for v in (*_values(panel), *(x.value for x in panel.levels)) if v > 0]
        if values and panel.top is None:
            axes.set_ylim(min(values) / 1.6, max(values) * 2)
    else:
        highest = max((*_values(panel), *(level.value for level in panel.levels)), default=1.0)
        lowest = min((0.0, *_values(panel)))
        axes.set_ylim(lowest * 1.08, (highest or 1.0) * (1.3 if panel.marks else 1.1))
    if panel.top is not None:
        axes.set_ylim(top=panel.top)
    ends = [x for line in panel.lines for x in line.x]
    if ends and min(ends) < max(ends):
        room = 0.03 if any(line.style == "points" for line in panel.lines) else 0.01
        wide = max(ends) - min(ends)
        axes.set_xlim(min(ends) - room * wide, max(ends) + room * wide)


def _values(panel: Panel) -> list[float]:
    shown: Iterable[float | None] = (
        *(y for line in panel.lines for y in line.y),
        *(v for one in panel.bars for v in one.values),
    )
    return [v for v in shown if v is not None and math.isfinite(v)]


def _level(axes: Axes, level: Level) -> None:
    axes.axhline(level.value, color=_INK, linewidth=1.1, linestyle=(0, (5, 3)))
    axes.annotate(
        level.label,
        (1.0, level.value),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        size=8,
        color=_INK,
    )


def _marks(axes: Axes, marks: Sequence[Mark]) -> None:
    """Ticks hanging from the top; labels where there is room for them."""
    if not marks:
        return
    low, high = axes.get_xlim()
    across = axes.get_xaxis_transform()
    axes.vlines([m.at for m in marks], 0.94, 1.0, transform=across, color=_INK, linewidth=0.9)
    free = low
    for mark in sorted(marks, key=lambda m: m.at):
        wide = (high - low) * (0.0125 * len(mark.label) + 0.012)
        if not mark.label or mark.at < free or mark.at + wide > high:
            continue
        place = mark.at + (high - low) * 0.004
        axes.text(place, 0.92, mark.label, transform=across, size=7, color=_INK, va="top")
        axes.vlines([mark.at], 0.85, 1.0, transform=across, color=_INK, linewidth=0.9)
        free = mark.at + wide
