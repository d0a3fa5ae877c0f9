"""Giving out slots: one more instance at a time, to whom a choice says, within what is allowed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidInput
from penstock.metrics import derived, windows
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import GAIN_ROWS, Decision
from penstock.plan.plan import Plan
from penstock.policies.base import messages
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates as inflow
from penstock.policies.shared import rates as model
from penstock.policies.shared.rates import CONGESTED, Rates
from penstock.policies.shared.scaling import bounds_within_ceiling, with_instances
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.etp import SinkReach
from penstock.policies.stela.rate_table import RateTable

SPARE = 0.6
"""Share of the time that instances may be at work when another of them has gone."""

CALM = 15.0
"""Seconds for which an instance must have had nothing to do before it goes."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SlotAllocation:
    """A flow while slots are given out: what each pipeline has got and the rates to expect.

    many, most: the instances of each pipeline and its bound, in the order of the ledger.
    """

    topology: Topology
    ledger: RateTable
    many: Counts
    most: npt.NDArray[np.float64]
    given: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology, rates: Rates, over: float = CONGESTED) -> SlotAllocation:
        many = [p.parallelism for p in topology.pipelines.values()]
        most = [bounds_within_ceiling(topology, name).most for name in topology.pipelines]
        return cls(
            topology,
            RateTable.of(topology, rates, over),
            np.array(many, np.int64),
            np.array([math.inf if bound is None else bound for bound in most]),
        )

    @property
    def over(self) -> float:
        return self.ledger.over

    @cached_property
    def rates(self) -> Rates:
        return self.ledger.rates

    @cached_property
    def congested(self) -> frozenset[str]:
        return frozenset(itertools.compress(self.topology.pipelines, self.ledger.congested))

    def shares(self, names: Iterable[str]) -> dict[str, float]:
        """The effective throughput percentage of some pipelines."""
        reach = SinkReach.of(self.topology, self.congested)
        return reach.shares(model.delivered(self.topology, self.rates), names)

    def instances(self, name: str) -> int:
        return self.topology.pipelines[name].parallelism + self.given.get(name, 0)

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """Whether the bounds of each pipeline let it have one more instance."""
        return self.many < self.most

    def room(self, name: str) -> bool:
        """Whether the bounds of a pipeline let it have one more instance."""
        at = self.ledger.wiring.numbers[name]
        return bool(self.many[at] < self.most[at])

    def grows(self, at: int) -> bool:
        """Whether one more instance of a pipeline is taken to bring in more.

        Where nothing is congested, that is what a source gets a slot for.
        """
        return 1 not in self.ledger.congested and at in self.ledger.wiring.sources

    def give(self, name: str) -> SlotAllocation:
        """One more instance, which does as much as each of the others."""
        at = self.ledger.wiring.numbers[name]
        factor = (self.instances(name) + 1) / self.instances(name)
        ledger = (self.ledger.grown if self.grows(at) else self.ledger.scaled)(at, factor)
        many = self.many.copy()
        many[at] += 1
        given = {**self.given, name: self.given.get(name, 0) + 1}
        return replace(self, ledger=ledger, many=many, given=given)

    def hoped(self, names: Sequence[str]) -> list[float]:
        """The throughput that one more instance of each of some would lead to at most."""
        ledger, gains, now = self.ledger, self.ledger.gains(), self.ledger.throughput
        able = map(min, ledger.arrival, ledger.capacity)
        # a window may show less than what comes, though it could be done
        late = [most - done for most, done in zip(able, ledger.processed, strict=True)]
        settled = math.fsum([gains[at] * more for at, more in enumerate(late) if more > 0])
        found = []
        for at in (ledger.wiring.numbers[name] for name in names):
            factor = float((self.many[at] + 1) / self.many[at])
            come = ledger.arrival[at] * (factor if self.grows(at) else 1.0)
            more = min(come, ledger.capacity[at] * factor) - ledger.processed[at]
            most = now + settled + max(0.0, more) * gains[at]
            found.append(math.inf if math.isnan(most) else most)
        return found


Choice = Callable[[SlotAllocation, Any], tuple[str | None, Any]]
"""Who gets the next slot, None if nobody should, and what to remember for the one after it.

The memory is None at first, and belongs to the growth before the last slot given.
"""


def allocate(growth: SlotAllocation, slots: int, choose: Choice) -> SlotAllocation:
    """Give slots until there are none left, or nobody to take one."""
    memory = None
    for _ in range(slots):
        name, memory = choose(growth, memory)
        if name is None:
            break
        growth = growth.give(name)
    return growth


