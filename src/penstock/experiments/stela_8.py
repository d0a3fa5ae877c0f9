"""Stela's figure 8: which machines to remove, by ETP or at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from penstock.control.context import Context
from penstock.engines.simulator.failure import Failure
from penstock.engines.simulator.layout import PAGE_LOAD
from penstock.experiments import reading
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read, Record, Setting
from penstock.experiments.play import Play
from penstock.experiments.stela import AFTER, AT, PAPER, REBALANCING, Once, drawn, draws, named
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies import stela
from penstock.report.figures import Bars, Figure, Line, Mark, Panel

SCALING = replace(PAGE_LOAD, tasks=15, executors=15, machines=(8, 4))
"""The last line of the seed's Table I: 15 executors of each component on 8 machines, then on 4."""

_EVEN = (
    "here the instances of a machine that goes are spread evenly over the rest and share the "
    "processors fairly, so that it hardly matters which machines go, and components near the "
    "source, which Stela moves, take processors from those behind them; in the seed instances were "
    "dealt out in turn, and tuples that came too late were sent again"
)

GONE = SCALING.machines[0] - SCALING.machines[1]
POLICIES = ("stela", "random")


@dataclass(frozen=True)
class Draw:
    """Page load with components side by side on machines of one processor, then half of them."""

    policy: str
    number: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        times = drawn(SCALING, setting.seed, self.number)
        scenario = SCALING.scenario(times, AT + AFTER, cores=1, packed=True)
        failures: tuple[Failure, ...] = ()
        if self.policy == "stela":
            policy = Once("stela", AT, lambda context: stela.scale_in(context, GONE))
        else:
            rng = random.Random(f"{setting.seed} {self.number}")
            group = tuple(str(n) for n in sorted(rng.sample(range(SCALING.machines[0]), GONE)))
            policy = Once("random", AT, lambda context: _without(context, group))
            timing = replace(scenario.model.timing, detection=REBALANCING)
            scenario = replace(scenario, model=replace(scenario.model, timing=timing))
            failures = tuple(Failure(AT + 1.0, executor=str(n)) for n in range(SCALING.machines[0]))
        limits = Limits(executor_slots=64)
        options = {"failures": failures}
        return tuple(Play(scenario, policy, limits=limits, every=5.0, options=options)(setting))


def _without(context: Context, group: tuple[str, ...]) -> Decision:
    plan = replace(context.plan, executors=context.plan.executors - GONE, leaving=group)
    return Decision(plan, f"{', '.join(group)} go, chosen at random")


def cases(draws: int) -> Sequence[Case]:
    return tuple(
        Case(named("page-load", policy, n), Draw(policy, n))
        for policy in POLICIES
        for n in range(draws)
    )


def before(data: Data, policy: str, number: int) -> float:
    return reading.throughput(data, named("page-load", policy, number), AT - 60, AT)


def after(data: Data, policy: str, number: int) -> float:
    case = named("page-load", policy, number)
    return reading.throughput(data, case, AT + AFTER / 2, AT + AFTER)


def kept(policy: str) -> Read:
    """Throughput afterwards beside before."""
    return lambda data: fmean(after(data, policy, n) / before(data, policy, n) for n in draws(data))


def beside(data: Data) -> float:
    """Stela's throughput afterwards beside that of random groups, all draws together."""
    ours = fmean(after(data, "stela", n) for n in draws(data))
    return ours / fmean(after(data, "random", n) for n in draws(data))


def down(data: Data, policy: str) -> float:
    """Seconds without any throughput after the request, at least one so that they compare."""
    found = []
    for n in draws(data):
        ticks = reading.between(data.of(named("page-load", policy, n)), AT, AT + AFTER)
        pairs = pairwise(ticks)
        still = sum(b["at"] - a["at"] for a, b in pairs if a["delivered"] == b["delivered"])
        found.append(max(1.0, still))
    return fmean(found)


def picture(data: Data) -> Figure:
    lines = []
    for tone, policy in enumerate(POLICIES):
        found = [reading.rates(data, named("page-load", policy, n)) for n in draws(data)]
        length = min(len(times) for times, _ in found)
        mean = tuple(fmean(rates[at] for _, rates in found) for at in range(length))
        lines.append(Line(policy, found[0][0][:length], mean, tone=tone))
    marks = (Mark(AT, "8 → 4 machines"),)
    shares = tuple(
        Bars(p, tuple(after(data, p, n) / before(data, p, n) for n in draws(data)))
        for p in POLICIES
    )
    names = tuple(str(n + 1) for n in draws(data))
    return Figure(
        "Page load: four of eight machines are removed",
        (
            Panel("time (s)", "tuples/s", tuple(lines), marks=marks),
            Panel("draw", "throughput kept (share)", categories=names, bars=shares),
        ),
        note=f"simulated, seed {data.seed}, mean of {len(draws(data))} draws; "
        "after Stela, figure 8",
    )


FIGURE_8 = Experiment(
    "stela-8",
    "Scale-in of page load from 8 machines to 4",
    PAPER,
    "figure 8",
    cases,
    (
        Claim(
            "share of the throughput that Stela keeps",
            1.0,
            kept("stela"),
            better="higher",
            why=_EVEN,
        ),
        Claim("share that random groups keep", 0.4, kept("random"), why=_EVEN),
        Claim("Stela beside random groups", 3.3, beside, "", 1.0, why=_EVEN),
        Claim(
            "down time of Stela beside random groups",
            0.19,
            lambda data: down(data, "stela") / down(data, "random"),
            neutral=1.0,
            better="lower",
        ),
    ),
    picture,
    size={"draws": 10},
    quick={"draws": 3},
)

EXPERIMENTS = (FIGURE_8,)
