"""Stela's figure 8: which machines to remove, by ETP or at random."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from penstock.drawing.figures import Bars, Figure, Level, Line, Mark, Panel
from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.executors import packed
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.stela import policy as stela
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import (
    Case,
    Claim,
    Data,
    Experiment,
    Read,
    Record,
    Setting,
    simulated,
)
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.stela import scale_in_reading, scale_in_spark
from penstock_lab.experiments.stela.common import (
    AFTER,
    AT,
    FIXED,
    PAPER,
    TURN,
    Once,
    broken,
    chanced,
    draws,
    missed_after,
    named,
)
from penstock_lab.experiments.stela.topologies import SCALING

GONE = SCALING.machines[0] - SCALING.machines[1]
NEVER = 1e6
"""Seconds after which a missing instance is noticed."""

STELA, RANDOM, LOST, BEST = "stela", "random", "random, not placed", "best static"
WORKERS = 4
"""Worker processes on a machine; each has a share of the executors."""

SOME = {"random, 3/4 placed": 0.75, "random, 1/2 placed": 0.5, "random, 1/4 placed": 0.25}
"""Shares of the removed workers that find a free place on other machines."""
WORKING = ", working"
"""Suffix of a policy: components work on the single processor of a machine instead of waiting."""

POLICIES = (STELA, RANDOM, LOST, *SOME, BEST, STELA + WORKING, RANDOM + WORKING)


@dataclass(frozen=True)
class ScaleInDraw:
    """Page load with one component on a machine, then half of the machines."""

    policy: str
    number: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        cpu = 1.0 if self.policy.endswith(WORKING) else 0.0
        scenario = SCALING.scenario(SCALING.times, AT + AFTER, cores=1, packed=True, cpu=cpu)
        way, options = self.policy.removesuffix(WORKING), dict[str, Any](step=TURN)
        policy = Once(way, NEVER, lambda context: Decision(None, "nothing is to change"))
        group = self._group(setting)
        if way == STELA:
            policy = Once(way, AT, lambda context: stela.scale_in(context, GONE))
        elif way == RANDOM:
            policy = Once(way, AT, lambda context: _without(context, group))
            scenario = missed_after(scenario)
            options["failures"] = broken(range(SCALING.machines[0]))
        elif way == LOST:
            scenario = missed_after(scenario, NEVER)
            options["failures"] = broken(group, comes_back=False)
        elif way in SOME:
            scenario = missed_after(scenario, NEVER)
            homeless = self._homeless(setting, scenario.plan, group, SOME[way])
            options["failures"] = tuple(InjectedFailure(AT + 1.0, None, *one) for one in homeless)
        else:
            scenario = replace(scenario, plan=replace(scenario.plan, executors=SCALING.machines[1]))
        limits = Limits(executor_slots=64)
        play = Play(scenario, policy, limits=limits, turn=TURN, every=TURN, options=options)
        return tuple(play(chanced(setting, self.number)))

    def _group(self, setting: Setting) -> tuple[str, ...]:
        rng = random.Random(f"{setting.seed} {self.number}")
        return tuple(map(str, sorted(rng.sample(range(SCALING.machines[0]), GONE))))

    def _homeless(
        self, setting: Setting, plan: Plan, group: tuple[str, ...], share: float
    ) -> Iterator[tuple[str, int]]:
        """Instances of workers without a place, drawn from a group of machines."""
        workers = [(machine, n) for machine in group for n in range(WORKERS)]
        rng = random.Random(f"{setting.seed} {self.number} workers")
        gone = {*rng.sample(workers, round((1 - share) * len(workers)))}
        placed = packed(plan)
        for name, hosts in placed.hosts.items():
            for at, machine in enumerate(placed.executors):
                here = [n for n, host in enumerate(hosts) if host == at]
                yield from ((name, n) for k, n in enumerate(here) if (machine, k % WORKERS) in gone)


def _without(context: Context, group: tuple[str, ...]) -> Decision:
    plan = replace(context.plan, executors=context.plan.executors - GONE, leaving=group)
    return Decision(plan, f"{', '.join(group)} go, chosen at random")


def cases(draws: int) -> Sequence[Case]:
    return tuple(
        Case(named("page-load", policy, n), ScaleInDraw(policy, n))
        for policy in POLICIES
        for n in range(draws)
    )


def before(data: Data, policy: str, number: int) -> float:
    return reading.throughput(data, named("page-load", policy, number), AT - 60, AT)


def after(data: Data, policy: str, number: int) -> float:
    case = named("page-load", policy, number)
    return reading.throughput(data, case, AT + AFTER / 2, AT + AFTER)


def kept(policy: str) -> Read:
    """Throughput afterwards, relative to before."""
    return lambda data: fmean(after(data, policy, n) / before(data, policy, n) for n in draws(data))


def beside(policy: str, other: str) -> Read:
    """Throughput afterwards relative to another policy's, over all draws."""

    def read(data: Data) -> float | None:
        theirs = fmean(after(data, other, n) for n in draws(data))
        return fmean(after(data, policy, n) for n in draws(data)) / theirs if theirs else None

    return read


