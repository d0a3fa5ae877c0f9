"""Number formats, ticks and label placement of charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product

from penstock.drawing.figures import Mark

MARKED, MANY = 40, 60
"""Number of decisions shown if a panel has more than `MANY` of them."""


def text_width(words: str, size: float) -> float:
    """Approximate width of text in a sans-serif font; the reader's font may differ."""
    return size * sum(_em(c) for c in words)


def _em(character: str) -> float:
    if character in " '!()[],-./:;Ifijlrt|":
        return 0.35
    return 0.86 if character in "MWmw@%+=<>→" else 0.69 if character.isupper() else 0.6


# --- numbers --------------------------------------------------------------------------------------


def short(value: float) -> str:
    """Number with three significant digits: `0.25`, `36`, `1,650`, `12.5k`, `2M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit * 0.99995:
            return short(value / (1e3 if unit == "k" else limit)) + unit
    if value and abs(value) < 0.0005:
        return f"{value:.2g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return _rounded(value, digits)


def same_precision(values: Sequence[float], digits: int) -> list[str]:
    """Numbers with equal decimals; the largest has `digits` significant digits."""
    most = max(map(abs, values), default=0.0)
    after = digits - 1 - math.floor(math.log10(most)) if most else 0
    if most >= 1000 and after < 0:
        return [_rounded(v / 1000, 3 + after) + ("k" if round(v, after) else "") for v in values]
    if most >= 1e4:
        return [short(v) for v in values]
    return [_rounded(v, max(0, after)) for v in values]


def _rounded(value: float, digits: int) -> str:
    shown = f"{value:,.{digits}f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return "0" if shown == "-0" else shown


# --- ticks ----------------------------------------------------------------------------------------


def ticks(low: float, high: float, about: int = 4, *, whole: bool = False) -> list[float]:
    """Round values in about `about` steps that enclose `low` to `high`.

    whole: integers only.
    """
    reach = high - low
    if not math.isfinite(reach) or reach <= 1e-12 * max(abs(low), abs(high), 1e-280):
        return [0.0, 1.0] if not math.isfinite(high) or high <= 0 else [0.0, float(high)]
    rough = reach / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    if whole:
        step = float(max(1, math.ceil(step)))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{n * step:.12g}") for n in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten that enclose two positive values; 1-2-5 steps for short ranges.

    A range below a factor of 50 counts as short.
    """
    if high / low >= 50:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return [10.0**power for power in range(first, max(last, first + 1) + 1)]
    power = math.floor(math.log10(low))
    steps = [m * 10.0 ** (power + n) for n in range(4) for m in (1, 2, 5)]
    first = max(n for n, step in enumerate(steps) if step <= low * 1.000001)
    last = next(n for n, step in enumerate(steps) if step >= high * 0.999999)
    return steps[first : max(last, first + 1) + 1]


# --- places ---------------------------------------------------------------------------------------


def columns(widths: Sequence[float], gap: float, room: float) -> int:
    """Number of legend columns that fit; earlier columns may have one entry more.

    gap: room that each column needs besides its widest entry.
    """
    for across in range(len(widths), 1, -1):
        least, longer = divmod(len(widths), across)
        ends = [0, *accumulate(least + (at < longer) for at in range(across))]
        if sum(max(widths[a:b]) + gap for a, b in pairwise(ends)) <= room:
            return across
    return 1


def spread(places: Sequence[float], least: float) -> list[float]:
    """Ascending positions, moved as little as needed to be `least` apart."""
    found = list(places)
    for _ in range(100):
        moved = False
        for at, (below, above) in enumerate(pairwise(found)):
            if above - below < least - 1e-6:
                middle = (below + above) / 2
                found[at], found[at + 1] = middle - least / 2, middle + least / 2
                moved = True
        if not moved:
            break
    return found


def largest(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """The decisions to show: if there are very many, those with the largest change."""
    if len(marks) <= MANY:
        return tuple(marks)
    most = sorted(marks, key=lambda mark: -mark.size)[:MARKED]
    return tuple(sorted(most, key=lambda mark: mark.at))


@dataclass(frozen=True)
class MarkLabel:
    """Position of a decision's label: row 0 is on top; left or right of the tick."""

    mark: Mark
    row: int
    left: bool
    begin: float
    end: float

    def clear_of(self, other: MarkLabel) -> bool:
        """True if neither label covers the other or the tick of the other."""
        if self.row == other.row:
            return self.end < other.begin or self.begin > other.end
        low, high = (self, other) if self.row > other.row else (other, self)
        return not high.begin <= low.mark.at <= high.end


def mark_labels(
    marks: Sequence[Mark], widths: Sequence[float], low: float, high: float
) -> tuple[MarkLabel, ...]:
    """Place the labels that fit, largest decisions first; slight decisions get none.

    widths: of the labels, in the units of the axis from `low` to `high`.
    """
    slight = 0.1 * max((mark.size for mark in marks), default=0.0)
    found: list[MarkLabel] = []
    for mark, wide in sorted(zip(marks, widths, strict=True), key=lambda one: -one[0].size):
        if not mark.label or mark.size < slight:
            continue
        for left, row in product((False, True), (0, 1)):
            begin = mark.at - wide if left else mark.at
            label = MarkLabel(mark, row, left, begin, begin + wide)
            inside = low <= begin and begin + wide <= high
            if inside and all(label.clear_of(other) for other in found):
                found.append(label)
                break
    return tuple(found)
