"""PrimeTester on Spark: testers that wait, on executors of a cluster in this machine.

Testers wait for 5 ms instead of reckoning, so that two cores can run more than two. The bound is
that of a system that works in batches: seconds. The static testers are the fewest that the peak
does not jam, as in the seed, on as few executors as have slots for them.

Every case has a new cluster of the same kind, whose executors are cold: two steps with few numbers
come first, and do not count. The policy turns testers, on as many executors as there may be; the
static plan has the executors that the peak needs. Under dynamic allocation the plan is the static
one, and executors come and go as Spark has them: one at first, more while tasks are pending for a
second, fewer when one had nothing to do for a step, which is what Spark's default of 60 s is in the
seed. All other times are Spark's defaults.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock.control.guard import Guard
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.experiments import reading
from penstock.experiments.experiment import Case, Claim, Data, Read, Record
from penstock.experiments.play import SparkPlay
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.report.figures import Line, Panel

WAIT = 0.005
WARM = 2
EXECUTORS, CORES = 3, 4
CLUSTER = f"local-cluster[{EXECUTORS},{CORES},1024]"
SLOTS = EXECUTORS * CORES
DYNAMIC = "dynamic allocation"
ON_SPARK = (
    f"testers that wait, on Spark's own cluster in one machine, of up to {EXECUTORS} executors "
    f"with {CORES} slots each. The policy turns testers and has all executors for good, the static "
    "plan has those that its testers fill. Dynamic allocation has the static plan and begins with "
    "one executor; one that had nothing to do goes after a step instead of 60 s, which are a step "
    "in the seed. Its executors are those that Spark had, whatever a plan says. The first "
    f"{WARM} steps are to warm up, and do not count."
)


def cases(step: float, rate: int, latency: str) -> Sequence[Case]:
    """Four rates where the seed has six, so that a step is longer than the guard's cool-down."""
    few = rate // 9
    rates = tuple(rate * n for n in range(1, 5))
    steps = (*[few] * WARM, *rates, rates[-1], *reversed(rates[:-1]))
    load = f"steps:{','.join(map(str, steps))}@{step:g}s"
    testers = math.ceil(1.1 * rates[-1] * WAIT)
    pipelines = (Pipeline(("source",)), Pipeline(("test", "sink"), testers))
    filled = math.ceil((testers + 1) / CORES)

    def play(policy: str, executors: int, idle: float | None = None) -> SparkPlay:
        return SparkPlay(partial(flow, load, latency), len(steps) * step, policy,
                         Plan(pipelines, executors), guard=Guard(), limits=Limits(slots=SLOTS),
                         slots=SLOTS, master=CLUSTER, conf=allocation(idle))  # fmt: skip

    return (
        Case("latency", play("latency", EXECUTORS)),
        Case("static", play("static", filled)),
        Case(DYNAMIC, play("static", filled, idle=step)),
    )


def allocation(idle: float | None) -> Mapping[str, str]:
    """Settings of Spark's dynamic allocation; None turns it off."""
    own = {"enabled": str(idle is not None).lower()}
    if idle is not None:
        own |= {
            "shuffleTracking.enabled": "true",
            "minExecutors": "1",
            "maxExecutors": str(EXECUTORS),
            "executorIdleTimeout": f"{1000 * idle:.0f}ms",
        }
    named = {f"spark.dynamicAllocation.{name}": value for name, value in own.items()}
    return {"spark.executor.cores": str(CORES), **named}


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


def met(data: Data, case: str) -> float:
    """The share of looks at which the mean kept to the bound: not where nothing came through."""
    seen = [t["latency"].get("test->sink") for t in data.of(case) if t["at"] > _warm(data)]
    kept = sum(1 for one in seen if one is not None and one["mean"] <= one["bound"])
    return kept / len(seen)


def _warm(data: Data) -> float:
    return WARM * float(data.parameters["step"])


def _hours(case: str) -> Read:
    return lambda data: reading.slot_hours(data, case, _warm(data))


def _executors(tick: Record) -> float:
    return float(tick["cores"]) / CORES


def _most(data: Data) -> float:
    return max(map(_executors, data.of(DYNAMIC)))


def _last(data: Data) -> float:
    return _executors(data.of(DYNAMIC)[-1])


def _delivered(data: Data) -> float:
    seen = reading.summary(data, DYNAMIC)
    return float(seen["rows_delivered"]) / float(seen["rows_offered"])


def panel(data: Data, names: Mapping[str, str], tones: Mapping[str, int]) -> Panel:
    """The executors that there were."""

    def line(case: str) -> Line:
        return reading.line(data, case, _executors, names[case], style="step", tone=tones[case])

    return Panel("time (s)", "executors", tuple(map(line, names)))


CLAIMS = (
    *(Claim(f"slot hours of the executors that were there, {who}", None, _hours(case), only="spark")
      for who, case in (("policy", "latency"), ("static plan", "static"), (DYNAMIC, DYNAMIC))),
    Claim("share that meets the bound, static testers", None,
          lambda data: met(data, "static"), only="spark"),
    Claim("most executors under dynamic allocation", None, _most, only="spark"),
    Claim("executors under dynamic allocation at the end", None, _last, only="spark"),
    Claim("rows delivered of each that came, dynamic allocation", None, _delivered, only="spark"),
)  # fmt: skip
