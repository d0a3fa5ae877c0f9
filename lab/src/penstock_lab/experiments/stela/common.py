"""What Stela's experiments have in common: topologies under its rivals.

The paper does not print what its components take. Of page load, processing and network monitoring
its authors have published it: components that wait or take no time, so that no machine is ever
short of a processor. Those of star, linear and diamond do nothing there but pass tuples on: for
these a time between 20 and 60 ms a tuple is drawn for every component, which is a choice, and the
figures are means over some draws.

The default scheduler does what a rebalance of Storm's does: everything stops, for the time that
Storm waits and until all workers are started. Stela's is one too, as published, which waits for
nothing and stops only what gets other executors.

Least link load moves executors to the new machine, as in the paper, and adds none: those of the
component with the least traffic on its links and of those that it talks to. Each is started anew in
a worker there, for which it stands still as long as a machine takes to start. It is not the policy
of that name here, which gives the slots of a machine away.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.engines.simulator.changes import InjectedFailure
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.stela import policy as stela
from penstock_lab.experiments.experiment import Case, Data, Record, Setting
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import best_static, scaled
from penstock_lab.experiments.scenario import Scenario
from penstock_lab.experiments.stela.layout import Layout, slots

PAPER = "Stela: scale-in and scale-out on demand"

AT = 120.0
"""Seconds until the request, by when throughput is what it is."""

AFTER = 300.0
"""Seconds that are watched after it."""

TURN = 5.0
"""Seconds between two looks; throughput is read over windows of 10 s, as in the paper."""

REBALANCING = 30.0
"""Seconds that Storm's rebalance waits, its message timeout, before it starts everything anew."""

AT_ONCE = "default at once"
REBALANCED = {"default": REBALANCING, AT_ONCE: 0.0}
"""The default scheduler by how long it waits: it need not, if it is told so."""

START = 10.0
"""Seconds of a processor until a worker process is there, on a machine that came as on others."""

POLICIES = ("stela", "least link load", "default", "best static")

Bounds = tuple[float, float]

DRAWN: Bounds = (0.02, 0.06)
"""Seconds between which times of components are drawn that nobody knows."""


@dataclass(frozen=True)
class Once:
    """Decides one thing at a time, and nothing else before or after."""

    name: str
    at: float
    choose: Callable[[Context], Decision]

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        if memory or context.now < self.at:
            return Decision(None, "nobody has asked for anything"), memory
        decision = self.choose(context)
        return decision, decision.plan is not None


@dataclass(frozen=True)
class ScaleOut:
    """One topology under one of the rivals, scaled out at a time."""

    layout: Layout
    policy: str
    number: int
    between: Bounds = DRAWN

    def __call__(self, setting: Setting) -> Sequence[Record]:
        times = taken(self.layout, setting.seed, self.number, self.between)
        scenario = self.layout.scenario(times, AT + AFTER, cpu=0.0)
        added = self.layout.machines[1] - self.layout.machines[0]
        if self.policy in ("stela", "best static"):
            scenario = rebuilt(scenario, starting(self.layout, 1))
        if self.policy == "stela":
            decide = Once("stela", AT, lambda context: stela.scale_out(context, added))
        elif self.policy == "least link load":
            scenario = drawn(scenario, least_links(self.layout, times))
            decide = Once("least-link-load", AT, _only_machines(added))
        elif self.policy in REBALANCED:
            wait = REBALANCED[self.policy] + starting(self.layout, self.layout.workers)
            scenario = missed_after(scenario, wait)
            decide = Once("default", AT, _only_machines(added))
        else:
            decide = Once("best-static", AT, _to(best(self.layout, times, scenario)))
        options: dict[str, Any] = {"step": TURN}
        if self.policy in REBALANCED:
            options["failures"] = broken(range(self.layout.machines[0]))
        play = Play(scenario, decide, turn=TURN, every=TURN, options=options)
        return tuple(play(chanced(setting, self.number)))


@dataclass(frozen=True)
class Dealt:
    """A topology dealt out over machines of one processor anew, with components that work.

    What a rebalance of Storm's does to them: the same executors, in the same order, one to each
    machine in turn.
    """

    layout: Layout
    machines: int
    number: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        times = taken(self.layout, setting.seed, self.number)
        scenario = self.layout.scenario(times, AT, cores=1)
        plan = replace(scenario.plan, executors=self.machines)
        play = Play(scenario, plan=plan, turn=TURN, every=TURN, options={"step": TURN})
        return tuple(play(chanced(setting, self.number)))


def chanced(setting: Setting, number: int) -> Setting:
    """The setting of one repetition: other chance, the same for all rivals."""
    return replace(setting, seed=1000 * setting.seed + number)


