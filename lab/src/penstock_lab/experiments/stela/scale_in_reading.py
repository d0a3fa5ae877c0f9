"""Reads and draws the removal of executors on Spark.

Batches of the score take some seconds. Time without output is the part of a pause that exceeds the
longest pause before the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

from penstock.drawing.figures import Bars, Figure, Level, Line, Mark, Panel
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Claim, Data, NotTried, Read, Record
from penstock_lab.experiments.stela.scale_in_spark import (
    BEST,
    EXECUTORS,
    GONE,
    RANDOM,
    SCORE,
    STELA,
)

SOON = 30.0
"""Seconds from the request on of which the loss is told."""


def randoms(data: Data) -> tuple[str, ...]:
    """Cases with random groups. Raises `NotTried`."""
    found = tuple(case for case in data.cases if case.startswith(f"{RANDOM}, "))
    if not found:
        raise NotTried(RANDOM)
    return found


def asked(data: Data, case: str) -> float:
    """Time of the change. Raises `KeyError` if there was none."""
    changes = data.of(case, "change")
    if not changes:
        raise KeyError(f"{case} was never scaled")
    return float(changes[0]["at"])


def rate(data: Data, case: str, since: float, until: float) -> float:
    """Scored rows per second, over whole batches."""
    ticks = reading.between(data.of(case), since, until)
    found = [t["pipelines"][SCORE]["rate_in"] for t in ticks]
    known = [float(one) for one in found if one is not None]
    if not known:
        raise KeyError(f"{case} from {since} to {until}")
    return fmean(known)


def before(data: Data, case: str) -> float:
    """Throughput in the last 15 s before the request."""
    at = asked(data, case)
    return rate(data, case, at - 15, at)


def after(data: Data, case: str) -> float:
    """Throughput in the last 20 s of the run."""
    end = float(data.of(case)[-1]["at"])
    return rate(data, case, end - 20, end)


def kept(data: Data, case: str) -> float:
    """Throughput at the end, relative to before."""
    return after(data, case) / before(data, case)


def soon(data: Data, case: str) -> float:
    """Throughput from the request on, pauses and all, beside before.

    Batches come out as wholes: one more or less within that time is a tenth of it.
    """
    at = asked(data, case)
    return _through(data, case, at, at + SOON) / before(data, case)


def _through(data: Data, case: str, since: float, until: float) -> float:
    ticks = data.of(case)
    first, last = (max((t for t in ticks if t["at"] <= at), key=_at) for at in (since, until))
    return float((last["delivered"] - first["delivered"]) / (last["at"] - first["at"]))


def _at(record: Record) -> float:
    return float(record["at"])


def pauses(data: Data, case: str, since: float, until: float) -> list[float]:
    """Pauses between two outputs that ended in this time, in seconds."""
    times = sorted(_at(one) for one in data.of(case, "output"))
    return [b - a for a, b in pairwise(times) if since < b <= until]


def usual(data: Data, case: str) -> float:
    """The longest pause in the last 20 s before the request."""
    at = asked(data, case)
    found = pauses(data, case, at - 20, at)
    if not found:
        raise KeyError(f"{case} had no output before the request")
    return max(found)


def longest(data: Data, case: str) -> float:
    """The longest pause after the request."""
    return max(pauses(data, case, asked(data, case), float("inf")), default=0.0)


def down(data: Data, case: str) -> float:
    """Seconds by which pauses after the request exceeded the longest one before."""
    most = usual(data, case)
    found = pauses(data, case, asked(data, case), float("inf"))
    return sum(max(0.0, one - most) for one in found)


def hit(data: Data, case: str) -> float:
    """Number of removed executors with state of the score."""
    at = asked(data, case)
    (said,) = (a for a in data.of(case, "change")[0]["actions"] if a.startswith("executors"))
    gone = re.findall(r"[^\s,]+", said.partition("without")[2])
    held = [one["by"] for one in data.of(case, "held") if one["at"] <= at][-1]
    return float(sum(SCORE in held[name] for name in gone))


Of = Callable[[Data, str], float]


def ours(get: Of, case: str = STELA) -> Read:
    return lambda data: get(data, case)


def theirs(get: Of) -> Read:
    """Mean over the random groups."""
    return lambda data: fmean(get(data, case) for case in randoms(data))


def beside(get: Of) -> Read:
    """Stela's value relative to the mean of the random groups."""

    def read(data: Data) -> float | None:
        other = theirs(get)(data)
        return get(data, STELA) / other if other else None

    return read