def down(data: Data, policy: str) -> float:
    """Seconds without throughput after the request."""
    found = []
    for n in draws(data):
        ticks = reading.between(data.of(named("page-load", policy, n)), AT, AT + AFTER)
        pairs = pairwise(ticks)
        still = (b["at"] - a["at"] for a, b in pairs if a["delivered"] == b["delivered"])
        found.append(math.fsum(still))
    return fmean(found)


def picture(data: Data) -> Figure:
    if data.engine == "spark":
        return scale_in_reading.picture(data)
    lines = []
    for tone, policy in enumerate((RANDOM, *SOME, LOST, STELA)):
        found = [reading.rates(data, named("page-load", policy, n)) for n in draws(data)]
        length = min(len(times) for times, _ in found)
        mean = tuple(fmean(rates[at] for _, rates in found) for at in range(length))
        lines.append(Line(_placed(policy), found[0][0][:length], mean, tone=tone + 1))
    here = (STELA, RANDOM, *SOME, LOST)
    most = fmean(after(data, BEST, n) for n in draws(data))
    return Figure(
        "Page load: four of eight machines are removed",
        (
            Panel(
                "time (s)",
                "tuples/s",
                tuple(lines),
                marks=(Mark(AT, "8 → 4 machines"),),
                levels=(Level(most, BEST),),
            ),
            Panel(
                "choice of the machines, and instances that find a place",
                "throughput kept (share)",
                categories=tuple(map(_placed, here)),
                bars=_spread(data, here),
                levels=(Level(1.0, "all of it"),),
            ),
        ),
        note=f"simulated, random seed {data.seed}, {len(draws(data))} draws; after Stela, figure 8",
    )


def _short(policy: str) -> str:
    return policy.removeprefix("random, ")


def _placed(policy: str) -> str:
    return "random, all placed" if policy == RANDOM else policy


def _spread(data: Data, policies: Sequence[str]) -> tuple[Bars, ...]:
    """Minimum, mean and maximum over all draws of the share that is kept."""
    found = [[after(data, p, n) / before(data, p, n) for n in draws(data)] for p in policies]
    ways = (("least", min), ("mean", fmean), ("most", max))
    return tuple(Bars(label, tuple(map(way, found))) for label, way in ways)


_PLACE = (
    "it does not matter which machines go as long as all instances find a place on the rest. Those "
    "that wait, as published, do as much there; those that work take turns on the processors, of "
    "which ETP knows nothing, so that Stela's choice is no better than others (rows below). It "
    "matters where they find none: the paper's 32 worker processes fill the four places of each "
    "machine, of which half are left. The fewer of those that went find one, the less is kept, "
    "down to nothing (rows below). The paper's two groups, with 0.2 and 0.6, are between, but "
    "Storm's scheduler and the one that the paper's authors have published find a place for all"
)

FIGURE_8 = Experiment(
    "stela-8",
    "Scale-in of page load from 8 machines to 4",
    PAPER,
    "figure 8",
    cases,
    (
        *simulated(
            Claim(
                "share of the throughput that Stela keeps",
                1.0,
                kept(STELA),
                better="higher",
                ideal=1.0,
                why=_PLACE,
                basis="given",
            ),
            Claim("share that random groups keep", 0.4, kept(RANDOM), neutral=1.0, why=_PLACE),
            Claim("Stela beside random groups", 3.3, beside(STELA, RANDOM), "", 1.0, why=_PLACE),
            *(
                Claim(
                    f"share that random groups keep, {_short(way)}",
                    0.4,
                    kept(way),
                    basis="varied",
                )
                for way in SOME
            ),
            Claim(
                "seconds without throughput, Stela beside random groups",
                0.19,
                lambda data: down(data, STELA) / down(data, RANDOM),
                neutral=1.0,
                basis="given",
            ),
            Claim("seconds without throughput, Stela", None, lambda data: down(data, STELA), "s"),
            Claim(
                "seconds without throughput, random groups",
                None,
                lambda data: down(data, RANDOM),
                "s",
            ),
            Claim("Stela beside four machines from the start", None, beside(STELA, BEST)),
            Claim("share that random groups keep without a place", None, kept(LOST)),
            Claim("share that Stela keeps, components working", None, kept(STELA + WORKING)),
            Claim(
                "share that random groups keep, components working", None, kept(RANDOM + WORKING)
            ),
        ),
        *scale_in_reading.CLAIMS,
    ),
    picture,
    size={"draws": 8},
    quick={"draws": 3},
    spark=scale_in_spark.cases,
    spark_size={"at": 40.0, "seconds": 75.0, "rate": 80, "groups": 2},
    on_spark=scale_in_spark.ON_SPARK,
    notes=(
        "Given: random groups stop for the 30 s that Storm waits before it restarts, 25 s of "
        "which are whole ticks; Stela's scale-in stops nothing here. Also given: Stela keeps "
        "all throughput, as components that wait do as much on any machine.",
        "Best static plan: all instances on four machines from the start.",
        FIXED,
        scale_in_spark.IDLE,
    ),
)

EXPERIMENTS = (FIGURE_8,)
