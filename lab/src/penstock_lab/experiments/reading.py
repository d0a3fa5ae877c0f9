"""Reads numbers and lines for pictures from the records of an experiment."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from penstock.drawing.figures import Line, Mark
from penstock_lab.experiments.experiment import Data, Record


def summary(data: Data, case: str) -> Record:
    """The summary record of a case."""
    return data.of(case, "summary")[-1]


def task_hours(data: Data, case: str) -> float:
    """Instances times the time they existed, in hours."""
    return float(summary(data, case)["slot_seconds"]) / 3600


def slot_hours(data: Data, case: str, since: float = 0.0) -> float:
    """Slots of all executors times the time these existed, in hours."""
    ticks = [tick for tick in data.of(case) if tick["at"] > since]
    times = pairwise([since, *(tick["at"] for tick in ticks)])
    held = (t["cores"] * (end - begin) for t, (begin, end) in zip(ticks, times, strict=True))
    return float(sum(held)) / 3600


def met(data: Data, case: str, constraint: str | None = None) -> float | None:
    """Share of windows whose mean latency met a constraint, by default the first one."""
    share = _latency(data, case, constraint)["met"]
    return None if share is None else float(share)


def latency(data: Data, case: str, which: str = "mean_ms", constraint: str | None = None) -> float:
    """Latency of a case in ms: `mean_ms`, `p50_ms`, `p95_ms` or `p99_ms`."""
    return float(_latency(data, case, constraint)[which])


def _latency(data: Data, case: str, constraint: str | None) -> Record:
    found = summary(data, case)["latency"]
    if not found:
        raise KeyError(f"{case} has no constraint")
    one: Record = found[constraint or next(iter(found))]
    return one


def between(records: tuple[Record, ...], since: float, until: float) -> tuple[Record, ...]:
    """The records from `since` to `until`."""
    return tuple(r for r in records if since <= r["at"] <= until)


def throughput(data: Data, case: str, since: float, until: float, rows: str = "delivered") -> float:
    """Rows per second over a time; `rows`: `delivered`, `ingested` or `offered`."""
    inside = between(data.of(case), since, until)
    if len(inside) < 2:
        raise KeyError(f"{case} from {since} to {until}")
    first, last = inside[0], inside[-1]
    return float((last[rows] - first[rows]) / (last["at"] - first["at"]))


def rates(
    data: Data, case: str, width: float = 10.0, rows: str = "delivered"
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """End times of consecutive windows and the rows per second in each."""
    times, found = [], []
    ticks = data.of(case)
    before = ticks[0]
    for tick in ticks[1:]:
        if tick["at"] - before["at"] >= width - 1e-6:
            times.append(float(tick["at"]))
            found.append((tick[rows] - before[rows]) / (tick["at"] - before["at"]))
            before = tick
    return tuple(times), tuple(found)


def convergence(data: Data, case: str, start: float, width: float = 10.0) -> float | None:
    """Seconds from a change until throughput has converged, as Stela defines it."""
    times, found = rates(data, case, width)
    return convergence_time(times, found, start)


def average(data: Data, case: str, get: Callable[[Record], float | None]) -> float:
    """Mean of a value over the ticks of a case."""
    return fmean(v for v in map(get, data.of(case)) if v is not None)


def line(data: Data, case: str, get: Callable[[Record], Any], label: str = "", **look: Any) -> Line:
    """A line of a value over time; missing values are gaps."""
    ticks = data.of(case)
    values = []
    for tick in ticks:
        try:
            values.append(get(tick))
        except (KeyError, TypeError):  # missing, or not measured
            values.append(None)
    return Line(label or case, tuple(float(t["at"]) for t in ticks), tuple(values), **look)


def marks(data: Data, case: str, pipeline: str | None = None) -> tuple[Mark, ...]:
    """Marks for changes of parallelism, `39 → 82`, of one pipeline or of all."""
    found = []
    for change in data.of(case, "change"):
        for action in change["actions"]:
            read = re.fullmatch(r"(.+): parallelism (\d+) -> (\d+)", action)
            if read and pipeline in (None, read[1]):
                size = float(abs(int(read[3]) - int(read[2])))
                found.append(Mark(float(change["at"]), f"{read[2]} → {read[3]}", size))
    return tuple(found)


SPREAD = 0.05
"""Standard deviation, as a share of the average, within which throughput counts as calm."""

_SWINGS = 4


def convergence_time(
    times: Sequence[float],
    throughput: Sequence[float],
    start: float,
    *,
    average: float | None = None,
    spread: float = SPREAD,
) -> float | None:
    """Seconds from the start of a change until throughput has settled; None if it never does.

    It has settled when it has been twice above and twice below its average after the change, in
    turn, and has stayed about it with a standard deviation of at most `spread` all that while.
    A sample at the average counts as either. The average is that of the second half of what
    follows the change, in which the dip of the change itself has passed, unless it is given.
    """
    if len(times) != len(throughput):
        raise ValueError(f"{len(times)} times for {len(throughput)} samples")
    after = [(t, x) for t, x in zip(times, throughput, strict=True) if t >= start]
    if len(after) < _SWINGS:
        return None
    if average is None:
        average = fmean(x for _, x in after[len(after) // 2 :])
    bound = spread * abs(average)
    apart = [x - average for _, x in after]
    for last, (at, _) in enumerate(after):
        if _calm(apart[: last + 1], bound):
            return at - start
    return None


def _calm(apart: Sequence[float], bound: float) -> bool:
    """Whether some stretch that ends here swings often enough and not too far."""
    squares, swings, side = 0.0, 0, 0
    for count, x in enumerate(reversed(apart), start=1):
        squares += x * x
        here = 0 if abs(x) <= 1e-9 * bound else int(math.copysign(1, x))
        if here == 0 or here != side:  # a sample at the average is on the side that is due
            swings, side = swings + 1, here or -side
        if swings >= _SWINGS and math.sqrt(squares / count) <= bound:
            return True
    return False
