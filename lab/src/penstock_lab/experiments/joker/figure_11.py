"""Joker's figure 11: when a thread counts as too busy.

One operator of 256 multiplications, and a rate that doubles from 40 to 640 ktps, while one thread
does 500. A thread of the paper is busier than its tuples make it: above 0.5 at 160 ktps, and above
0.8 at 320 and at half of 640. That it is above 0.5 at 160 and not at 80 is given here
(`joker.LOOKING`), and what it does at 320 and 640 is read off. Tried as well are threads that sleep
as soon as they have nothing to do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from penstock.drawing.figures import Figure, Line, Panel
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read, Record
from penstock_lab.experiments.joker import common, load_spark
from penstock_lab.experiments.joker.common import ONE_MACHINE, PAPER
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import scaled

RATES = (40, 80, 160, 320, 640)
BUSY = (0.5, 0.8, 0.95)
ASLEEP = (0.5, 0.8)
"""The thresholds that are tried with threads that sleep."""

MARKED = "0.5"
"""The threshold that changes most, of which the picture marks the changes."""


def doubled(step: float, profile: float) -> Sequence[Case]:
    graph = common.workload("region-4", multiplications="256")
    load = f"steps:{','.join(map(str, RATES))}@{step:g}s"
    scenario = common.scenario(
        graph, {"multiply-1": common.multiplying(256)}, len(RATES) * step, load=load
    )
    asleep = replace(scenario, model=replace(scenario.model, looking=0.0))
    policy = replace(common.SEED, profile=profile, target=0.2)
    return (
        *(Case(f"{busy}", Play(scenario, replace(policy, bottleneck=busy))) for busy in BUSY),
        *(
            Case(f"asleep, {busy}", Play(asleep, replace(policy, bottleneck=busy)))
            for busy in ASLEEP
        ),
        Case("organic", Play(scenario, replace(common.OURS, profile=profile))),
        Case("best static", Play(scenario, plan=scaled(scenario.plan, {"multiply-1": NEEDED}))),
    )


NEEDED = 2
"""Replicas for 640 ktps, of which one does 500: no static plan can have fewer."""


def most(case: str, which: int, at_end: bool = False) -> Read:
    """The most replicas while a rate lasted, or those at its end; rates are counted from 0.

    A change counts from when it is made, as there may be no tick after it.
    """

    def read(data: Data) -> float:
        step = float(data.parameters["step"])
        since, until = which * step + 1, (which + 1) * step
        found = [
            (float(tick["at"]), common.replicas(tick, "multiply-1"))
            for tick in reading.between(data.of(case), since, until - 1)
        ]
        if not found:
            raise KeyError(f"{case} was not at the rate {which}")
        for change in reading.between(data.of(case, "change"), since, until):
            to = (re.fullmatch(r"multiply-1: parallelism \d+ -> (\d+)", a)
                  for a in change["actions"])  # fmt: skip
            found += [(float(change["at"]), int(one[1])) for one in to if one]
        counts = [count for _, count in sorted(found, key=lambda one: one[0])]
        return float(counts[-1] if at_end else max(counts))

    return read


def _single(data: Data) -> float:
    """The most that one thread has done."""
    alone = [t for t in data.of("0.95") if common.replicas(t, "multiply-1") == 1]
    return max(float(t["pipelines"]["multiply-1"]["rate_in"] or 0.0) for t in alone)


def _handled(data: Data) -> float:
    """The share of 640 ktps that is carried at the end."""
    end = float(data.of("0.8")[-1]["at"])
    rate = reading.throughput(data, "0.8", end - 15, end)
    return min(1.0, rate / 640)


def _time(case: str) -> Read:
    """Threads times the time they were there, of which the fewest carry all that comes."""
    return lambda data: reading.task_hours(data, case) / reading.task_hours(data, "best static")


def picture_11(data: Data) -> Figure:
    if data.engine == "spark":
        return load_spark.picture(data)
    cases = [str(b) for b in BUSY] + ["organic"]
    rate = Line("offered", *reading.rates(data, "0.8", 2.0, "offered"), tone=6, faint=True)
    through = [Line(_named(c), *reading.rates(data, c, 2.0), tone=at) for at, c in enumerate(cases)]
    counts = tuple(_replicas(data, c, at) for at, c in enumerate(cases))
    marks, marked = common.marks(data, MARKED), f"changes with threshold {MARKED}"
    return Figure(
        "When a thread counts as too busy",
        (
            Panel("time (s)", "ktps", (rate, *through), marks=marks, marked=marked),
            Panel("time (s)", "replicas", counts, marks=marks, marked=marked),
        ),
        note=common.note(data, "figure 11"),
    )


def _replicas(data: Data, case: str, tone: int) -> Line:
    """Lines a little apart, so that none hides another."""

    def read(tick: Record) -> float:
        return common.replicas(tick, "multiply-1") + 0.03 * tone

    return reading.line(data, case, read, _named(case), style="step", tone=tone)


def _named(case: str) -> str:
    return common.named(case) if case == "organic" else f"threshold {case}"


_IDLE = (
    "on Spark, instances are busy only with rows, so 160 of 500 rows per second make an "
    "instance 0.32 busy"
)

_AGAIN = (
    "this is our `organic`, not the paper's policy: it adds a second replica five seconds after "
    "the rate has doubled, when its 30 s average still includes the lower rate. The additional "
    "input then counts as a gain of the replica, which stays, and a third one is tried. The "
    "paper finds that one replica does as much, and removes the second"
)

_JUST_DOUBLED = (
    "on Spark an instance is added within seconds of a doubled rate, while a step lasts 20 s, "
    "so the gain of the higher rate counts as a gain of the instance, which stays"
)

_AT_THE_END = (
    "at 98 of 100 s the run goes from two instances to three: rows that had waited for the "
    "second one were being processed, so instances were busy and throughput was twice the "
    "previous one. The run ends before the third is evaluated"
)

FIGURE_11 = Experiment(
    "joker-11",
    "When a thread counts as too busy",
    PAPER,
    "figure 11",
    doubled,
    (
        Claim("most replicas at 80 ktps, threshold 0.5", 1.0, most("0.5", 1), only="simulator",
              basis="given"),
        Claim("most replicas at 160 ktps, threshold 0.5", 2.0, most("0.5", 2), only="simulator",
              basis="given"),
        Claim("most instances at 160 rows a second, threshold 0.5", 2.0, most("0.5", 2),
              only="spark", on_spark=_IDLE),
        Claim("most replicas at 320 ktps, threshold 0.5", 2.0, most("0.5", 3), why=_AGAIN),
        Claim("most replicas at 320 ktps, threshold 0.8", 2.0, most("0.8", 3)),
        Claim("most replicas at 320 ktps, threshold 0.95", 1.0, most("0.95", 3)),
        Claim("replicas at the end of 320 ktps, threshold 0.5", 1.0, most("0.5", 3, True),
              why=_AGAIN, on_spark=_JUST_DOUBLED),
        Claim("throughput of one thread at 640 ktps", 500.0, _single, "ktps", only="simulator",
              basis="given"),
        Claim("most replicas at 640 ktps, threshold 0.5", 3.0, most("0.5", 4)),
        Claim("most replicas at 640 ktps, threshold 0.8", 3.0, most("0.8", 4)),
        Claim("most replicas at 640 ktps, threshold 0.95", 2.0, most("0.95", 4),
              on_spark=_AT_THE_END),
        Claim("replicas at the end, threshold 0.5", 2.0, most("0.5", 4, True),
              on_spark=_JUST_DOUBLED),
        Claim("replicas at the end, threshold 0.8", 2.0, most("0.8", 4, True)),
        Claim("replicas at the end, threshold 0.95", 2.0, most("0.95", 4, True),
              on_spark=_AT_THE_END),
        Claim("share of 640 ktps that is carried in the end", 1.0, _handled, ideal=1.0,
              basis="given"),
        *(Claim(f"threads that sleep: most replicas at {RATES[at]} ktps, threshold {busy}", seed,
                most(f"asleep, {busy}", at), basis="varied")
          for at, busy, seed in ((2, 0.5, 2.0), (3, 0.5, 2.0), (3, 0.8, 2.0), (4, 0.8, 3.0))),
        Claim("replicas at the end, our own policy", None, most("organic", 4, True)),
        Claim("thread hours with threshold 0.8 beside the best static plan", None, _time("0.8")),
        Claim("thread hours of our own policy beside the best static plan", None,
              _time("organic")),
        *load_spark.CLAIMS,
    ),
    picture_11,
    size={"step": 150.0, "profile": 30.0},
    quick={"step": 100.0, "profile": 20.0},
    spark=load_spark.cases,
    spark_size={"step": 20.0, "swing": 16.0, "profile": 5.0, "busy": (0.5, 0.95)},
    notes=(ONE_MACHINE,
           "Given: two replicas carry 640 ktps, since one thread carries 500.",
           "On Spark, rates are rows per second instead of thousands."),
)  # fmt: skip

EXPERIMENTS = (FIGURE_11,)
