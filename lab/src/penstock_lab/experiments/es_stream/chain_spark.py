"""Es-Stream on Spark: COMMCount as a chain of operators that wait.

They share the work as in the paper, 3 to 13 to 8, and take 48 ms a row together. An even plan has
the fewest that keep up with the highest rate, as many of each operator, and there Es-Stream's
formula has as many in all; the best static plan deals these for the shortest batches. At a steady
rate the second half is read; where it rises, how much longer it takes at the end than at first, and
how many instances there are then, which the paper has in figure 15. The rate is the highest from
the middle of the time on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from statistics import median

from penstock.dataflow.flow import Dataflow
from penstock.drawing.figures import Figure, Panel
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Policy
from penstock.policies.es_stream import marginal_analysis
from penstock.policies.es_stream.policy import EsStream
from penstock_lab.experiments import reading, waiting
from penstock_lab.experiments.es_stream import common
from penstock_lab.experiments.es_stream.common import COUNT
from penstock_lab.experiments.experiment import Case, Claim, Data, Read, Record
from penstock_lab.experiments.play import SparkPlay

WAYS = ("es-stream", "even", "best static")
POLICY = EsStream(share=0.2, steady=10.0, changing=10.0)
"""The policy; its share gives as many instances as an even plan at 140 rows/s."""

SLOTS = 16


def services() -> dict[str, float]:
    """Seconds per row of each operator: 6, 26 and 16 ms."""
    return {n: 0.002 * w for n, w in zip(COUNT.operators, COUNT.weights, strict=True)}


def cases(rates: Sequence[int], seconds: float) -> Sequence[Case]:
    low, high = min(rates), max(rates)
    third = seconds / 3
    loads = {
        "steady": f"{high}/s",
        "rising": f"points:0={low},{third:g}={low},{1.5 * third:g}={high},{seconds:g}={high}",
    }
    return tuple(
        Case(f"{way}, {name}", play(way, load, seconds, low if name == "rising" else high, high))
        for name, load in loads.items()
        for way in WAYS
    )


def play(way: str, load: str, seconds: float, first: int, top: int) -> SparkPlay:
    """A policy or plan under a load. first: the initial rate; top: the highest rate."""
    plans = {"es-stream": formula(first), "even": even(top), "best static": best(top)}
    policy: str | Policy = POLICY if way == "es-stream" else "static"
    parts = waiting.chain("clicks", services())
    plan = waiting.plan(parts, plans[way])
    limits = Limits(slots=SLOTS, executors=1)
    return SparkPlay(partial(build, load), seconds, policy, plan, limits=limits, slots=SLOTS,
                     drain=False)  # fmt: skip


def build(load: str, out: Path) -> Dataflow:
    flow = waiting.flow("waiting-count", waiting.chain("clicks", services()), load)
    flow.constrain(COUNT.operators[0], COUNT.operators[-1], latency="1s", window=5.0)
    return flow


def even(rate: int) -> dict[str, int]:
    """The smallest even plan that keeps up."""
    each = int(max(rate * s for s in services().values())) + 1
    return dict.fromkeys(COUNT.operators, each)


def formula(rate: int) -> dict[str, int]:
    """What Es-Stream arrives at."""
    return {
        n: marginal_analysis.best_instances(rate * s, POLICY.share) for n, s in services().items()
    }


def best(rate: int) -> Mapping[str, int]:
    """As many instances as the even plan, allocated so that batches are shortest."""
    loads, total = [rate * s for s in services().values()], sum(even(rate).values())

    def batches(deal: Iterable[int]) -> float:
        return sum(1 / (1 - load / k) for k, load in zip(deal, loads, strict=True))

    every = product(range(1, total), repeat=len(loads))
    able = [
        deal
        for deal in every
        if sum(deal) == total and all(k > load for k, load in zip(deal, loads, strict=True))
    ]
    return dict(zip(COUNT.operators, min(able, key=batches), strict=True))


# --- reading ------------------------------------------------------------------------------------


def latency(data: Data, case: str, since: float, until: float) -> float:
    """Mean latency in ms over a share of the time of a case."""
    end = float(data.of(case)[-1]["at"])
    ticks = reading.between(data.of(case), since * end, until * end)
    if not any(t["latency"] for t in ticks):
        raise KeyError(f"{case} has no latency then")
    return common.latency(data, case, since * end, until * end)


def beside(way: str, name: str) -> Read:
    """Final latency of a rival relative to that of Es-Stream."""

    def read(data: Data) -> float:
        since = 0.5 if name == "steady" else 0.75
        other, own = (latency(data, f"{w}, {name}", since, 1.0) for w in (way, "es-stream"))
        return other / own

    return read


def rise(data: Data, way: str) -> float:
    """Increase of latency in ms from the first third, without its start, to the end."""
    case = f"{way}, rising"
    return latency(data, case, 0.75, 1.0) - latency(data, case, 0.2, 1 / 3)


def _grown(data: Data) -> float:
    """Number of instances at the end relative to the first third."""
    case = "es-stream, rising"
    end = float(data.of(case)[-1]["at"])
    spans = ((0.75 * end, end), (0.2 * end, end / 3))
    then, before = (common.count(data, case, *span) for span in spans)
    return then / before


def _alike(data: Data) -> float:
    """Number of operators with the same parallelism at the end in two cases."""
    ends = [data.of(f"{way}, rising")[-1]["pipelines"] for way in ("best static", "es-stream")]
    return float(sum(len({end[n]["instances"] for end in ends}) == 1 for n in COUNT.operators))


def _usual(data: Data) -> float:
    """Median latency of the best static plan relative to Es-Stream's, at the highest rate."""

    def of(case: str) -> float:
        ticks = data.of(case)
        top = reading.between(ticks, 0.5 * ticks[-1]["at"], ticks[-1]["at"])
        return median(common.milliseconds(t) for t in top if t["latency"])

    return of("best static, rising") / of("es-stream, rising")


