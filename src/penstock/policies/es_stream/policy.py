"""Es-Stream: instances by marginal analysis of M/M/k queues, executors by load.

When rates have changed, every pipeline, upstream first, gets instances until a further one costs
more than it saves. New instances go to executors with room, or to new executors; idle executors are
removed, the newest first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from penstock.errors import InvalidInput
from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base import messages, options
from penstock.policies.base.policy import Context
from penstock.policies.es_stream import marginal_analysis, placement
from penstock.policies.es_stream.commit_interval import BackupMemory, Interval, WithBackup
from penstock.policies.shared import observation, queueing, scaling
from penstock.policies.shared import rates as inflow
from penstock.policies.shared.rates import Inflow
from penstock.policies.shared.topology import Topology


@dataclass(frozen=True)
class EsStreamMemory:
    """Memory of the policy.

    at: when it looked last; moved: whether rates had changed then; rates: rows per second that
    pipelines are scaled for; plan: its last decision.
    """

    at: float = -math.inf
    moved: bool = False
    rates: Mapping[str, float] = field(default_factory=dict)
    plan: Plan | None = None
    version: Literal[1] = 1


@dataclass(frozen=True)
class EsStream:
    """Set instances by cost and queue length, executors by load and skewness.

    share: cost of one instance, weighed against 1 - share for a row in the queue; trigger: relative
    change of a rate below which nothing changes; steady, changing: seconds between two decisions
    while rates are stable, and while they change.

    Executors: new instances get new executors if the skewness of the loads is at most eta and their
    mean at least phi; otherwise they go where the load stays below alpha. Executors are removed if
    the skewness is at least chi and the mean at most zeta. One idle executor among busy ones has a
    skewness of -3 to -4 and should be removed, so chi is not higher. io_capacity: bytes per second
    that an executor can move, 0 to ignore them; heap: whether memory counts, which fills up under
    any load until it is collected; room: instances that an executor may hold, 0 if any number
    shares its slots.

    most: most instances of a pipeline without other bounds; catch_up: seconds in which a backlog is
    to be worked off; backup_least, backup_most: bounds in seconds on the time between commits of
    state, 0 to leave it as it is.
    """

    share: float = 0.1
    trigger: float = 0.2
    steady: float = 15.0
    changing: float = 10.0
    eta: float = 0.5
    phi: float = 0.7
    chi: float = -4.0
    zeta: float = 0.3
    alpha: float = 0.9
    io_capacity: float = 0.0
    heap: bool = False
    room: int = 0
    most: int = 1000
    catch_up: float = inflow.CATCH_UP
    backup_least: float = 0.0
    backup_most: float = 0.0

    name = "es-stream"

    @property
    def memory_type(self) -> Any:
        return BackupMemory[EsStreamMemory] if self.backup_most > 0 else EsStreamMemory

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InvalidInput(f"es-stream: share must be between 0 and 1, not {self.share}")
        options.check(
            self,
            zero_or_more=(
                *("trigger", "steady", "changing", "phi", "zeta", "io_capacity"),
                *("room", "backup_least", "backup_most"),
            ),
            above_zero=("catch_up",),
            one_or_more=("most",),
            shares=("alpha",),
        )
        if math.isnan(self.eta) or math.isnan(self.chi):
            raise InvalidInput(
                f"es-stream: eta and chi must be numbers, not {self.eta} and {self.chi}"
            )
        for low, high in (("zeta", "phi"), ("backup_least", "backup_most")):
            least, most = getattr(self, low), getattr(self, high)
            if least > most:
                raise InvalidInput(
                    f"es-stream: {low} ({least:g}) must not be above {high} ({most:g})"
                )

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        if self.backup_most > 0:
            inner = replace(self, backup_least=0.0, backup_most=0.0)
            interval = Interval(self.backup_least, self.backup_most)
            return WithBackup(inner, interval).decide(context, memory)
        before: EsStreamMemory = memory or EsStreamMemory()
        span = self.changing if before.moved else self.steady
        seen = observation.look(context, before.at, span)
        if isinstance(seen, Decision):
            return seen, before
        return self._look(context, seen.topology, seen.measured, before)

    def _look(
        self,
        context: Context,
        topology: Topology,
        measured: Mapping[str, PipelineMetrics],
        before: EsStreamMemory,
    ) -> tuple[Decision, EsStreamMemory]:
        wanted: dict[str, int] = {}

        def choose(name: str, flow: Inflow) -> int:
            bounds, ceiling = topology.bounds(name), topology.pipelines[name].ceiling
            most = min((m for m in (bounds.most, ceiling) if m is not None), default=self.most)
            most = max(most, bounds.least, topology.pipelines[name].parallelism)
            wanted[name] = marginal_analysis.best_instances(
                flow.load, self.share, bounds.least, most
            )
            return wanted[name]

        flows = inflow.predicted_inflow(topology, measured, choose, self.catch_up)
        undone = before.plan is not None and before.plan != context.plan
        said = ["the last change was not carried out"] if undone else []
        moved = self._moved(topology, flows, before.rates)
        said += [messages.listed(moved)] if moved else []
        plan, rates = context.plan, before.rates
        if said:
            found, capped = _within_budget(context, topology, flows, wanted)
            plan = _with(plan, found)
            said, rates = said + capped, {name: flow.rate for name, flow in flows.items()}
        moving = bool(said)
        numbers = {f"{name} load": flow.load for name, flow in flows.items()}
        weighed, spared = self._weighed(context.plan, plan, flows)
        said, numbers = said + weighed, {**numbers, **spared}
        # executors that were refused are not requested twice in a row, so that instances can change
        if not (undone and before.plan and before.plan.executors != context.plan.executors):
            plan, told, loads = self._executors(context, plan)
            said, numbers = said + told, {**numbers, **loads}
        said = said or [f"no rate changed by more than {self.trigger:.0%}"]
        reason = f"{messages.changes_text(context.plan, plan)}: {'; '.join(said)}"
        after = EsStreamMemory(context.now, moving, rates, plan)
        return Decision(None if plan == context.plan else plan, reason, numbers), after

    def _weighed(
        self, before: Plan, after: Plan, flows: Mapping[str, Inflow]
    ) -> tuple[list[str], dict[str, float]]:
        """Texts and numbers: rows that a further instance would save, and its price."""
        price = marginal_analysis.price_in_rows(self.share)
        old = {p.name: p.parallelism for p in before.pipelines}
        changed = [p for p in after.pipelines if p.parallelism != old[p.name]]
        spared = {
            p.name: marginal_analysis.rows_spared(flows[p.name].load, p.parallelism)
            for p in changed
        }
        told = [
            f"a further instance of {name} would save {rows:.2g} rows and cost {price:.2g}"
            if math.isfinite(rows)
            else f"{name} cannot keep up"
            for name, rows in spared.items()
        ]
        return [messages.listed(told)] if told else [], {
            f"{name} spared": rows for name, rows in spared.items() if math.isfinite(rows)
        }

    def _moved(
        self, topology: Topology, flows: Mapping[str, Inflow], rates: Mapping[str, float]
    ) -> list[str]:
        """Reasons to scale: pipelines whose rate has changed, or that cannot keep up."""
        found = []
        for name, flow in flows.items():
            have, old = topology.pipelines[name].parallelism, rates.get(name)
            if old is None or abs(flow.rate - old) > self.trigger * old * (1 + 1e-9):
                was = "" if old is None else f", was {old:.4g}"
                found.append(f"{name} receives {flow.rate:.4g} rows/s{was}, load {flow.load:.2f}")
            elif flow.load >= have:
                found.append(f"{name} has a load of {flow.load:.2f} on {have} instances")
        return found

    def _executors(
        self, context: Context, plan: Plan
    ) -> tuple[Plan, list[str], Mapping[str, float]]:
        """Add executors for new instances, or remove idle ones."""
        latest = context.latest
        seen = latest.executors.values() if latest else ()
        known = [
            placement.executor_load(
                e if self.heap else replace(e, memory=None), self.io_capacity or None
            )
            for e in seen
        ]
        hosts = [one for one in known if one is not None]
        slots = scaling.executor_slots(context)
        if not hosts or len(hosts) < len(known) or slots is None:
            return plan, [], {}
        loads = [host.load for host in hosts]
        mean, skew = math.fsum(loads) / len(loads), placement.skewness(loads)
        numbers = {"executors mean load": mean, "executors skewness": skew}
        told = f"executors have a mean load of {mean:.0%}, skewness {skew:.2f}"
        before = {p.name: p.parallelism for p in context.plan.pipelines}
        new = {p.name: more for p in plan.pipelines if (more := p.parallelism - before[p.name]) > 0}
        if new:
            homeless = self._homeless(hosts, new, skew, mean, _at_work(latest))
            more = max(
                math.ceil(homeless / (self.room or slots)), self._least(plan) - plan.executors
            )
            plan, said = _with_more(plan, more, context)
        elif skew >= self.chi and mean <= self.zeta:
            plan, said = self._with_fewer(plan, mean, slots, context)
        else:
            said = []
        return plan, [f"{told}: {text}" for text in said], numbers

    def _homeless(
        self,
        hosts: Sequence[placement.ExecutorLoad],
        new: Mapping[str, int],
        skew: float,
        mean: float,
        work: Mapping[str, float],
    ) -> int:
        """Number of new instances that go to new executors."""
        if skew <= self.eta and mean >= self.phi:
            return sum(new.values())
        limits = dict.fromkeys(("processor", "memory", "io"), self.alpha)
        needs = placement.instance_needs(hosts, work)
        more = ((needs.get(name, {}), count) for name, count in new.items())
        return placement.count_unplaced(hosts, more, limits)

    def _least(self, plan: Plan) -> int:
        """Fewest executors that can hold all instances."""
        return math.ceil(plan.slots / self.room) if self.room else 1

    def _with_fewer(
        self, plan: Plan, mean: float, slots: int, context: Context
    ) -> tuple[Plan, list[str]]:
        """Remove executors while the rest stays below phi and holds every pipeline."""
        widest = max(p.parallelism for p in plan.pipelines)
        by_load = math.ceil(mean * plan.executors / self.phi) if self.phi > 0 else plan.executors
        by_room = self._least(plan) if self.room else math.ceil(widest / slots)
        keep = min(plan.executors, max(1, by_load, by_room))
        leaving = newest_executors(context.snapshots)[: plan.executors - keep]
        if not leaving:
            return plan, []
        fewer = replace(plan, executors=plan.executors - len(leaving), leaving=tuple(leaving))
        return fewer, [f"remove {messages.listed(leaving, ', ')}"]


def _at_work(latest: Snapshot | None) -> dict[str, float]:
    """Utilisation of an instance by pipeline, where known."""
    seen = latest.pipelines if latest else {}
    found = {name: derived.at_work(metrics) for name, metrics in seen.items()}
    return {name: share for name, share in found.items() if share is not None}


def newest_executors(snapshots: Sequence[Snapshot]) -> list[str]:
    """Executors of the last snapshot, newest first.

    Of those first seen together, the one with the higher number is newer.
    """
    seen: dict[str, None] = {}
    for snapshot in snapshots:
        seen |= dict.fromkeys(sorted(snapshot.executors, key=_number))
    present = snapshots[-1].executors if snapshots else {}
    return [name for name in reversed(seen) if name in present]


def _number(name: str) -> tuple[int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return int(digits or 0), name


def _with(plan: Plan, wanted: Mapping[str, int]) -> Plan:
    pipelines = (replace(p, parallelism=wanted[p.name]) for p in plan.pipelines)
    return replace(plan, pipelines=tuple(pipelines))


def _with_more(plan: Plan, count: int, context: Context) -> tuple[Plan, list[str]]:
    """Add executors within the budget."""
    most = context.limits.executors
    room = count if most is None else min(count, max(0, most - plan.executors))
    said = [f"{room} more for new instances"] if room else []
    if room < count:
        said.append(f"{count} more needed, but the budget is {most}")
    return replace(plan, executors=plan.executors + room), said


def _within_budget(
    context: Context, topology: Topology, flows: Mapping[str, Inflow], wanted: Mapping[str, int]
) -> tuple[Mapping[str, int], list[str]]:
    """Reduce the instances to the budget, with the fewest rows in queues."""
    slots, total = context.limits.slots, sum(wanted.values())
    if slots is None or total <= slots:
        return wanted, []
    servers = [
        queueing.Server(n, flows[n].load, min(topology.bounds(n).least, k), k)
        for n, k in wanted.items()
    ]
    found = queueing.within(servers, slots)
    cut = messages.shortage_text(found, wanted)
    return found, [f"budget of {slots} instances is below the {total} needed: {cut}"]
