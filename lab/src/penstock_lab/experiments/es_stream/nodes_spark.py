"""Es-Stream's machines on Spark: executors that come and go with the rate, beside instances.

The operators are those of es-stream-9, which wait, and the rates a thirtieth of the paper's: 60
rows a second, then 120, 90 and 30. A machine is an executor of Spark's cluster in one machine, with
room for four instances as in the paper and a slot for each. What Es-Stream is told is what it is
told elsewhere: the share at which its formula has as many instances as an even plan at the highest
rate, as in es-stream-9, and the load up to which machines go, as in the simulated cluster. It looks
as often in a phase as the paper's, whose phases last 60 s.

The even plan and the best static one have the instances that they have in es-stream-9, for the
highest rate. Both fill all executors, so that nothing is left of R-Storm, which would have the even
plan on fewer; and the best static plan is what DRS would deal. Dynamic allocation has the best
static plan's instances and at first what the warm-up left it with: more executors come while tasks
are pending for a second, and one goes that had nothing to do for a phase, which is what Spark's
default of 60 s is in the paper.

All start a batch once a second at most, as the two cores of one machine have executors to start and
to feed as well. Executors are counted as Spark has them, whatever a plan says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import fmean

from penstock.drawing.figures import Figure, Line, Mark, Panel
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.es_stream.policy import EsStream
from penstock_lab.experiments import reading, waiting
from penstock_lab.experiments.es_stream import chain_spark, common
from penstock_lab.experiments.experiment import Case, Claim, Data, Read, Record
from penstock_lab.experiments.nephele import prime_tester_spark
from penstock_lab.experiments.play import SparkPlay

EXECUTORS, ROOM = 4, common.INSTANCES
CLUSTER = f"local-cluster[{EXECUTORS},{ROOM},1024]"
SLOTS = EXECUTORS * ROOM
CADENCE = 1.0
OWN, EVEN, BEST, DYNAMIC = "es-stream", "even", "best static", "dynamic allocation"
WAYS = (OWN, EVEN, BEST, DYNAMIC)
SEED = (14, 24, 19)
"""Instances of COMMCount, which the paper prints for all rates but the last."""

PHASE = 60.0
"""Durations of the paper's rates in seconds, except the first."""

ON_SPARK = (
    f"Spark's own cluster in one machine, {CLUSTER}: machines are executors, processes that come "
    "and go, and all of them share two cores. So operators wait instead of working, the rates are "
    "a thirtieth of the paper's, there are four executors in place of 13 machines, COMMCount "
    "alone, and phases last 36 s in place of 60 s, with as many looks in each. An executor takes "
    "seconds to come and some more until it is as fast as the others, and the tasks of one that "
    "goes are begun again elsewhere. In its first seconds Spark is slow, and Es-Stream takes "
    "instances and an executor for what waits then, so that the highest rate is beside more than "
    "the first one needs. Latencies are those of batches, one a second at most. The even plan and "
    "the best static one fill all executors, so that R-Storm, which would pack the one, has "
    "nothing to pack, and DRS would deal the other."
)


def cases(rates: Sequence[int], phase: float) -> Sequence[Case]:
    first, top = rates[0], max(rates)
    load = f"steps:{','.join(map(str, rates))}@{phase:g}s"
    few, best = plan(chain_spark.formula(first)), plan(chain_spark.best(top))
    own = SparkPlay(
        partial(chain_spark.build, load),
        len(rates) * phase,
        policy(phase),
        few,
        limits=Limits(slots=SLOTS, executors=EXECUTORS, executor_slots=ROOM),
        slots=SLOTS,
        master=CLUSTER,
    )
    static = replace(own, policy="static", plan=best)
    even = replace(static, plan=plan(chain_spark.even(top)))
    allocated = prime_tester_spark.allocation(phase, EXECUTORS, ROOM)
    return (
        Case(OWN, own),
        Case(EVEN, even),
        Case(BEST, static),
        Case(DYNAMIC, replace(static, conf=allocated)),
    )


def policy(phase: float) -> EsStream:
    """Es-Stream with as many measurements per phase as in the paper."""
    seed, pace = common.SEED, phase / PHASE
    return replace(chain_spark.POLICY, steady=pace * seed.steady,
                   changing=pace * seed.changing, zeta=seed.zeta, room=ROOM)  # fmt: skip


def plan(instances: Mapping[str, int]) -> Plan:
    """A plan with these instances on the fewest executors that hold them and the source."""
    made = waiting.plan(waiting.chain("clicks", chain_spark.services()), instances)
    paced = tuple(replace(p, cadence=CADENCE) for p in made.pipelines)
    return Plan(paced, math.ceil(made.slots / ROOM))


# --- reading ------------------------------------------------------------------------------------

Get = Callable[[Record], float | None]


def executors(tick: Record) -> float:
    """Those that Spark had."""
    return float(tick["cores"]) / ROOM


def _instances(tick: Record) -> float:
    return float(common.instances(tick))


def _seconds(tick: Record) -> float | None:
    return next((float(one["mean"]) for one in tick["latency"].values()), None)


