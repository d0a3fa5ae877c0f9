"""Allocates slots, one at a time, to the pipeline that a strategy chooses."""

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
"""Highest utilisation of the remaining instances after some are removed."""

CALM = 15.0
"""Seconds for which an instance must have been idle before it is removed."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SlotAllocation:
    """State of an allocation: instances added so far, and the expected rates.

    table: expected rates; many, most: instances of each pipeline and their bound, in the order of
    the table; given: instances added by pipeline.
    """

    topology: Topology
    table: RateTable
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
        return self.table.over

    @cached_property
    def rates(self) -> Rates:
        return self.table.rates

    @cached_property
    def congested(self) -> frozenset[str]:
        return frozenset(itertools.compress(self.topology.pipelines, self.table.congested))

    def shares(self, names: Iterable[str]) -> dict[str, float]:
        """Effective throughput percentage of some pipelines, from 0 to 1."""
        reach = SinkReach.of(self.topology, self.congested)
        return reach.shares(model.delivered(self.topology, self.rates), names)

    def instances(self, name: str) -> int:
        return self.topology.pipelines[name].parallelism + self.given.get(name, 0)

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """For each pipeline, whether its bounds allow a further instance."""
        return self.many < self.most

    def room(self, name: str) -> bool:
        """True if the bounds of a pipeline allow a further instance."""
        at = self.table.numbered.numbers[name]
        return bool(self.many[at] < self.most[at])

    def grows(self, at: int) -> bool:
        """True if a further instance of this pipeline is assumed to raise its input, too.

        That is so for a source while nothing is congested.
        """
        return 1 not in self.table.congested and at in self.table.numbered.sources

    def give(self, name: str) -> SlotAllocation:
        """Add an instance, which is assumed to process as much as each of the others."""
        at = self.table.numbered.numbers[name]
        factor = (self.instances(name) + 1) / self.instances(name)
        table = (self.table.grown if self.grows(at) else self.table.scaled)(at, factor)
        many = self.many.copy()
        many[at] += 1
        given = {**self.given, name: self.given.get(name, 0) + 1}
        return replace(self, table=table, many=many, given=given)

    def hoped(self, names: Sequence[str]) -> list[float]:
        """Upper bounds on throughput with a further instance, one per given pipeline."""
        table, gains, now = self.table, self.table.gains(), self.table.throughput
        able = map(min, table.arrival, table.capacity)
        # a window may show fewer rows processed than arrive, although there is capacity
        late = [most - done for most, done in zip(able, table.processed, strict=True)]
        settled = math.fsum([gains[at] * more for at, more in enumerate(late) if more > 0])
        found = []
        for at in (table.numbered.numbers[name] for name in names):
            factor = float((self.many[at] + 1) / self.many[at])
            come = table.arrival[at] * (factor if self.grows(at) else 1.0)
            more = min(come, table.capacity[at] * factor) - table.processed[at]
            most = now + settled + max(0.0, more) * gains[at]
            found.append(math.inf if math.isnan(most) else most)
        return found


Choice = Callable[[SlotAllocation, Any], tuple[str | None, Any]]
"""Chooses the pipeline that gets the next slot, or None, and returns its state.

