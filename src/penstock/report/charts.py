"""Figures as SVG for a page: drawn by hand, light or dark as the reader has it, no scripts.

The same values that `figures.save` gives to matplotlib. Only lines over x are drawn here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

from penstock.report.figures import Figure, Level, Line, Panel
from penstock.report.svg import clean

_WIDE, _HIGH = 1060.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 84.0, 26.0, 22.0
_POINTS = 700
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
"""
_TONES = 6
_Scale = Callable[[float], float]


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


def _panel(panel: Panel, top: float, low: float, high: float) -> str:
    def across(x: float) -> float:
        return _LEFT + (x - low) / (high - low) * (_WIDE - _LEFT - _RIGHT)

    shown = [v for line in panel.lines for v in line.y if v is not None and math.isfinite(v)]
    highest = max((*shown, *(level.value for level in panel.levels)), default=0.0)
    ticks = nice(highest if panel.top is None else panel.top)
    scale = _HIGH / ticks[-1]
    bottom = top + _HIGH

    def up(value: float) -> float:
        return bottom - min(max(0.0, value), ticks[-1]) * scale

    parts = [_text(0, top - 10, panel.title or panel.y, "start", "title"), _names(panel, top)]
    for value in ticks:
        parts.append(_line(_LEFT, up(value), _WIDE - _RIGHT, up(value), "grid"))
        parts.append(_text(_LEFT - 7, up(value) + 4, short(value), "end"))
    for value in nice(high - low, 8):
        x = across(low + value)
        if x <= _WIDE - _RIGHT + 0.5:
            parts.append(_text(x, bottom + 15, short(low + value), "middle"))
    for mark in panel.marks:
        x, hint = across(mark.at), escape(clean(mark.label))
        parts.append(_line(x, top - 4, x, top + 7, "mark", hint))
    for number, one in enumerate(panel.lines):
        parts.append(_curve(one, number, across, up))
    for level in panel.levels:
        parts.append(_level(level, up(level.value)))
    return "".join(parts)


def _curve(line: Line, number: int, across: _Scale, up: _Scale) -> str:
    tone = (number if line.tone is None else line.tone) % _TONES
    path: list[str] = []
    before: float | None = None
    for x, y in thinned(line):
        if y is None or not math.isfinite(y):
            before = None
            continue
        right, high = f"{across(x):.1f}", f"{up(y):.1f}"
        if before is None:
            path.append(f"M{right} {high}")
        elif line.style == "step":
            path.append(f"H{right}V{high}")
        else:
            path.append(f"L{right} {high}")
        before = y
    faded = " faded" * line.faint
    hint = escape(clean(line.label))
    return f'<path class="curve t{tone}{faded}" d="{"".join(path)}"><title>{hint}</title></path>'


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
    if not highest > 0 or not math.isfinite(highest):
        return [0.0, 1.0]
    rough = highest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [round(n * step, 12) for n in range(math.ceil(highest / step - 1e-9) + 1)]


def short(value: float) -> str:
    """A number on an axis: `0.25`, `1,500`, `12.5k`, `2M`."""
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= limit:
            return f"{value / divisor:,.3g}{unit}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def _names(panel: Panel, top: float) -> str:
    """The legend, to the right of the title."""
    if len(panel.lines) < 2:
        return ""
    x, parts = _LEFT + 6.6 * len(panel.title or panel.y), []
    for number, line in enumerate(panel.lines):
        tone = (number if line.tone is None else line.tone) % _TONES
        faded = " faded" * line.faint
        parts.append(_line(x, top - 14, x + 16, top - 14, f"curve t{tone}{faded}"))
        parts.append(_text(x + 21, top - 10, line.label, "start"))
        x += 34 + 6.2 * len(line.label)
    return "".join(parts)


def _level(level: Level, y: float) -> str:
    edge = _WIDE - _RIGHT
    name = _text(edge + 5, y + 4, level.label, "start", "level-name")
    return _line(_LEFT, y, edge, y, "level") + name


def _line(x: float, y: float, right: float, low: float, role: str, hint: str = "") -> str:
    where = f'x1="{x:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{low:.1f}"'
    inside = f"<title>{hint}</title>" if hint else ""
    return f'<line class="{role}" {where}>{inside}</line>'


def _text(x: float, y: float, words: str, anchor: str, role: str = "") -> str:
    given = f' class="{role}"' if role else ""
    shown = escape(clean(words))
    return f'<text{given} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{shown}</text>'
