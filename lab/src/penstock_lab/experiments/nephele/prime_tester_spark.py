"""PrimeTester on Spark: testers that wait, and Spark's own dynamic allocation beside them.

Testers wait for 5 ms instead of reckoning, so that two cores can run more than two. The bound is
that of a system that works in batches: seconds. The static testers are the fewest that the peak
does not jam, as in the paper. The best static plan has the fewest that meet the bound at the peak
in 91 % of looks, as often as the paper's policy does: the static testers if these do, or else one
more after the other is tried, with the highest rate alone. Its hours follow, being static: those of
the static testers and of so many tasks more.

All of these have a local master. Dynamic allocation needs a cluster, so it has one in this machine,
with the plan of the static testers: one executor at first, more while tasks are pending for a
second, fewer when one had nothing to do for a step, which is what Spark's default of 60 s is in the
paper. All other times are Spark's defaults.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.control.guard import Guard
from penstock.dataflow import duration
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.drawing.figures import Bars, Figure, Panel
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Claim, Data, Read, Record, Setting
from penstock_lab.experiments.play import SparkPlay

WAIT = 0.005
EXECUTORS, CORES = 3, 4
CLUSTER = f"local-cluster[{EXECUTORS},{CORES},1024]"
SLOTS = EXECUTORS * CORES
SHARE = 0.91
DYNAMIC, BEST = "dynamic allocation", "best static"
ON_SPARK = (
    "a local master with more slots than cores, and testers that wait. The best static plan has "
    "the fewest testers that meet the bound while the highest rate comes, found by trying one more "
    "after the other; its hours are reckoned, not run. Dynamic allocation has the static testers "
    f"on Spark's own cluster in one machine, of up to {EXECUTORS} executors with {CORES} slots; "
    "starting and feeding these takes of the same two cores, so that its latencies are worse for "
    "that too. It follows the tasks of a batch, of which there are as many at any rate, and so it "
    "asks for all that these need at once and gives none back. One that had nothing to do goes "
    "after a step instead of 60 s, which are a step in the paper."
)


def cases(step: float, rate: int, latency: str) -> Sequence[Case]:
    count, load = testers(rate), swing(rate, step)

    def play(policy: str) -> SparkPlay:
        limits = Limits(slots=SLOTS, executors=1)
        return SparkPlay(partial(flow, load, latency), 8 * step, policy, plan(count, SLOTS),
                         guard=Guard(), limits=limits, slots=SLOTS)  # fmt: skip

    static = play("static")
    peak = partial(flow, f"{4 * rate}/s", latency)
    trial = replace(static, build=peak, seconds=TRIAL, drain=False)
    more = {n: replace(trial, plan=plan(n, SLOTS)) for n in range(count + 1, SLOTS)}
    dynamic = replace(static, plan=plan(count, CORES), limits=Limits(slots=SLOTS),
                      master=CLUSTER, conf=allocation(step))  # fmt: skip
    return (
        Case("latency", play("latency")),
        Case("static", static),
        Case(BEST, Fewest(more)),
        Case(DYNAMIC, dynamic),
    )


TRIAL = 20.0
"""Seconds of a trial of a static plan; only its second half counts."""


def swing(rate: int, step: float) -> str:
    """Four rates up and down where the paper has six: a step is longer than the guard's cool-down.

    They are the rate, and two, three and four times as much.
    """
    up = tuple(rate * n for n in range(1, 5))
    return f"steps:{','.join(map(str, (*up, up[-1], *reversed(up[:-1]))))}@{step:g}s"


def testers(rate: int) -> int:
    """The fewest testers that carry four times the rate."""
    return math.ceil(1.1 * 4 * rate * WAIT)


def plan(count: int, cores: int) -> Plan:
    """A plan with this many testers on as few executors as have cores for them."""
    pipelines = (Pipeline(("source",)), Pipeline(("test", "sink"), count))
    return Plan(pipelines, math.ceil((count + 1) / cores))


@dataclass(frozen=True)
class Fewest:
    """Static plans by their testers, tried one after the other until one meets the bound."""

    plays: Mapping[int, SparkPlay]

    def __call__(self, setting: Setting) -> Sequence[Record]:
        tried: list[Record] = []
        for count, play in self.plays.items():
            home = setting.scratch / str(count)
            home.mkdir(parents=True)
            records = play(replace(setting, scratch=home))
            tried += ({**r, "testers": count} for r in records if r["kind"] == "tick")
            share = met([r for r in tried if r["testers"] == count])
            if share is not None and share >= SHARE:
                return [{"kind": "found", "test": count}, *tried]
        return tried


def met(ticks: Sequence[Record]) -> float | None:
    """The share of the looks in the second half of a trial at which the mean keeps to the bound."""
    late = [t["latency"] for t in ticks if t["at"] >= TRIAL / 2]
    seen = [one for found in late for one in found.values()]
    return sum(one["mean"] <= one["bound"] for one in seen) / len(seen) if seen else None


def under_bounds(step: float, rate: int, bounds: Sequence[str]) -> Sequence[Case]:
    """Elastic testers on a local master, one case per bound, and static ones."""
    static = plan(testers(rate), SLOTS)

    def play(policy: str, bound: str) -> SparkPlay:
        return SparkPlay(partial(flow, swing(rate, step), bound), 8 * step, policy, static,
                         guard=Guard(), limits=Limits(slots=SLOTS, executors=1),
                         slots=SLOTS)  # fmt: skip

    elastic = (Case(bound, play("latency", bound)) for bound in bounds)
    return (*elastic, Case("static", play("static", bounds[0])))


def allocation(idle: float, most: int = EXECUTORS, cores: int = CORES) -> Mapping[str, str]:
    """Settings of Spark's dynamic allocation, for at most `most` executors with `cores` slots."""
    own = {
        "enabled": "true",
        "shuffleTracking.enabled": "true",
        "minExecutors": "1",
        "maxExecutors": str(most),
        "executorIdleTimeout": f"{1000 * idle:.0f}ms",
    }
    named = {f"spark.dynamicAllocation.{name}": value for name, value in own.items()}
    return {"spark.executor.cores": str(cores), **named}