The state is None at first. It refers to the allocation before the last slot was given.
"""


def allocate(allocation: SlotAllocation, slots: int, choose: Choice) -> SlotAllocation:
    """Allocate slots until none is left or no pipeline can take one."""
    memory = None
    for _ in range(slots):
        name, memory = choose(allocation, memory)
        if name is None:
            break
        allocation = allocation.give(name)
    return allocation


def scale_out(
    context: Context, executors: int, choose: Choice, over: float = CONGESTED
) -> Decision:
    """Add executors, each with as many instances as the others have on average."""
    if executors < 1:
        raise InvalidInput(f"cannot add {executors} executors; the least is 1")
    try:
        start = measured(context, over)
    except model.NotMeasured as why:
        return Decision(None, f"no scale-out: {why}")
    adding, slots, said = _allowed(context, executors)
    if slots < 1:
        return Decision(None, f"no scale-out by {executors}: {', '.join(said)}")
    end = allocate(start, slots, choose)
    if left := slots - sum(end.given.values()):
        said.append(
            f"{left} slots stay empty, because every pipeline that could use them is at its bound"
        )
    added = f"add {adding} executor{'s' * (adding > 1)} with {slots} slot{'s' * (slots > 1)}"
    reason = f"{added}: {describe(start, end)}"
    plan = replace(context.plan, executors=context.plan.executors + adding, leaving=())
    plan = with_instances(plan, {name: end.instances(name) for name in end.given})
    return Decision(plan, "; ".join([reason, *said]), {"slots": slots, **numbers(start, end)})


def measured(context: Context, over: float = CONGESTED) -> SlotAllocation:
    """Start an allocation from the last window. Raises `NotMeasured`."""
    if context.latest is None:
        raise model.NotMeasured("nothing measured yet")
    topology = Topology(context.graph, context.plan)
    return SlotAllocation.of(topology, model.measured(topology, context.latest, over), over)


def _allowed(context: Context, executors: int) -> tuple[int, int, list[str]]:
    """Executors and slots within the budget, and texts about what it cut."""
    plan, limits, said = context.plan, context.limits, []
    if limits.executors is not None and plan.executors + executors > limits.executors:
        executors = max(0, limits.executors - plan.executors)
        said.append(f"the budget of {limits.executors} executors allows {executors} more")
    slots = executors * slots_per_executor(plan)
    if limits.slots is not None and plan.slots + slots > limits.slots:
        slots = max(0, limits.slots - plan.slots)
        said.append(f"the budget of {limits.slots} instances allows {slots} more")
    return executors, slots, said


def slots_per_executor(plan: Plan) -> int:
    """Instances for a new executor: the mean of the others, rounded, at least one."""
    return max(1, math.floor(plan.slots / plan.executors + 0.5))


def describe(start: SlotAllocation, end: SlotAllocation) -> str:
    """Describe which pipelines get how many instances, and why."""
    shares = start.shares(end.given)
    parts = []
    for name in end.given:
        told = f"{name} {start.instances(name)} -> {end.instances(name)}"
        ratio, behind = start.rates[name].congestion, start.rates[name].behind
        above = start.over * (1 + model.ROUNDING) < ratio < math.inf
        over = f", limit {start.over:.2f}" if above else ""
        over += f", backlog {behind:.0f} s" if behind else ""
        parts.append(f"{told} instances ({_ratio(start, name)}{over}, ETP {shares[name]:.0%})")
    calm = "" if start.congested else "; no pipeline is congested"
    return (messages.listed(parts, ", ") or "no pipeline gets one") + calm


def _ratio(allocation: SlotAllocation, name: str) -> str:
    """Describe how congested a pipeline is."""
    rate = allocation.rates[name]
    if math.isinf(rate.congestion):
        return f"none of {rate.arrival:.4g} rows/s processed"
    return f"congestion {rate.congestion:.2f}"


def numbers(start: SlotAllocation, end: SlotAllocation) -> dict[str, float]:
    """Numbers behind `describe`, with throughput before and expected after."""
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


def why_nothing_to_give(context: Context, allocation: SlotAllocation) -> str | None:
    """Say why no pipeline gets a further instance; None if one should."""
    if not allocation.congested:
        worst = max(allocation.rates, key=lambda name: allocation.rates[name].congestion)
        ratio = allocation.rates[worst].congestion
        return (
            f"no change: no pipeline is congested; the highest is {worst} with {ratio:.2f}, "
            f"limit {allocation.over:.2f}"
        )
    most = context.limits.slots
    if most is not None and context.plan.slots >= most:
        return (
            f"no change: {_names(allocation)} congested, but the budget of {most} instances is used"
        )
    return None


def all_at_bounds(start: SlotAllocation, names: Iterable[str]) -> Decision:
    """Decide on no change, because all of these pipelines are at their bounds."""
    found = [name for name in start.topology.pipelines if name in {*names}]
    said = [
        f"{n} ({_ratio(start, n)}) has {start.instances(n)} of "
        f"{bounds_within_ceiling(start.topology, n).most} instances"
        for n in found
    ]
    numbers = {f"{n}.congestion": start.rates[n].congestion for n in found}
    return Decision(None, f"no change, at their bounds: {messages.listed(said, ', ')}", numbers)


def one_more_instance(context: Context, start: SlotAllocation, name: str, why: str) -> Decision:
    """Decide on a further instance of a pipeline."""
    end = start.give(name)
    plan = with_instances(context.plan, {name: end.instances(name)})
    reason = f"{describe(start, end)}: {why}; {_names(start)} congested"
    return Decision(plan, reason, {**numbers(start, end), **_gained(context, start, end)})


def _gained(context: Context, start: SlotAllocation, end: SlotAllocation) -> dict[str, float]:
    """Expected throughput gain in rows per second, for the guard; empty if unknown.

    If another pipeline is congested as well, the gain at the sinks may be 0. Then the gain of the
    pipeline that grows counts, whose backlog shrinks.
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
    """Decide on fewer instances where the rest carries the load; None if nowhere.

    The highest load of the last `seconds` counts. All pipelines with instances to spare give them
    back at once. Each keeps what its own load needs, so more load never means fewer instances.
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
        f"{name} {start.instances(name)} -> {then} instances: it had work for {needed[name]:.2g}"
        for name, then in able.items()
    ]
    plan = with_instances(context.plan, able)
    reason = f"{messages.listed(told, ', ')} for {seconds:g} s"
    return Decision(plan, reason, {f"{name}.needed": needed[name] for name in able})


def _enough(allocation: SlotAllocation, name: str, needed: float) -> int:
    """Fewest instances that stay below the highest utilisation, within the bounds."""
    now, least = allocation.instances(name), bounds_within_ceiling(allocation.topology, name).least
    if needed > SPARE * now:
        return now
    return min(now, max(1, least, math.ceil(needed / SPARE - 1e-9)))


def _needed(
    allocation: SlotAllocation, name: str, snapshots: Sequence[Snapshot], catch_up: float
) -> float:
    """Instances that the highest load of some windows would keep busy all the time."""
    most = max((_to_do(s, name, catch_up) for s in snapshots), default=math.inf)
    capacity = allocation.rates[name].capacity
    if most in (0, math.inf) or capacity == 0:
        return 0.0 if most == 0 else math.inf
    return derived.rounded(allocation.instances(name) * most / capacity)


def _to_do(snapshot: Snapshot, name: str, catch_up: float) -> float:
    """Rows per second to process in a window; infinite if arrivals are unknown."""
    metrics = snapshot.pipelines.get(name)
    if metrics is None or metrics.arrival_rate is None:
        return math.inf
    return inflow.required_rate(metrics.arrival_rate, metrics, catch_up)


def check(over: float, calm: float, catch_up: float) -> None:
    """Check the options that the policies of this package share."""
    if not 1 <= over < math.inf:
        raise InvalidInput(f"congested must be 1 or more, not {over}")
    if not calm >= 0:
        raise InvalidInput(f"calm must be 0 s or more, not {calm}")
    if not catch_up > 0:
        raise InvalidInput(f"catch_up must be above 0 s, not {catch_up}")


def _names(allocation: SlotAllocation) -> str:
    found = [name for name in allocation.topology.pipelines if name in allocation.congested]
    return f"{messages.listed(found, ', ')} {'is' if len(found) == 1 else 'are'}"