def taken(layout: Layout, seed: int, number: int, between: Bounds = DRAWN) -> dict[str, float]:
    """Seconds of a tuple for every component but the sources: known, or else drawn."""
    if layout.times:
        return dict(layout.times)
    rng = random.Random(f"{layout.name} {seed} {number}")
    return {n: rng.uniform(*between) for n in layout.inputs if n not in layout.sources}


def best(layout: Layout, times: Mapping[str, float], scenario: Scenario) -> Plan:
    """The plan with the slots of the new machine where they carry most, knowing the costs."""
    first = {name: layout.first[name] for name in times}
    most = sum(first.values()) + slots(layout)
    choices = {name: range(first[name], layout.tasks + 1) for name in times}
    found = best_static(
        choices,
        lambda instances: layout.throughput(times, instances),
        first,
        allowed=lambda instances: sum(instances.values()) <= most,
    )
    return scaled(replace(scenario.plan, executors=layout.machines[1]), found)


def least_links(layout: Layout, times: Mapping[str, float]) -> tuple[str, ...]:
    """Components in the order in which least link load moves executors of them.

    First the one with the least traffic on its links, then always the one with the least of those
    beside the ones before, so that who talks to each other comes together.
    """
    traffic = layout.traffic(times)
    found: list[str] = []
    while len(found) < len(traffic):
        left = [name for name in traffic if name not in found]
        beside = [
            name
            for name in left
            if any(name in layout.inputs[one] or one in layout.inputs[name] for one in found)
        ]
        found.append(min(beside or left, key=lambda name: traffic[name]))
    return tuple(found)


def drawn(scenario: Scenario, components: tuple[str, ...]) -> Scenario:
    """The same with machines that draw executors of these components when they come."""
    timing = scenario.model.timing
    timing = replace(timing, restart=timing.executor_start)
    return replace(scenario, model=replace(scenario.model, drawn=components, timing=timing))


def starting(layout: Layout, workers: int) -> float:
    """Seconds until so many workers are started, on all machines of a layout at first."""
    return workers * START / (layout.machines[0] * layout.cores)


def rebuilt(scenario: Scenario, seconds: float) -> Scenario:
    """The same with components that stop when they get other executors, so long for each it has.

    Executors of Storm's have tasks in fixed ranges: others than before for as many more executors,
    so that the workers of the whole component are started anew, and nothing else is.
    """
    timing = replace(scenario.model.timing, restart=0.0, stop=seconds)
    return replace(scenario, model=replace(scenario.model, timing=timing))


def _to(plan: Plan) -> Callable[[Context], Decision]:
    return lambda context: Decision(plan, "found by search")


def _only_machines(added: int) -> Callable[[Context], Decision]:
    def choose(context: Context) -> Decision:
        plan = replace(context.plan, executors=context.plan.executors + added)
        return Decision(plan, "more machines for the same executors")

    return choose


def missed_after(scenario: Scenario, seconds: float = REBALANCING) -> Scenario:
    """The same with a time until something that broke is started again: Storm waits so long."""
    timing = replace(scenario.model.timing, detection=seconds)
    return replace(scenario, model=replace(scenario.model, timing=timing))


def broken(machines: Iterable[Any], comes_back: bool = True) -> tuple[InjectedFailure, ...]:
    """Machines that stop with all that is on them when the request has come.

    In a rebalance of Storm's they come back as they were.
    """
    return tuple(
        InjectedFailure(AT + 1.0, executor=str(one), comes_back=comes_back) for one in machines
    )


def cases(
    layouts: Sequence[Layout],
    draws: int,
    policies: Sequence[str] = POLICIES,
    between: Bounds = DRAWN,
    also: str = "",
) -> tuple[Case, ...]:
    """Each layout under each policy, so many times; also: what is said behind its name."""
    return tuple(
        Case(named(layout.name + also, policy, number), ScaleOut(layout, policy, number, between))
        for layout in layouts
        for policy in policies
        for number in range(draws)
    )


def dealt(layouts: Sequence[Layout], draws: int) -> tuple[Case, ...]:
    """Layouts whose times are known, dealt out over the machines before and after."""
    return tuple(
        Case(named(layout.name, f"dealt to {machines}", n), Dealt(layout, machines, n))
        for layout in layouts
        if layout.times
        for machines in layout.machines
        for n in range(draws)
    )


def named(layout: str, policy: str, number: int) -> str:
    return f"{layout}, {policy}, {number}"


def draws(data: Data) -> range:
    return range(int(data.parameters["draws"]))


FIXED = (
    "Spark's dynamic allocation has nothing to decide here: a person says how many machines come "
    "or go, and it knows neither whom to give their slots nor which of them matter least."
)