def flow(load: str, latency: str, out: Path) -> Dataflow:
    made = Dataflow("waiting-tester")
    numbers = made.source("source", Generator(_numbers, "n bigint", load))
    tested = numbers.map("test", _tested, schema="n bigint", max_parallelism=SLOTS - 1)
    tested.sink("sink", Discard())
    made.constrain("test", "sink", latency=latency, window=5.0)
    return made


def _numbers(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"n": index}


def _tested(record: Mapping[str, Any]) -> dict[str, Any]:
    time.sleep(WAIT)
    return {"n": record["n"]}


# --- reading ------------------------------------------------------------------------------------


def best(data: Data) -> float | None:
    """Testers of the best static plan; None if no tried plan met the bound."""
    if (reading.met(data, "static") or 0.0) >= SHARE:
        return _static(data)
    found = data.of(BEST, "found")
    return float(found[0]["test"]) if found else None


def best_hours(data: Data) -> float | None:
    """Task hours of the best static plan, for the duration of the static one."""
    count = best(data)
    if count is None:
        return None
    return reading.task_hours(data, "static") * (count + 1) / (_static(data) + 1)


def _static(data: Data) -> float:
    return float(data.of("static")[0]["pipelines"]["test"]["instances"])


def _hours(data: Data) -> float:
    return reading.slot_hours(data, DYNAMIC)


def _executors(tick: Record) -> float:
    return float(tick["cores"]) / CORES


def _most(data: Data) -> float:
    return max(map(_executors, data.of(DYNAMIC)))


def _last(data: Data) -> float:
    return _executors(data.of(DYNAMIC)[-1])


def _delivered(data: Data) -> float:
    seen = reading.summary(data, DYNAMIC)
    return float(seen["rows_delivered"]) / float(seen["rows_offered"])


def panel(data: Data, tone: int) -> Panel:
    """Panel with the executors under dynamic allocation."""
    line = reading.line(data, DYNAMIC, _executors, DYNAMIC, style="step", tone=tone)
    return Panel("time (s)", "executors", (line,))


CLAIMS = (
    Claim("slot hours of the executors that Spark had, dynamic allocation", None, _hours,
          only="spark"),
    Claim("most executors under dynamic allocation", None, _most, only="spark"),
    Claim("executors under dynamic allocation at the end", None, _last, only="spark"),
    Claim("rows delivered of each that came, dynamic allocation", None, _delivered, only="spark"),
)  # fmt: skip


def _saved(data: Data) -> float:
    """Share of the task hours at the shortest bound that the longest saves."""
    short, long = (reading.task_hours(data, data.parameters["bounds"][at]) for at in (0, -1))
    return 1 - long / short


def _kept(at: int) -> Read:
    return lambda data: reading.met(data, data.parameters["bounds"][at])


def _beside(at: int) -> Read:
    """Task hours under a bound, relative to those of the static testers."""

    def read(data: Data) -> float:
        own = reading.task_hours(data, data.parameters["bounds"][at])
        return own / reading.task_hours(data, "static")

    return read


def picture_of_hours(data: Data) -> Figure:
    cases = [c for c in (*data.parameters["bounds"], "static") if c in data.cases]
    bars = (Bars("here", tuple(reading.task_hours(data, c) for c in cases)),)
    panel = Panel("bound", "task hours", categories=tuple(cases), bars=bars)
    note = f"on Spark, random seed {data.seed}; after Nephele, section V-A"
    return Figure("PrimeTester: a longer bound costs less", (panel,), note=note)


_TOO_SHORT = (
    "of 17 looks that miss it 3 are in the first seconds, when this case ran first on a slow JVM, "
    "and 14 while the rate is near its peak: batches take half a second or more there on two "
    "cores, and testers come some seconds after each rise, since a change waits for 10 s after "
    "the one before"
)


def _static_kept(at: int) -> Read:
    """The share of looks at which static testers keep to one of the bounds."""

    def read(data: Data) -> float:
        bound = duration.seconds(data.parameters["bounds"][at])
        seen = [one for tick in data.of("static") for one in tick["latency"].values()]
        if not seen:
            raise KeyError("static has no latencies")
        return sum(bool(one["mean"] <= bound) for one in seen) / len(seen)

    return read


def hours_claims(saved: float) -> tuple[Claim, ...]:
    """saved: what the paper's longest bound saves of the hours at its shortest."""
    ends = (("shorter", 0), ("longer", -1))
    return (
        Claim("waiting testers: share of the hours at the shorter bound that the longer saves",
              saved, _saved, neutral=0.0, only="spark"),
        *(Claim(f"waiting testers: share of intervals that meet the {name} bound", None,
                _kept(at), neutral=0.9, side="above", only="spark", on_spark=_TOO_SHORT)
          for name, at in ends),
        *(Claim(f"waiting testers: share of looks at which static ones meet the {name} bound",
                None, _static_kept(at), only="spark") for name, at in ends),
        *(Claim(f"waiting testers: task hours at the {name} bound beside static testers", None,
                _beside(at), only="spark") for name, at in ends),
    )  # fmt: skip