def scale_out(
    context: Context, executors: int, choose: Choice, over: float = CONGESTED
) -> Decision:
    """Add executors, and as many instances for each as the others have on average."""
    if executors < 1:
        raise InvalidInput(f"cannot add {executors} executors; ask for at least 1")
    try:
        start = measured(context, over)
    except model.NotMeasured as why:
        return Decision(None, f"no scale-out: {why}")
    adding, slots, said = _allowed(context, executors)
    if slots < 1:
        return Decision(None, f"no scale-out by {executors}: {', '.join(said)}")
    end = allocate(start, slots, choose)
    if left := slots - sum(end.given.values()):
        said.append(f"{left} of the slots stay empty: who could use them is at its bounds")
    reason = (
        f"{adding} more executor{'s' * (adding > 1)} with {slots} slots: {describe(start, end)}"
    )
    plan = replace(context.plan, executors=context.plan.executors + adding, leaving=())
    plan = with_instances(plan, {name: end.instances(name) for name in end.given})
    return Decision(plan, "; ".join([reason, *said]), {"slots": slots, **numbers(start, end)})


def measured(context: Context, over: float = CONGESTED) -> SlotAllocation:
    """The flow as the last window shows it. Raises `NotMeasured`."""
    if context.latest is None:
        raise model.NotMeasured("nothing has been measured yet")
    topology = Topology(context.graph, context.plan)
    return SlotAllocation.of(topology, model.measured(topology, context.latest, over), over)


def _allowed(context: Context, executors: int) -> tuple[int, int, list[str]]:
    """The executors and the slots that the budget leaves of what was asked, and what it cut."""
    plan, limits, said = context.plan, context.limits, []
    if limits.executors is not None and plan.executors + executors > limits.executors:
        executors = max(0, limits.executors - plan.executors)
        said.append(f"the budget of {limits.executors} executors leaves {executors}")
    slots = executors * slots_per_executor(plan)
    if limits.slots is not None and plan.slots + slots > limits.slots:
        slots = max(0, limits.slots - plan.slots)
        said.append(f"the budget of {limits.slots} instances leaves {slots}")
    return executors, slots, said


def slots_per_executor(plan: Plan) -> int:
    """Instances for a new executor: those of the others on average, rounded, and at least one."""
    return max(1, math.floor(plan.slots / plan.executors + 0.5))


def describe(start: SlotAllocation, end: SlotAllocation) -> str:
    """Who gets how much, and why, in words."""
    shares = start.shares(end.given)
    parts = []
    for name in end.given:
        told = f"{name} {start.instances(name)} -> {end.instances(name)}"
        ratio, behind = start.rates[name].congestion, start.rates[name].behind
        above = start.over * (1 + model.ROUNDING) < ratio < math.inf
        over = f" > {start.over:.2f}" if above else ""
        over += f", {behind:.0f} s of rows wait" if behind else ""
        parts.append(f"{told} ({_ratio(start, name)}{over}, ETP {shares[name]:.0%})")
    calm = "" if start.congested else "nothing is congested; "
    return calm + (messages.listed(parts, ", ") or "nobody gets one")


def _ratio(growth: SlotAllocation, name: str) -> str:
    """How congested a pipeline is."""
    rate = growth.rates[name]
    if math.isinf(rate.congestion):
        return f"none of {rate.arrival:.4g} rows/s done"
    return f"congestion {rate.congestion:.2f}"


def numbers(start: SlotAllocation, end: SlotAllocation) -> dict[str, float]:
    """What the words are about, and the throughput now and then."""
    shares = start.shares(end.given)
    found: dict[str, float] = {}
    for name in end.given:
        ratio = start.rates[name].congestion
        found |= {f"{name}.congestion": ratio} if math.isfinite(ratio) else {}
        found[f"{name}.etp"] = shares[name]
        found[f"{name}.given"] = end.given[name]
    found["throughput"] = model.throughput(start.topology, start.rates)
    found["throughput.expected"] = model.throughput(end.topology, end.rates)
    return found


# --- one instance at a time ---------------------------------------------------------------------


def why_nothing_to_give(context: Context, growth: SlotAllocation) -> str | None:
    """Why no pipeline gets one more instance now; None if one should."""
    if not growth.congested:
        worst = max(growth.rates, key=lambda name: growth.rates[name].congestion)
        ratio = growth.rates[worst].congestion
        return f"nothing is congested: {worst} has most, {ratio:.2f} <= {growth.over:.2f}"
    most = context.limits.slots
    if most is not None and context.plan.slots >= most:
        return f"{_names(growth)} congested, but the budget of {most} instances is used"
    return None