def at_end(case: str, which: int, get: Get) -> Read:
    """A value at the end of a phase: its mean over the last fifth."""

    def read(data: Data) -> float:
        phase = float(data.parameters["phase"])
        end = (which + 1) * phase
        ticks = reading.between(data.of(case), end - 0.2 * phase, end)
        found = [value for value in map(get, ticks) if value is not None]
        if not found:
            raise KeyError(f"{case} says nothing at the end of phase {which + 1}")
        return fmean(found)

    return read


def _ratio(top: Read, bottom: Read) -> Read:
    def read(data: Data) -> float | None:
        over, under = top(data), bottom(data)
        return over / under if over is not None and under else None

    return read


def _average(case: str, get: Get) -> Read:
    return lambda data: reading.average(data, case, get)


def _hours(case: str) -> Read:
    return lambda data: reading.task_hours(data, case)


def _slot_hours(case: str) -> Read:
    return lambda data: reading.slot_hours(data, case)


def _latency(case: str) -> Read:
    """Of all rows: looks at which none came through would be missing in a mean of looks."""
    return lambda data: reading.latency(data, case)


def _delivered(case: str) -> Read:
    def read(data: Data) -> float:
        seen = reading.summary(data, case)
        return float(seen["rows_delivered"]) / float(seen["rows_offered"])

    return read


def _spread(case: str) -> Read:
    """Largest minus smallest number of executors."""

    def read(data: Data) -> float:
        found = [executors(t) for t in data.of(case)]
        return max(found) - min(found)

    return read


def picture(data: Data) -> Figure:
    here = [way for way in WAYS if way in data.cases]
    rates, phase = data.parameters["rates"], float(data.parameters["phase"])
    steps = tuple(Mark(at * phase, f"{rate}/s") for at, rate in enumerate(rates) if at)

    def lines(get: Get, style: str = "line") -> tuple[Line, ...]:
        return tuple(
            reading.line(data, way, get, style=style, tone=WAYS.index(way)) for way in here
        )

    def marks(get: Callable[[Record], int]) -> tuple[Mark, ...]:
        return common.marks(data, OWN, get) if OWN in here else ()

    return Figure(
        f"{', '.join(map(str, rates))} rows/s, on executors of {ROOM} slots",
        (
            Panel("time (s)", "instances", lines(_instances, "step"), marked="changes of es-stream",
                  marks=marks(common.instances)),
            Panel("time (s)", "executors", lines(executors, "step"), marked="changes of es-stream",
                  marks=marks(lambda tick: round(executors(tick)))),
            Panel("time (s)", "mean latency (s)", lines(_seconds), log=True, marks=steps,
                  marked="rates that come"),
        ),
        note=common.note(data, "figures 14 to 17"),
    )  # fmt: skip


# --- claims -------------------------------------------------------------------------------------

RATES = ("the first rate", "the highest rate", "three quarters of it", "a quarter of it")


def _following(get: Get) -> list[Read]:
    """Values at the end of each phase but the first, relative to the phase before."""
    ends = [at_end(OWN, at, get) for at in range(len(RATES))]
    return [_ratio(then, before) for before, then in pairwise(ends)]


def _claims() -> tuple[Claim, ...]:
    start = "waiting operators:"
    more, fewer, fewest = _following(_instances)
    come, go, gone = _following(executors)
    beside = f"{start} %s at %s beside the phase before"
    rivals = WAYS[1:]
    found = [
        Claim(beside % ("instances", RATES[1]), SEED[1] / SEED[0], more, neutral=1.0),
        Claim(beside % ("instances", RATES[2]), SEED[2] / SEED[1], fewer, neutral=1.0),
        Claim(beside % ("instances", RATES[3]), None, fewest),
        Claim(beside % ("executors", RATES[1]), None, come, neutral=1.0, side="above"),
        Claim(beside % ("executors", RATES[2]), None, go, neutral=1.0, side="below",
              basis="given"),
        Claim(beside % ("executors", RATES[3]), None, gone, neutral=1.0, side="below"),
        *(Claim(f"{start} {what} at {rate}", None, at_end(OWN, at, get))
          for what, get in (("instances", _instances), ("executors", executors))
          for at, rate in enumerate(RATES)),
        Claim(f"{start} executors of Es-Stream on average beside the static ones", None,
              _ratio(_average(OWN, executors), _average(BEST, executors)), neutral=1.0,
              side="below", basis="given"),
        *(Claim(f"{start} executors of {way} on average", None, _average(way, executors))
          for way in WAYS),
        *(Claim(f"{start} executors that come and go under {way}", 0.0, _spread(way),
                basis="given") for way in (EVEN, BEST)),
        Claim(f"{start} executors that come and go under {DYNAMIC}", None, _spread(DYNAMIC)),
        Claim(f"{start} slot hours of Es-Stream's executors", None, _slot_hours(OWN)),
        *(Claim(f"{start} {what} of {way} beside Es-Stream", None, _ratio(read(way), read(OWN)))
          for what, read in (
              ("instance hours", _hours),
              ("slot hours of the executors", _slot_hours),
              ("latency", _latency),
              ("latency at the end of the highest rate", partial(at_end, which=1, get=_seconds)),
          )
          for way in rivals),
        *(Claim(f"{start} rows delivered of each that came, {way}", None, _delivered(way))
          for way in WAYS),
    ]  # fmt: skip
    return tuple(replace(claim, only="spark") for claim in found)


CLAIMS = _claims()