def _beside_best(data: Data) -> float:
    return after(data, STELA) / after(data, BEST)


def _delivered(data: Data) -> float:
    """Share of the input rows that was delivered, in the case where it is least."""
    seen = [reading.summary(data, case) for case in (STELA, *randoms(data))]
    return min(float(one["rows_delivered"]) / float(one["rows_offered"]) for one in seen)


def picture(data: Data) -> Figure:
    scaled = [case for case in data.cases if case != BEST]
    lines = tuple(
        Line(case, *reading.rates(data, case), tone=tone) for tone, case in enumerate(scaled)
    )
    went = f"{EXECUTORS} → {EXECUTORS - GONE} executors"
    levels = (Level(after(data, BEST), BEST),) if BEST in data.cases else ()
    shares = {"soon after": soon, "in the end": kept}
    names = tuple(map(_named, scaled))
    return Figure(
        "Two of four executors go",
        (
            Panel(
                "time (s)",
                "rows/s",
                lines,
                marks=(Mark(float(data.parameters["at"]), went),),
                levels=levels,
            ),
            Panel(
                "who chooses the executors",
                "throughput kept (share)",
                categories=names,
                bars=tuple(Bars(n, _each(data, scaled, get)) for n, get in shares.items()),
                levels=(Level(1.0, "all of it"),),
            ),
            Panel(
                "who chooses the executors",
                "longest pause (s)",
                categories=names,
                bars=(
                    Bars("before", _each(data, scaled, usual)),
                    Bars("after", _each(data, scaled, longest)),
                ),
            ),
        ),
        columns=2,
        note=f"on Spark, random seed {data.seed}; after Stela, figure 8",
    )


def _named(case: str) -> str:
    return case.replace(", ", " ")


def _each(data: Data, cases: Sequence[str], get: Of) -> tuple[float | None, ...]:
    found: list[float | None] = []
    for case in cases:
        try:
            found.append(get(data, case))
        except KeyError:
            found.append(None)
    return tuple(found)


_PLACE = (
    "all instances find a slot on the executors that stay: Spark starts there what ran on those "
    "that go, and reads their state from the checkpoint, so that throughput comes back whoever "
    "goes. Which ones go decides on the pause until then (rows below)"
)
_FEWER = (
    "executors are processes that share two cores, and two executors use less of these than "
    "four: the case that starts with two carries as much"
)
_PAUSE = "a running batch on a removed executor starts again on others, whoever has chosen"

_ON = "waiting components:"

CLAIMS = (
    Claim(f"{_ON} share of the throughput that Stela keeps", 1.0, ours(kept), better="higher",
          ideal=1.0, only="spark", on_spark=_FEWER),
    Claim(f"{_ON} share that random groups keep", 0.4, theirs(kept), neutral=1.0, only="spark",
          on_spark=_PLACE),
    # without a side: a few rows more or less are chance here
    Claim(f"{_ON} Stela beside random groups", 3.3, beside(after), only="spark", on_spark=_PLACE),
    Claim(f"{_ON} seconds without output, Stela beside random groups", 0.19, beside(down), "", 1.0,
          only="spark", on_spark=_PAUSE),
    Claim(f"{_ON} seconds without output, Stela", None, ours(down), "s", only="spark"),
    Claim(f"{_ON} seconds without output, random groups", None, theirs(down), "s", only="spark"),
    Claim(f"{_ON} longest pause before the request", None, ours(usual), "s", only="spark"),
    Claim(f"{_ON} longest pause after it, Stela", None, ours(longest), "s", only="spark"),
    Claim(f"{_ON} longest pause after it, random groups", None, theirs(longest), "s",
          only="spark"),
    Claim(f"{_ON} share kept in the {SOON:g} s after the request, Stela", None, ours(soon),
          only="spark"),
    Claim(f"{_ON} share kept in the {SOON:g} s after the request, random groups", None,
          theirs(soon), only="spark"),
    Claim(f"{_ON} executors with state of the congested one that went, Stela", None, ours(hit),
          only="spark"),
    Claim(f"{_ON} executors with state of the congested one that went, random groups", None,
          theirs(hit), only="spark"),
    Claim(f"{_ON} Stela beside two executors from the start", None, _beside_best, only="spark"),
    Claim(f"{_ON} rows delivered of each that came", None, _delivered, only="spark"),
)  # fmt: skip
