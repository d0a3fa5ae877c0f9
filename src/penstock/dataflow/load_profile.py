"""Load profiles: how many records per second are due, and when each record is.

The rate is piecewise linear, so the number of records due by a time is piecewise quadratic and has
an exact inverse. The generators and the simulator both follow it.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.dataflow import duration
from penstock.errors import InvalidInput

Floats = npt.NDArray[np.float64]

SINE_SEGMENTS = 64
"""Linear segments per period of a sine; the error is within 0.13 % of the amplitude."""

MAX_RATE = 1e9
"""The highest rate accepted; above it, the times of two records become equal floats."""


@dataclass(frozen=True)
class Segment:
    """A stretch of time in which the rate changes linearly from `first` to `last`."""

    seconds: float
    first: float
    last: float

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and math.isfinite(self.seconds)):
            raise InvalidInput(f"a stretch of {self.seconds:g}s is not longer than zero")
        for rate in (self.first, self.last):
            if not 0 <= rate <= MAX_RATE:
                raise InvalidInput(
                    f"a rate of {rate:g} records/s is not between 0 and {MAX_RATE:g}"
                )

    @property
    def count(self) -> float:
        return self.seconds * (self.first + self.last) / 2


class _Table(NamedTuple):
    """The segments as columns; `before` and `after`: records due by its start and end."""

    start: Floats
    seconds: Floats
    first: Floats
    slope: Floats
    before: Floats
    after: Floats


@dataclass(frozen=True)
class Load:
    """A rate over time. After the last segment it repeats, or holds the last rate.

    Record i (from 0) is due when the integral of the rate reaches i + 1, so `offered(t)` is the
    integral rounded down, and equals the number of records whose `arrival` is at most t.
    """

    segments: tuple[Segment, ...]
    repeats: bool = False
    text: str = ""

    def __post_init__(self) -> None:
        if not self.segments:
            raise InvalidInput("a load needs at least one rate")

    def __str__(self) -> str:
        return self.text

    @property
    def portable(self) -> str:
        """The load as text that needs no trace file."""
        if "trace:" not in self.text:
            return self.text
        points, at = [(0.0, self.segments[0].first)], 0.0
        for segment in self.segments:
            points += [(at, segment.first), (at + segment.seconds, segment.last)]
            at += segment.seconds
        return "points:" + ",".join(f"{t!r}={rate!r}" for t, rate in dict.fromkeys(points))

    @cached_property
    def period(self) -> float:
        """Length of all segments in seconds."""
        return math.fsum(p.seconds for p in self.segments)

    @cached_property
    def _table(self) -> _Table:
        segments = self.segments
        counts = np.array([p.count for p in segments])
        after = np.cumsum(counts)
        start = np.concatenate([[0.0], np.cumsum([p.seconds for p in segments])])
        table = _Table(
            start=start[:-1],
            seconds=np.diff(start),
            first=np.array([p.first for p in segments]),
            slope=np.array([(p.last - p.first) / p.seconds for p in segments]),
            before=np.concatenate([[0.0], after[:-1]]),
            after=after,
        )
        if self.repeats:
            return table
        hold = segments[-1].last
        last = (start[-1], np.inf, hold, 0.0, after[-1], np.inf if hold > 0 else after[-1])
        return _Table(*(np.append(column, x) for column, x in zip(table, last, strict=True)))

    @property
    def peak(self) -> float:
        """The highest rate."""
        return max(max(p.first, p.last) for p in self.segments)

    def rate(self, at: float) -> float:
        """Return the rate at a time; at a jump, the rate after it."""
        table, within = self._table, float(at)
        if self.repeats:
            within = min(math.fmod(within, self.period), float(table.start[-1] + table.seconds[-1]))
        segment = max(int(np.searchsorted(table.start, within, side="right")) - 1, 0)
        return float(
            table.first[segment] + table.slope[segment] * max(within - table.start[segment], 0)
        )

    def cumulative(self, at: npt.ArrayLike) -> Floats:
        """Return the integral of the rate from 0 s to each time, not rounded."""
        table = self._table
        within = np.maximum(np.asarray(at, dtype=np.float64), 0.0)
        whole = np.zeros_like(within)
        if self.repeats:
            whole = np.floor(within / self.period)
            within = np.clip(within - whole * self.period, 0.0, self.period)
        segment = np.searchsorted(table.start, within, side="right") - 1
        x = within - table.start[segment]
        count = table.before[segment] + x * (table.first[segment] + 0.5 * table.slope[segment] * x)
        return np.asarray(count + whole * self._total)

    def offered(self, at: float) -> int:
        """Return the number of records due by a time, in exact agreement with `arrival`."""
        count = max(math.floor(self.cumulative(at)), 0)
        # The integral and its inverse are both rounded; the inverse decides, so that no record is
        # offered before it is due.
        while self._arrival_of(count) <= at:
            count += 1
        while count > 0 and self._arrival_of(count - 1) > at:
            count -= 1
        return count

    def arrival(self, index: npt.ArrayLike) -> Floats:
        """Return when each record is due, in seconds; infinity if the load ends before."""
        table = self._table
        due = np.asarray(index, dtype=np.float64) + 1.0
        whole = np.zeros_like(due)
        if self.repeats:
            if self._total == 0:
                return np.full_like(due, np.inf)
            whole = np.maximum(np.ceil(due / self._total) - 1.0, 0.0)
            due = np.minimum(due - whole * self._total, self._total)
        # The first segment that ends with enough records; segments without records are skipped.
        segment = np.searchsorted(table.after, due, side="left")
        never = segment == len(table.after)
        segment = np.where(never, 0, segment)
        count = due - table.before[segment]
        first, slope = table.first[segment], table.slope[segment]
        # The smaller root of first * x + slope * x^2 / 2 = count, in the form that neither divides
        # by a slope of zero nor subtracts numbers of similar size.
        root = np.sqrt(np.maximum(first * first + 2.0 * slope * count, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.fmin(2.0 * count / (first + root), table.seconds[segment])
        time = table.start[segment] + np.maximum(x, 0.0) + whole * self.period
        return np.asarray(np.where(never, np.inf, time))

    def scaled(self, factor: float) -> Load:
        """Return the load with every rate multiplied."""
        if not (factor >= 0 and math.isfinite(factor)):
            raise InvalidInput(f"a load cannot be scaled by {factor:g}")
        segments = (Segment(p.seconds, p.first * factor, p.last * factor) for p in self.segments)
        return replace(self, segments=tuple(segments), text=f"{factor!r}*{self.text}")

    def since(self, at: float) -> Load:
        """Return the load from a time on; its text is for people and cannot be parsed."""
        within = math.fmod(at, self.period) if self.repeats else at
        rest, passed, start = [], [], 0.0
        for segment in self.segments:
            cut = min(max(within - start, 0.0), segment.seconds)
            rate = segment.first + (segment.last - segment.first) * (cut / segment.seconds)
            if cut < segment.seconds:
                rest.append(Segment(segment.seconds - cut, rate, segment.last))
            if cut > 0:
                passed.append(Segment(cut, segment.first, rate))
            start += segment.seconds
        hold = self.segments[-1].last
        ahead = [*rest, *passed] if self.repeats else rest or [Segment(1.0, hold, hold)]
        steady = len({rate for p in ahead for rate in (p.first, p.last)}) == 1
        text = self.text if steady else f"{self.text}, from {duration.text(round(at))} on"
        return Load(tuple(ahead), self.repeats, text)

    @property
    def _total(self) -> float:
        return float(self._table.after[len(self.segments) - 1])

    def _arrival_of(self, index: int) -> float:
        return float(self.arrival(index))


def parse(text: str) -> Load:
    """Read a load as it is written on the command line.

    `5000/s` (also `300/m`, `5k/s`); `steps:1000,4000,1000@20s` holds each rate for 20 s and
    repeats; `ramp:1000-5000@60s` rises and holds; `sine:1000-5000@60s` oscillates with a period of
    60 s, rising from the middle; `spikes:1000,8000@30s` ends every 30 s with a spike of a tenth of
    that time (`@30s/3s` sets its length); `days:1000-5000@24h/3` goes from night to noon to night,
    with 3 bursts of a hundredth of a day; `trace:file.csv` has lines of seconds and rate, which are
    interpolated; `points:0=1000,60=5000` is a trace written inline. A factor can precede each of
    them: `0.5*sine:...`.
    """
    given = text.strip()
    try:
        return replace(_parse(given), text=given)
    except InvalidInput as why:
        message = f"cannot read the load '{text}': {why}"
        raise InvalidInput(" ".join(message.split())) from None


def _parse(text: str) -> Load:
    factor, star, rest = text.partition("*")
    if star and _NUMBER.fullmatch(factor.strip()):
        return _parse(rest.strip()).scaled(_number(factor))
    kind, colon, body = text.partition(":")
    if colon:
        if kind not in _FORMS:
            near = difflib.get_close_matches(kind, _FORMS, n=1)
            hint = f"did you mean '{near[0]}:'? " if near else ""
            raise InvalidInput(f"{hint}a load is a rate like 5000/s or one of {_KINDS}")
        return _FORMS[kind](body.strip())
    match = _RATE.fullmatch(text)
    if match is None:
        raise InvalidInput(f"write a rate like 5000/s, 300/m or 5k/s, or one of {_KINDS}")
    return _constant(_number(match[1]) / _UNITS[match[2]])


def _constant(rate: float) -> Load:
    return Load((Segment(1.0, rate, rate),))


def _steps(body: str) -> Load:
    rates, seconds = _rates_and_time(body, "steps:1000,4000,1000@20s")
    return Load(tuple(Segment(seconds, r, r) for r in rates), repeats=True)


def _ramp(body: str) -> Load:
    (first, last), seconds = _pair_and_time(body, "ramp:1000-5000@60s")
    return Load((Segment(seconds, first, last),))


def _sine(body: str) -> Load:
    (low, high), seconds = _pair_and_time(body, "sine:1000-5000@60s")
    if low > high:
        raise InvalidInput(f"the low rate {low:g} is above the high rate {high:g}")
    angle = np.linspace(0, 2 * np.pi, SINE_SEGMENTS + 1)
    rates = np.clip((low + high) / 2 + (high - low) / 2 * np.sin(angle), low, high).tolist()
    width = seconds / SINE_SEGMENTS
    return Load(tuple(Segment(width, a, b) for a, b in pairwise(rates)), repeats=True)


def _spikes(body: str) -> Load:
    body, slash, long = body.partition("/")
    (base, height), seconds = _pair_and_time(body, "spikes:1000,8000@30s")
    spike = _time(long) if slash else seconds / 10
    if spike >= seconds:
        raise InvalidInput(f"a spike of {spike:g}s does not fit into {seconds:g}s")
    return Load(
        (Segment(seconds - spike, base, base), Segment(spike, height, height)), repeats=True
    )


def _days(body: str) -> Load:
    """A day from midnight to midnight, low at night, with bursts at irregular times."""
    body, slash, number = body.partition("/")
    (low, high), seconds = _pair_and_time(body, "days:1000-5000@24h")
    bursts = _number(number) if slash else 3.0
    if low > high:
        raise InvalidInput(f"the low rate {low:g} is above the high rate {high:g}")
    if not 0 <= bursts <= 20 or bursts % 1:
        raise InvalidInput(f"'{number.strip()}' is not a number of bursts between 0 and 20")
    width = seconds / 100
    places = sorted((i * 0.618034 + 0.31) % 0.98 for i in range(int(bursts)))
    begins = [place * seconds for place in places]
    cuts = np.unique([*np.linspace(0, seconds, SINE_SEGMENTS + 1), *begins, *np.add(begins, width)])
    rates = low + (high - low) * (1 - np.cos(2 * np.pi * cuts / seconds)) / 2
    segments = []
    for at in range(len(cuts) - 1):
        middle = (cuts[at] + cuts[at + 1]) / 2
        extra = high if any(b < middle < b + width for b in begins) else 0.0
        span = float(cuts[at + 1] - cuts[at])
        segments.append(Segment(span, float(rates[at]) + extra, float(rates[at + 1]) + extra))
    return Load(tuple(segments), repeats=True)


def _points(body: str) -> Load:
    points = []
    for part in body.split(","):
        at, equals, rate = part.partition("=")
        if not equals:
            raise InvalidInput(f"'{part.strip()}' is not a point: write it like 10=5000")
        points.append((_number(at), _number(rate)))
    return _through(points)


def _trace(body: str) -> Load:
    path = Path(body)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidInput(f"cannot open '{path}' ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"'{path}' is not a text file") from None
    points: list[tuple[float, float]] = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if not any(cells) or line.lstrip().startswith("#"):
            continue
        if not points and not any(_NUMBER.fullmatch(cell) for cell in cells):
            continue  # the header
        try:
            if len(cells) != 2:
                raise InvalidInput(f"'{line.strip()}' is not of the form seconds,rate")
            points.append((_number(cells[0]), _number(cells[1])))
            _check_order(points[-2:])
        except InvalidInput as why:
            raise InvalidInput(f"line {number}: {why}") from None
    if not points:
        raise InvalidInput(f"'{path}' has no line of the form seconds,rate")
    return _through(points)


def _through(points: Sequence[tuple[float, float]]) -> Load:
    """Interpolate linearly between points; two points at one time are a jump."""
    _check_order(points)
    if points[0][0] > 0:
        points = [(0.0, points[0][1]), *points]
    segments = [
        Segment(end - start, first, last)
        for (start, first), (end, last) in pairwise(points)
        if end > start
    ]
    rate = points[-1][1]
    if not segments or segments[-1].last != rate:  # the last rate holds, also after a final jump
        segments.append(Segment(1.0, rate, rate))
    return Load(tuple(segments))


def _check_order(points: Sequence[tuple[float, float]]) -> None:
    for at, rate in points:
        if at < 0 or not math.isfinite(at):
            raise InvalidInput(f"the time {at:g} is not a number of seconds from 0 on")
        Segment(1.0, rate, rate)
    for (earlier, _), (later, _) in pairwise(points):
        if later < earlier:
            raise InvalidInput(f"the time {later:g} comes after {earlier:g}: sort by time")


def _rates_and_time(body: str, example: str) -> tuple[list[float], float]:
    rates, at, time = body.partition("@")
    if not at:
        raise InvalidInput(f"the time after '@' is missing: write it like {example}")
    if not rates.strip():
        raise InvalidInput(f"there are no rates before '@': write it like {example}")
    return [_number(part) for part in rates.split(",")], _time(time)


def _pair_and_time(body: str, example: str) -> tuple[tuple[float, float], float]:
    rates, at, time = body.partition("@")
    match = _RANGE.fullmatch(rates.strip())
    found, seconds = _rates_and_time(f"{match[1]},{match[2]}@{time}" if match else body, example)
    if not at or len(found) != 2:
        raise InvalidInput(f"it takes two rates, found {len(found)}: write it like {example}")
    return (found[0], found[1]), seconds


def _time(text: str) -> float:
    seconds = duration.seconds(text.strip())
    if not (seconds > 0 and math.isfinite(seconds)):
        raise InvalidInput(f"the time '{text.strip()}' is not longer than zero")
    return seconds


def _number(text: str) -> float:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"'{text.strip()}' is not a number like 5000 or 5k")
    return float(match[1]) * {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}[match[2]]


def _kinds(names: Iterable[str]) -> str:
    return ", ".join(f"{name}:" for name in names)


_FORMS: dict[str, Callable[[str], Load]] = {
    "steps": _steps,
    "ramp": _ramp,
    "sine": _sine,
    "spikes": _spikes,
    "days": _days,
    "trace": _trace,
    "points": _points,
}
_KINDS = _kinds(_FORMS)
_DIGITS = r"[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?"
_NUMBER = re.compile(rf"({_DIGITS})([kKM]?)")
_RANGE = re.compile(rf"({_DIGITS}[kKM]?)\s*-\s*({_DIGITS}[kKM]?)")
_RATE = re.compile(rf"({_DIGITS}[kKM]?)\s*/\s*(s|sec|m|min|h)")
_UNITS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