def _pause(way: str) -> Read:
    """Longest time between two measurements at the highest rate; usually a second or two."""

    def read(data: Data) -> float:
        times = [float(t["at"]) for t in data.of(f"{way}, rising")]
        return max(b - a for a, b in pairwise(times) if a >= 0.5 * times[-1])

    return read


def _steeper(data: Data) -> float:
    return float(rise(data, "even") > rise(data, "es-stream"))


def _rise(way: str) -> Read:
    return lambda data: rise(data, way)


def _hours(data: Data) -> float:
    cases = ("es-stream, steady", "even, steady")
    own, other = (reading.task_hours(data, case) for case in cases)
    return own / other


def picture(data: Data) -> Figure:
    panels = []
    for name in ("steady", "rising"):
        here = [w for w in WAYS if f"{w}, {name}" in data.cases]
        lines = tuple(reading.line(data, f"{w}, {name}", _seconds, w) for w in here)
        panels.append(Panel("time (s)", "mean latency (s)", lines, log=True, title=name))
        count = tuple(
            reading.line(data, f"{w}, {name}", common.instances, w, style="step") for w in here
        )
        made = f"es-stream, {name}"
        marks = common.marks(data, made) if made in data.cases else ()
        panels.append(Panel("time (s)", "instances", count, marks=marks, title=name,
                            marked="changes of es-stream"))  # fmt: skip
    note = f"on Spark, random seed {data.seed}; after Es-Stream, figures 9 to 12"
    return Figure("Latency at a steady and at a rising rate", tuple(panels), columns=2, note=note)


def _seconds(tick: Record) -> float | None:
    return next((float(one["mean"]) for one in tick["latency"].values()), None)


CLAIMS = (
    Claim("waiting operators, steady rate: even beside Es-Stream", 6.4 / 2.1,
          beside("even", "steady"), neutral=1.0, only="spark"),
    Claim("waiting operators, rising rate: latency of even rises more (1: it does)", 1.0,
          _steeper, ideal=1.0, only="spark"),
    Claim("waiting operators, rising rate: Es-Stream's instances at twice the rate beside before",
          24 / 14, _grown, neutral=1.0, only="spark"),
    Claim("waiting operators, rising rate: even beside Es-Stream at the highest", None,
          beside("even", "rising"), only="spark"),
    *(
        Claim(f"waiting operators, {name} rate: latency of the best static plan beside Es-Stream's "
              f"in the last {last}", None, beside("best static", name), only="spark")
        for name, last in (("steady", "half"), ("rising", "quarter"))
    ),
    Claim("waiting operators, rising rate: median latency of the best static plan beside "
          "Es-Stream's over all the time at the highest", None, _usual, only="spark"),
    Claim("waiting operators, rising rate: operators, of three, of which the best static plan has "
          "as many instances as Es-Stream at the end", None, _alike, only="spark"),
    *(
        Claim("waiting operators, rising rate: longest time between two measurements at the "
              f"highest, {way}", None, _pause(way), "s", only="spark")
        for way in ("es-stream", "best static")
    ),
    *(
        Claim("waiting operators: from the lowest rate to the highest the latency of "
              f"{way} grows by", None, _rise(way), "ms", only="spark")
        for way in WAYS
    ),
    Claim("waiting operators, steady rate: hours of all instances of Es-Stream beside even", None,
          _hours, only="spark"),
)  # fmt: skip
