"""Lays out figures as sketches: axes, legends, lines, bars and labels."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from penstock.drawing import chart_labels as labels
from penstock.drawing.chart_labels import short, text_width
from penstock.drawing.figures import Bars, Figure, Line, Panel
from penstock.drawing.sketch import SERIES, Box, Curve, Dot, Label, Shape, Sketch

_EDGE, _GAP = 14.0, 22.0
_TICK, _LEGEND, _HEAD, _NUMBER, _TITLE = 11.0, 11.5, 12.5, 10.0, 15.0
_ROW = 17.0  # height of a line of text above a panel
_GROUP = 0.86  # share of a category that its bars take
_MAX_POINTS = 700  # per line; more cannot be told apart
_DASHES = ((6.0, 6.0), (3.0, 9.0), (1.5, 10.5))
"""Dashes where a line covers one, two or more others, which show in the gaps."""


def chart(
    figure: Figure,
    *,
    width: float = 0.0,
    height: float = 0.0,
    titled: bool = True,
    labelled: bool = True,
) -> Sketch:
    """Lay out a figure, panel by panel.

    width: of the whole figure; height: of the axes of a panel; 0 chooses a default. titled: draw
    title and note. labelled: draw the labels of decisions, which otherwise are tooltips only.
    """
    width = width or (780.0 if figure.columns == 1 else min(1180.0, 470.0 * figure.columns))
    rows = math.ceil(len(figure.panels) / figure.columns)
    height = height or (230.0 if rows == 1 else 165.0)
    each = (width - 2 * _EDGE - (figure.columns - 1) * _GAP) / figure.columns
    top = _EDGE + (26.0 if titled else 0.0)
    shapes: list[Shape] = []
    if titled:
        shapes.append(Label(_EDGE, _EDGE + 12, figure.title, "words", _TITLE, bold=True))
    for row in range(rows):
        first = row * figure.columns
        panels = figure.panels[first : first + figure.columns]
        below = figure.panels[first + figure.columns :]
        drawn = [
            _Panel.of(
                one, figure, each, named=n >= len(below) or below[n].x != one.x, labelled=labelled
            )
            for n, one in enumerate(panels)
        ]
        head, foot = max(one.head for one in drawn), max(one.foot for one in drawn)
        for n, one in enumerate(drawn):
            shapes += one.shapes(_EDGE + n * (each + _GAP), top, top + head, height)
        top += head + height + foot + 12
    if titled and figure.note:
        shapes.append(Label(_EDGE, top + 8, figure.note, "faint", _NUMBER))
        top += 14
    return Sketch(figure.title, width, top + 4, tuple(shapes))


@dataclass(frozen=True)
class _Scale:
    """Maps axis values to positions in the sketch; clips values beyond the y axis."""

    left: float
    right: float
    top: float
    bottom: float
    low: float
    high: float
    first: float
    last: float
    log: bool

    def x(self, value: float) -> float:
        return self.left + (value - self.low) / (self.high - self.low) * (self.right - self.left)

    def y(self, value: float) -> float:
        inside = min(max(self.first, value), self.last)
        if self.log:
            first = math.log(self.first)
            share = (math.log(inside) - first) / (math.log(self.last) - first)
        else:
            share = (inside - self.first) / (self.last - self.first)
        return self.bottom - share * (self.bottom - self.top)


@dataclass(frozen=True)
class _Panel:
    """A panel and the room for labels around its axes."""

    panel: Panel
    width: float
    left: float
    right: float
    named: bool
    labelled: bool
    ticks: tuple[float, ...]

    @classmethod
    def of(
        cls, panel: Panel, figure: Figure, width: float, *, named: bool, labelled: bool
    ) -> _Panel:
        """named: draw the label of the x axis. All panels of a figure have equal margins."""
        numbers = [text_width(short(t), _TICK) for p in figure.panels for t in _ticks(p)]
        levels = [text_width(one.label, _TICK) for p in figure.panels for one in p.levels]
        left = max(30.0, *numbers) + 8
        right = max((0.0, *levels)) + 10
        return cls(panel, width, left, right, named, labelled, _ticks(panel))

    @property
    def room(self) -> float:
        return self.width - self.left - self.right

    @property
    def span(self) -> tuple[float, float]:
        """Lower and upper end of the x axis."""
        if self.panel.bars:
            return -0.5, len(self.panel.categories) - 0.5
        ends = [x for line in self.panel.lines for x in line.x]
        ends += [mark.at for mark in self.panel.marks] if not ends else []
        low, high = min(ends, default=0.0), max(ends, default=1.0)
        points = any(line.style == "points" for line in self.panel.lines)
        pad = (high - low or 1.0) * (0.03 if points else 0.01)
        return low - pad, high + pad

    # --- around the axes --------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """Title of the panel, with the unit of the y axis unless the title contains it."""
        panel = self.panel
        told = not panel.title or panel.y in panel.title
        return (panel.title or panel.y) if told else f"{panel.title}: {panel.y}"

    @property
    def entries(self) -> tuple[tuple[str, Line | Bars | None], ...]:
        """Legend entries; None stands for the decisions."""
        named: list[tuple[str, Line | Bars | None]] = [(x.label, x) for x in self.panel.lines]
        named += [(x.label, x) for x in self.panel.bars]
        marks = labels.largest(self.panel.marks)
        if self.panel.marked and marks:
            more = len(marks) < len(self.panel.marks)
            few = f" ({len(marks)} largest of {len(self.panel.marks)})" if more else ""
            named.append((self.panel.marked + few, None))
        return tuple(named) if len(named) > 1 or self.panel.marked else ()

    @property
    def across(self) -> int:
        """Number of columns of the legend."""
        widths = [text_width(name, _LEGEND) for name, _ in self.entries]
        return labels.columns(widths, 38, self.width - self.left)

    @property
    def marked(self) -> tuple[labels.MarkLabel, ...]:
        """Labels of decisions, in a separate strip above the axes."""
        if not self.labelled:
            return ()
        low, high = self.span
        unit = (high - low) / self.room
        marks = labels.largest(self.panel.marks)
        widths = [(text_width(mark.label, _NUMBER) + 8) * unit for mark in marks]
        return labels.mark_labels(marks, widths, low, high)

    @property
    def strip(self) -> float:
        """Height above the axes for labels of decisions or numbers on bars."""
        rows = max((1 + one.row for one in self.marked), default=0)
        upright = self.panel.bars and self.numbers[2]
        bars = (26.0 if upright else 12.0) if self.panel.bars else 0.0
        return max(12.0 * rows, bars, 6.0)

    @property
    def head(self) -> float:
        rows = math.ceil(len(self.entries) / self.across) if self.entries else 0
        return _ROW * (1 + rows) + self.strip

    @property
    def foot(self) -> float:
        lines = max((one.count("\n") for one in self.categories[0]), default=0)
        tilted = 40.0 if self.categories[1] else 0.0
        return 18 + 13 * lines + tilted + (16 if self.named and self.panel.x else 0)

    @property
    def categories(self) -> tuple[tuple[str, ...], float]:
        """Category names and their angle; long names are broken into lines or tilted."""
        names = self.panel.categories
        room = self.room / max(1, len(names)) * 0.96
        if all(text_width(name, _TICK) <= room for name in names):
            return names, 0.0
        broken = tuple(name.replace(" ", "\n") for name in names)
        if all(text_width(part, _TICK) <= room for name in broken for part in name.split("\n")):
            return broken, 0.0
        return names, 30.0

    @property
    def numbers(self) -> tuple[list[str], float, bool]:
        """Numbers on bars, their font size, and True if they must be vertical."""
        values = [v for one in self.panel.bars for v in one.values if v is not None]
        room = 0.94 * self.room / len(self.panel.categories) * _GROUP / len(self.panel.bars)
        full = list(map(short, values)) if self.panel.log else labels.same_precision(values, 3)
        brief = full
        if not self.panel.log and max(values, default=0.0) >= 1000:
            brief = labels.same_precision(values, 2)
        for words, size in ((full, _NUMBER), (full, 9.0), (brief, _NUMBER), (brief, 9.0)):
            if all(text_width(word, size) < room for word in words):
                return words, size, False
        return full, _NUMBER, True

    # --- shapes -----------------------------------------------------------------------------------

    def shapes(self, left: float, head: float, top: float, height: float) -> Iterator[Shape]:
        """Yield all shapes: title and legend from `head` on, axes from `top` on."""
        low, high = self.span
        begin, end = left + self.left, left + self.width - self.right
        first, last = self.ticks[0], self.ticks[-1]
        bottom = top + height
        scale = _Scale(begin, end, top, bottom, low, high, first, last, self.panel.log)
        yield Label(left, head + 11, self.title, "words", _HEAD, bold=True)
        yield from self._legend(left + self.left, head + _ROW + 11)
        yield from self._grid(scale)
        for number, line in enumerate(self.panel.lines):
            yield from _line(self.panel, line, number, scale)
        yield from self._bars(scale)
        yield from self._levels(scale)
        yield from self._marks(scale)
        if self.named:
            yield Label(
                (begin + end) / 2, bottom + self.foot, self.panel.x, "faint", _TICK, "middle"
            )

    def _legend(self, left: float, y: float) -> Iterator[Shape]:
        if not self.entries:
            return
        least, longer = divmod(len(self.entries), self.across)
        x, at = left, 0
        for column in range(self.across):
            part = self.entries[at : at + least + (column < longer)]
            for row, (name, what) in enumerate(part):
                line = y + row * _ROW
                yield _key(what, self._tone(what), x, line - 4)
                yield Label(x + 21, line, name, "faint", _LEGEND)
            x += max(text_width(name, _LEGEND) for name, _ in part) + 38
            at += len(part)

    def _tone(self, what: Line | Bars | None) -> int:
        if what is None:
            return 0
        among: Sequence[Line | Bars] = (
            self.panel.lines if isinstance(what, Line) else self.panel.bars
        )
        return _tone(what.tone, next(n for n, one in enumerate(among) if one is what))

    def _grid(self, scale: _Scale) -> Iterator[Shape]:
        for value in self.ticks:
            y = scale.y(value)
            yield _straight(scale.left, y, scale.right, y, "grid", 1.0)
            yield Label(scale.left - 7, y + 4, short(value), "faint", _TICK, "end")
        yield _straight(scale.left, scale.bottom, scale.right, scale.bottom, "axis", 1.0)
        if self.panel.bars:
            names, angle = self.categories
            for n, name in enumerate(names):
                for row, part in enumerate(name.split("\n")):
                    y = scale.bottom + 15 + 13 * row
                    anchor = "end" if angle else "middle"
                    yield Label(scale.x(n), y, part, "faint", _TICK, anchor, angle=angle)  # type: ignore[arg-type]
            return
        for place, name in self._places():
            yield _straight(
                scale.x(place), scale.bottom, scale.x(place), scale.bottom + 4, "axis", 1.0
            )
            yield Label(scale.x(place), scale.bottom + 16, name, "faint", _TICK, "middle")

    def _places(self) -> Iterator[tuple[float, str]]:
        """Yield ticks of the x axis: the values themselves if few, else round numbers."""
        low, high = self.span
        places = sorted({x for line in self.panel.lines for x in line.x})
        nearest = min((b - a for a, b in pairwise(places)), default=1.0)
        if 0 < len(places) <= 8 and nearest > 0.04 * (places[-1] - places[0]):
            yield from ((x, f"{x:g}") for x in places)
            return
        whole = all(x == round(x) for x in places)
        about = max(2, min(9, int(self.room / 70)))
        shown = [t for t in labels.ticks(low, high, about, whole=whole) if low <= t <= high]
        yield from ((x, short(x)) for x in shown)

    def _bars(self, scale: _Scale) -> Iterator[Shape]:
        if not self.panel.bars:
            return
        words, size, upright = self.numbers
        wide = _GROUP / len(self.panel.bars)
        floor = scale.y(max(0.0, scale.first) if not scale.log else scale.first)
        said = iter(words)
        for number, one in enumerate(self.panel.bars):
            role = f"fill{_tone(one.tone, number)}"
            for n, value in enumerate(one.values):
                if value is None:
                    continue
                word = next(said)
                if not math.isfinite(value):
                    continue
                middle = n + (number - (len(self.panel.bars) - 1) / 2) * wide
                left, right = (scale.x(middle + wide * k) for k in (-0.46, 0.46))
                y = scale.y(value)
                top, high = min(y, floor), abs(floor - y)
                yield Box(left, top, right - left, high, role, 0.0, f"{one.label}: {short(value)}")
                if one.spread:
                    yield from _error_bar(scale, scale.x(middle), value, one.spread[n])
                    continue
                yield self._number(scale, word, size, upright, scale.x(middle), value)

    def _number(
        self, scale: _Scale, word: str, size: float, upright: bool, x: float, value: float
    ) -> Label:
        """Number of a bar, above it and clear of reference lines."""
        if value < 0:
            return Label(x, scale.y(value) + size + 1, word, "words", size, "middle")
        y, high = scale.y(value) - 3, text_width(word, size) if upright else size
        for level in sorted(self.panel.levels, key=lambda one: one.value):
            line = scale.y(level.value)
            if y - high - 1 < line < y + 2:
                y = line - 3
        if upright:
            return Label(x + size / 3, y, word, "words", size, angle=90)
        return Label(x, y, word, "words", size, "middle")

    def _levels(self, scale: _Scale) -> Iterator[Shape]:
        named = sorted(self.panel.levels, key=lambda one: -one.value)
        places = [scale.y(one.value) for one in named]
        for one, y, free in zip(named, places, labels.spread(places, 13), strict=True):
            yield _straight(scale.left, y, scale.right, y, "level", 1.3, dash=(6.0, 4.0))
            yield Label(scale.right + 5, free + 4, one.label, "alarm", _TICK)

    def _marks(self, scale: _Scale) -> Iterator[Shape]:
        for mark in labels.largest(self.panel.marks):
            x = scale.x(mark.at)
            top = scale.top if self.marked else scale.top - 4
            yield _straight(x, top, x, scale.top + 8, "mark", 1.6, hint=mark.label)
        for one in self.marked:
            x = scale.x(one.mark.at)
            y = scale.top - 12 * (1 + max(o.row for o in self.marked) - one.row)
            yield _straight(x, y + 1, x, scale.top, "mark", 1.2)
            side, anchor = (-4, "end") if one.left else (4, "start")
            yield Label(x + side, y + 10, one.mark.label, "words", _NUMBER, anchor)  # type: ignore[arg-type]


def _ticks(panel: Panel) -> tuple[float, ...]:
    """Ticks of the y axis, from zero or the lowest value up to the highest."""
    shown = [*_values(panel), *(level.value for level in panel.levels)]
    highest = max(shown, default=1.0) if panel.top is None else panel.top
    if panel.log:
        positive = [v for v in shown if v > 0] or [1.0]
        return tuple(labels.log_ticks(min(positive), max(*positive, highest)))
    whole = all(v == round(v) for v in shown)
    found = labels.ticks(min((0.0, *shown)), highest, 4, whole=whole and highest >= 1)
    if panel.top is not None:
        return (*(t for t in found if t < panel.top), panel.top)
    return tuple(found)


def _values(panel: Panel) -> list[float]:
    shown: Iterable[float | None] = (
        *(y for line in panel.lines for y in line.y),
        *(v for one in panel.bars for v in one.values),
    )
    return [v for v in shown if v is not None and math.isfinite(v)]


def _tone(given: int | None, number: int) -> int:
    return (number if given is None else given) % len(SERIES)


def _straight(
    x: float, y: float, right: float, low: float, role: str, width: float, *,
    hint: str = "", dash: tuple[float, ...] = (),
) -> Curve:  # fmt: skip
    return Curve((x, y), ((right, low),), role, width, hint=hint, dash=dash)


def _key(what: Line | Bars | None, tone: int, x: float, y: float) -> Shape:
    """Legend symbol of an entry."""
    if what is None:
        return _straight(x + 8, y - 5, x + 8, y + 5, "mark", 1.2)
    if isinstance(what, Bars):
        return Box(x + 2, y - 5, 12, 10, f"fill{tone}", 2.0)
    if what.style == "points":
        return Dot(x + 8, y, 3.5, f"fill{tone}")
    opacity = 0.5 if what.faint else 1.0
    return Curve((x, y), ((x + 16, y),), f"line{tone}", 2.2, opacity=opacity)


def _error_bar(scale: _Scale, x: float, value: float, spread: float | None) -> Iterator[Shape]:
    if spread:
        high, low = scale.y(value + spread), scale.y(value - spread)
        yield _straight(x, high, x, low, "mark", 1.0)
        for y in (high, low):
            yield _straight(x - 3, y, x + 3, y, "mark", 1.0)


# --- lines ----------------------------------------------------------------------------------------


def _line(panel: Panel, line: Line, number: int, scale: _Scale) -> Iterator[Shape]:
    tone = _tone(line.tone, number)
    if line.style == "points":
        for x, y in zip(line.x, line.y, strict=True):
            if y is not None and math.isfinite(y):
                yield Dot(scale.x(x), scale.y(y), 3.2, f"fill{tone}", f"{line.label}: {short(y)}")
        return
    width, opacity = (3.2, 0.45) if line.faint else (1.8, 1.0)
    for covered, part in _parts(line, _covers(panel, number)):
        dash = _DASHES[min(covered, len(_DASHES)) - 1] if covered else ()
        for run in _runs(part):
            places = [(scale.x(x), scale.y(y)) for x, y in run]
            if line.style == "step":
                places = [p for a, b in pairwise(places) for p in (a, (b[0], a[1]))] + places[-1:]
            yield Curve(
                places[0], tuple(places[1:]) or (places[0],), f"line{tone}", width,
                hint=line.label, dash=dash, opacity=opacity,
            )  # fmt: skip
    if _few_points(panel) and line.style == "line":
        for x, y in zip(line.x, line.y, strict=True):
            if y is not None and math.isfinite(y):
                yield Dot(scale.x(x), scale.y(y), 2.6, f"fill{tone}")


def _few_points(panel: Panel) -> bool:
    """True if all lines have few enough points to draw each as a dot."""
    most = max((len(line.x) for line in panel.lines), default=0)
    whole = all(x == round(x) for line in panel.lines for x in line.x)
    return most <= (30 if whole else 12)


_Pair = tuple[float, float | None]


def _parts(line: Line, covers: Sequence[int]) -> Iterator[tuple[int, list[_Pair]]]:
    """Yield parts of a line, each with the number of other lines it covers."""
    pairs = [*zip(line.x, line.y, strict=True)]
    if not any(covers):
        yield 0, [*thinned(line)]
        return
    begin = 0
    for covered, part in groupby(covers):
        end = begin + len(list(part))
        yield covered, pairs[begin : end + 1]
        begin = end


def _runs(pairs: Iterable[_Pair]) -> Iterator[list[tuple[float, float]]]:
    """Yield runs of points without a gap."""
    run: list[tuple[float, float]] = []
    for x, y in pairs:
        if y is not None and math.isfinite(y):
            run.append((x, y))
        elif run:
            yield run
            run = []
    if run:
        yield run


def thinned(line: Line, most: int = _MAX_POINTS) -> Iterator[_Pair]:
    """Yield at most `most` points of a line: minimum and maximum of each stretch."""
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


def _covers(panel: Panel, number: int) -> list[int]:
    """For each segment of a line, the number of earlier lines it covers for a while."""
    line = panel.lines[number]
    pieces = max(0, len(line.x) - 1)
    found = [0] * pieces
    if line.faint:
        return found
    for other in panel.lines[:number]:
        if other.faint or other.style == "points":
            continue
        near = 0.012 * _extent(panel)
        pairs = ((_value_at(other, x), y) for x, y in zip(line.x, line.y, strict=True))
        same = [_same(a, b, near, panel.log) for a, b in pairs]
        both = [a and b for a, b in pairwise(same)]
        begin = 0
        for shared, part in groupby(both):
            end = begin + len(list(part))
            if shared and end - begin > pieces / 20:
                found[begin:end] = [one + 1 for one in found[begin:end]]
            begin = end
    return found


def _same(one: float | None, other: float | None, near: float, log: bool) -> bool:
    """True if two values look the same in the chart."""
    if one is None or other is None:
        return False
    if log:
        return one > 0 < other and abs(math.log(one / other)) <= near
    return abs(one - other) <= near


def _extent(panel: Panel) -> float:
    values = [v for v in _values(panel) if v > 0] or [1.0]
    return math.log(max(values) / min(values)) if panel.log else max(values)


def _value_at(line: Line, x: float) -> float | None:
    """Value of a line at `x`, interpolated; None outside its range."""
    after = bisect_right(line.x, x)
    if not after or x > line.x[-1]:
        return None
    left = line.y[after - 1]
    if line.style == "step" or after == len(line.x) or line.x[after - 1] == x:
        return left
    right, begin, end = line.y[after], line.x[after - 1], line.x[after]
    if left is None or right is None:
        return None
    return left + (right - left) * (x - begin) / (end - begin)
