"""Figures as SVG for a page: drawn by hand, light or dark as the reader has it, no scripts.

The same values that `figures.save` gives to matplotlib, in the width of a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from penstock.drawing.figures import Bars, Figure, Level, Line, Panel
from penstock.drawing.svg import clean

_WIDE, _HIGH = 1060.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 84.0, 26.0, 22.0
_POINTS = 700
_TINY = 1e-300  # below that the steps of an axis vanish
_TICKS = 4

STYLE = """\
.penstock-chart{max-width:100%;height:auto;display:block}
.penstock-chart text{fill:var(--faint);font-size:11px}
.penstock-chart .title{fill:var(--ink);font-weight:600;font-size:12px}
.penstock-chart .grid{stroke:var(--line);stroke-width:1}
.penstock-chart .axis{stroke:var(--faint);stroke-width:1}
.penstock-chart .curve{fill:none;stroke-width:1.8;stroke-linejoin:round}
.penstock-chart .faded{stroke-width:3.6;opacity:.5}
.penstock-chart .level{stroke:var(--bad);stroke-width:1.3;stroke-dasharray:6 4}
.penstock-chart .level-name{fill:var(--bad)}
.penstock-chart .mark{stroke:var(--accent);stroke-width:1.6}
.penstock-chart .mark:hover{stroke-width:4}
.penstock-chart .t0{stroke:var(--t0)}.penstock-chart .t1{stroke:var(--t1)}
.penstock-chart .t2{stroke:var(--t2)}.penstock-chart .t3{stroke:var(--t3)}
.penstock-chart .t4{stroke:var(--t4)}.penstock-chart .t5{stroke:var(--t5)}
.penstock-chart .f0{fill:var(--t0)}.penstock-chart .f1{fill:var(--t1)}
.penstock-chart .f2{fill:var(--t2)}.penstock-chart .f3{fill:var(--t3)}
.penstock-chart .f4{fill:var(--t4)}.penstock-chart .f5{fill:var(--t5)}
"""
_TONES = 6


def chart(figure: Figure) -> str:
    """All panels below each other, on one x axis."""
    xs = [x for panel in figure.panels for line in panel.lines for x in line.x]
    low, high = min((0.0, *xs)), max((0.0, *xs))
    high = high if high > low else low + 1.0
    step = _TOP + _HIGH + _BOTTOM
    parts = [
        _panel(panel, number * step + _TOP, low, high) for number, panel in enumerate(figure.panels)
    ]
    height = step * len(figure.panels) + 14
    label = escape(clean(figure.title))
    unit = figure.panels[0].x if figure.panels else ""
    return (
        f'<svg class="penstock-chart" viewBox="0 0 {_WIDE:g} {height:g}" width="{_WIDE:g}" '
        f'height="{height:g}" role="img" aria-label="{label}">{"".join(parts)}'
        f"{_text(_WIDE - _RIGHT, height - 4, unit, 'end')}</svg>"
    )


@dataclass(frozen=True)
class _Scales:
    """From values to places: x between two ends, y from a tick at the bottom to one at the top."""

    low: float
    high: float
    top: float
    ticks: tuple[float, ...]
    log: bool

    def across(self, x: float) -> float:
        return _LEFT + (x - self.low) / (self.high - self.low) * (_WIDE - _LEFT - _RIGHT)

    def up(self, value: float) -> float:
        first, last = self.ticks[0], self.ticks[-1]
        inside = min(max(first, value), last)
        if self.log:
            share = math.log(inside / first) / math.log(last / first)
        else:
            share = (inside - first) / (last - first)
        return self.top + _HIGH * (1 - share)


def _panel(panel: Panel, top: float, low: float, high: float) -> str:
    if panel.categories:
        low, high = -0.5, len(panel.categories) - 0.5
    scales = _Scales(low, high, top, _ticks(panel), panel.log)
    parts = [_text(0, top - 10, panel.title or panel.y, "start", "title"), _names(panel, top)]
    for value in scales.ticks:
        y = scales.up(value)
        parts.append(_line(_LEFT, y, _WIDE - _RIGHT, y, "grid"))
        parts.append(_text(_LEFT - 7, y + 4, short(value), "end"))
    along = [(float(n), name) for n, name in enumerate(panel.categories)] or [
        (low + step, short(low + step))
        for step in nice(high - low, 8)
        if low + step <= high * 1.001
    ]
    parts += [_text(scales.across(x), top + _HIGH + 15, name, "middle") for x, name in along]
    parts += _bars(panel, scales)
    for mark in panel.marks:
        x = scales.across(mark.at)
        parts.append(_line(x, top - 4, x, top + 7, "mark", mark.label))
    parts += [_curve(one, number, scales) for number, one in enumerate(panel.lines)]
    parts += [_level(level, scales.up(level.value)) for level in panel.levels]
    return "".join(parts)


def _ticks(panel: Panel) -> tuple[float, ...]:
    values = [
        *(v for line in panel.lines for v in line.y),
        *(v for b in panel.bars for v in b.values),
    ]
    shown = [v for v in values if v is not None and math.isfinite(v)]
    shown += [level.value for level in panel.levels]
    highest = max(shown, default=0.0) if panel.top is None else panel.top
    if not panel.log:
        return tuple(nice(highest))
    lowest = min((v for v in shown if v > 0), default=1.0)
    first, last = math.floor(math.log10(lowest)), math.ceil(math.log10(max(highest, lowest)))
    return tuple(10.0**power for power in range(first, max(last, first + 1) + 1))


def _bars(panel: Panel, scales: _Scales) -> Iterator[str]:
    width = 0.8 / max(1, len(panel.bars))
    floor = scales.up(scales.ticks[0])
    for number, one in enumerate(panel.bars):
        tone = _tone(one.tone, number)
        for n, value in enumerate(one.values):
            if value is None or not math.isfinite(value):
                continue
            left, right = (scales.across(n - 0.4 + width * (number + k)) for k in (0.04, 0.96))
            y = scales.up(value)
            hint = escape(clean(f"{one.label}: {short(value)}"))
            yield (
                f'<rect class="bar f{tone}" x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" '
                f'height="{max(0.0, floor - y):.1f}"><title>{hint}</title></rect>'
            )


def _curve(line: Line, number: int, scales: _Scales) -> str:
    tone = _tone(line.tone, number)
    path: list[str] = []
    dots: list[str] = []
    joined = False
    for x, y in thinned(line):
        if y is None or not math.isfinite(y):
            joined = False
            continue
        right, high = f"{scales.across(x):.1f}", f"{scales.up(y):.1f}"
        if line.style == "points":
            dots.append(f'<circle class="bar f{tone}" cx="{right}" cy="{high}" r="3"/>')
        elif not joined:
            path.append(f"M{right} {high}")
        else:
            path.append(f"H{right}V{high}" if line.style == "step" else f"L{right} {high}")
        joined = True
    faded = " faded" * line.faint
    hint = escape(clean(line.label))
    drawn = f'<path class="curve t{tone}{faded}" d="{"".join(path)}"><title>{hint}</title></path>'
    return "".join(dots) if dots else drawn


def _tone(given: int | None, number: int) -> int:
    return (number if given is None else given) % _TONES


def thinned(line: Line, most: int = _POINTS) -> Iterator[tuple[float, float | None]]:
    """No more points than can be seen: of each stretch its lowest and its highest, in order."""
    pairs = list(zip(line.x, line.y, strict=True))
    if len(pairs) <= most:
        yield from pairs
        return
    size = math.ceil(2 * len(pairs) / most)
    for start in range(0, len(pairs), size):
        stretch = pairs[start : start + size]
        there = [pair for pair in stretch if pair[1] is not None]
        if not there:
            yield stretch[0]
            continue
        ends = {min(there, key=lambda p: p[1] or 0.0), max(there, key=lambda p: p[1] or 0.0)}
        yield from sorted(ends)


def nice(highest: float, about: int = _TICKS) -> list[float]:
    """Round numbers from zero to at least the highest, about so many steps."""
    if not highest > _TINY or not math.isfinite(highest):
        return [0.0, 1.0]
    rough = highest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [float(f"{n * step:.12g}") for n in range(math.ceil(highest / step - 1e-9) + 1)]


def short(value: float) -> str:
    """A number on an axis: `0.25`, `1,500`, `12.5k`, `2M`."""
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= limit:
            return f"{value / divisor:,.3g}{unit}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def _names(panel: Panel, top: float) -> str:
    """The legend, to the right of the title."""
    if len(panel.lines) + len(panel.bars) < 2:
        return ""
    x, parts = _LEFT + 6.6 * len(panel.title or panel.y), []
    named: tuple[Line | Bars, ...] = (*panel.lines, *panel.bars)
    for number, one in enumerate(named):
        tone = _tone(one.tone, number)
        faded = " faded" * (isinstance(one, Line) and one.faint)
        parts.append(_line(x, top - 14, x + 16, top - 14, f"curve t{tone}{faded}"))
        parts.append(_text(x + 21, top - 10, one.label, "start"))
        x += 34 + 6.2 * len(one.label)
    return "".join(parts)


def _level(level: Level, y: float) -> str:
    edge = _WIDE - _RIGHT
    name = _text(edge + 5, y + 4, level.label, "start", "level-name")
    return _line(_LEFT, y, edge, y, "level") + name


def _line(x: float, y: float, right: float, low: float, role: str, hint: str = "") -> str:
    where = f'x1="{x:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{low:.1f}"'
    inside = f"<title>{escape(clean(hint))}</title>" if hint else ""
    return f'<line class="{role}" {where}>{inside}</line>'


def _text(x: float, y: float, words: str, anchor: str, role: str = "") -> str:
    given = f' class="{role}"' if role else ""
    shown = escape(clean(words))
    return f'<text{given} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{shown}</text>'