def all_at_bounds(start: SlotAllocation, names: Iterable[str]) -> Decision:
    """That none of these can have one more instance, with their bounds."""
    found = [name for name in start.topology.pipelines if name in {*names}]
    said = [
        f"{n} ({_ratio(start, n)}) has {start.instances(n)} of "
        f"{bounds_within_ceiling(start.topology, n).most} instances"
        for n in found
    ]
    numbers = {f"{n}.congestion": start.rates[n].congestion for n in found}
    return Decision(None, f"at their bounds: {messages.listed(said, ', ')}", numbers)


def one_more_instance(context: Context, start: SlotAllocation, name: str, why: str) -> Decision:
    """One more instance of a pipeline."""
    end = start.give(name)
    plan = with_instances(context.plan, {name: end.instances(name)})
    reason = f"{_names(start)} congested; {why}: {describe(start, end)}"
    return Decision(plan, reason, {**numbers(start, end), **_gained(context, start, end)})


def _gained(context: Context, start: SlotAllocation, end: SlotAllocation) -> dict[str, float]:
    """Rows per second that come in more, for the guard; nothing where nobody knows.

    Where another pipeline is congested as well, no more comes out yet, but less piles up before
    the one that grows. What gains nothing alone may be a turn of a round that does.
    """
    assert context.latest is not None
    pairs = [(start.rates[n].processed, end.rates[n].processed) for n in end.given]
    pairs.append(
        (model.throughput(start.topology, start.rates), model.throughput(end.topology, end.rates))
    )
    share = max((then / now - 1 for now, then in pairs if now > 0), default=0.0)
    now = context.latest.throughput
    return {GAIN_ROWS: share * now} if now is not None and 0 < share < math.inf else {}


def fewer_instances(
    context: Context, start: SlotAllocation, seconds: float, catch_up: float = inflow.CATCH_UP
) -> Decision | None:
    """Fewer instances wherever the rest could do the work; None where there is no such place.

    So much must have come or waited, and no more, for so many seconds. All that can give back do
    so at once: each keeps what its own load needs, so more load never means fewer instances.
    """
    calm = windows.settled(context.snapshots)
    if start.congested or not calm or context.now - calm[0].at < seconds:
        return None
    since = [s for s in calm if s.at >= context.now - seconds]
    needed = {name: _needed(start, name, since, catch_up) for name in start.topology.pipelines}
    enough = {name: _enough(start, name, needed[name]) for name in needed}
    able = {name: then for name, then in enough.items() if then < start.instances(name)}
    if not able:
        return None
    told = [
        f"{name} had work for {needed[name]:.2g} of {start.instances(name)} instances: "
        f"{start.instances(name)} -> {then}"
        for name, then in able.items()
    ]
    plan = with_instances(context.plan, able)
    reason = f"for {seconds:g} s {messages.listed(told, ', ')}"
    return Decision(plan, reason, {f"{name}.needed": needed[name] for name in able})


def _enough(growth: SlotAllocation, name: str, needed: float) -> int:
    """Instances that have some time to spare, within the bounds."""
    now, least = growth.instances(name), bounds_within_ceiling(growth.topology, name).least
    if needed > SPARE * now:
        return now
    return min(now, max(1, least, math.ceil(needed / SPARE - 1e-9)))


def _needed(
    growth: SlotAllocation, name: str, snapshots: Sequence[Snapshot], catch_up: float
) -> float:
    """Instances that the most there was to do would keep at work all the time."""
    most = max((_to_do(s, name, catch_up) for s in snapshots), default=math.inf)
    capacity = growth.rates[name].capacity
    if most in (0, math.inf) or capacity == 0:
        return 0.0 if most == 0 else math.inf
    return derived.rounded(growth.instances(name) * most / capacity)


def _to_do(snapshot: Snapshot, name: str, catch_up: float) -> float:
    """Rows per second; infinite where nobody knows what came."""
    metrics = snapshot.pipelines.get(name)
    if metrics is None or metrics.arrival_rate is None:
        return math.inf
    return inflow.required_rate(metrics.arrival_rate, metrics, catch_up)


def check(over: float, calm: float, catch_up: float) -> None:
    """What a person may have asked for."""
    if not 1 <= over < math.inf:
        raise InvalidInput(f"congested is a threshold of {over}, and it is 1 or more")
    if not calm >= 0:
        raise InvalidInput(f"calm is {calm} seconds: it is 0 or more")
    if not catch_up > 0:
        raise InvalidInput(f"catch_up is {catch_up} seconds: it is above 0")


def _names(growth: SlotAllocation) -> str:
    found = [name for name in growth.topology.pipelines if name in growth.congested]
    return f"{messages.listed(found, ', ')} {'is' if len(found) == 1 else 'are'}"
