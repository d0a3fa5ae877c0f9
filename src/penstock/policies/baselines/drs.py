"""DRS: a flow as a network of M/M/k queues, instances where they shorten the total time most.

With latency constraints it takes the fewest instances that meet them by the model; without, the
best use of a budget of instances, or the fewest with hardly any queues. It is here to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.dataflow.graph import Constraint
from penstock.errors import InvalidInput
from penstock.metrics import derived
from penstock.plan.decision import GAIN_SECONDS, Decision
from penstock.policies.base import messages, options
from penstock.policies.base.policy import Context
from penstock.policies.shared import observation, queueing, rates, scaling
from penstock.policies.shared.queueing import Server, Staffing
from penstock.policies.shared.rates import Inflow
from penstock.policies.shared.topology import Topology


@dataclass(frozen=True)
class DrsMemory:
    """When the policy looked last, in seconds of the run."""

    looked_at: float
    version: Literal[1] = 1


@dataclass(frozen=True)
class Drs:
    """Greedy on the total sojourn time of M/M/k queues.

    adjust: seconds between two looks; slack: fewer instances are taken only if they would meet
    the bound with so much to spare, and have so much of their time to spare; gain: under a budget,
    instances move only for so much less time in the flow, and without one, queues may take so much
    of the time at work; most: instances of a pipeline that nothing else bounds; budget: whether it
    makes the best of a budget also where there are constraints; catch_up: seconds in which rows
    that wait are to be worked off.
    """

    adjust: float = 10.0
    slack: float = 0.2
    gain: float = 0.05
    most: int = 1000
    budget: bool = False
    catch_up: float = rates.CATCH_UP

    name = "drs"
    memory_type = DrsMemory

    def __post_init__(self) -> None:
        options.check(
            self,
            zero_or_more=("adjust", "slack", "gain"),
            above_zero=("catch_up",),
            one_or_more=("most",),
        )
        if not self.slack < 1:
            raise InvalidInput(f"drs: slack is {self.slack:g}, it must be below 1")

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        last = -math.inf if memory is None else memory.looked_at
        seen = observation.look(context, last, self.adjust)
        if isinstance(seen, Decision):
            return seen, memory
        flows = rates.predicted_inflow(seen.topology, seen.measured, catch_up=math.inf)
        late = rates.predicted_inflow(seen.topology, seen.measured, catch_up=self.catch_up)
        return _Look(self, context, seen.topology, flows, late).decision(), DrsMemory(context.now)


class _Look:
    """One look at a flow of which all is measured.

    flows: what comes, by which the time in the flow is judged; late: with what waits as well,
    which there must be instances for.
    """

    def __init__(
        self,
        policy: Drs,
        context: Context,
        topology: Topology,
        flows: Mapping[str, Inflow],
        late: Mapping[str, Inflow],
    ) -> None:
        self.policy, self.context, self.topology = policy, context, topology
        self.flows, self.late = flows, late
        self.now = {name: p.parallelism for name, p in topology.pipelines.items()}
        self.said: list[str] = []
        self.numbers: dict[str, float] = {f"{n} load": flow.load for n, flow in late.items()}
        self.gains: list[float] = []

    def decision(self) -> Decision:
        plan = self.context.plan
        if self.context.graph.constraints and not self.policy.budget:
            wanted = self._bounded()
        elif self.context.limits.slots is not None or self.policy.budget:
            wanted = self._budgeted()
        else:
            wanted = self._free()
        wanted = self._capped({**self.now, **wanted})
        pipelines = tuple(replace(p, parallelism=wanted[p.name]) for p in plan.pipelines)
        plan = scaling.with_enough_executors(replace(plan, pipelines=pipelines), self.context)
        reason = "; ".join([*self.said, messages.changes_text(self.context.plan, plan)])
        numbers = {**self.numbers, **self._gained()}
        return Decision(None if plan == self.context.plan else plan, reason, numbers)

    def _gained(self) -> Mapping[str, float]:
        """Seconds that a row is in the flow for less, for the guard.

        Nothing where rows pile up without it, or where it is fewer instances that are gained.
        """
        gain = max(self.gains, default=0.0)
        return {GAIN_SECONDS: gain} if 0 < gain < math.inf else {}

    def _bounded(self) -> Mapping[str, int]:
        """The fewest instances for each constraint; later ones only raise."""
        wanted: dict[str, int] = {}
        for constraint in self.context.graph.constraints:
            names = self.topology.between(constraint.first, constraint.last)
            wanted |= self._met(constraint, [self._timely(n, wanted.get(n, 1)) for n in names])
        return wanted

    def _met(self, constraint: Constraint, servers: Sequence[Server]) -> Mapping[str, int]:
        """Instances for one constraint: those there are, unless they are too few or too many."""
        rate = self.flows[self.context.plan.pipeline_of(constraint.first).name].rate
        rows = constraint.latency * rate  # so many may be in the sequence at a time
        held = {s.name: max(s.least, self.now[s.name]) for s in servers}
        now = math.fsum(s.number(held[s.name]) for s in servers)
        found = Staffing(held, now, met=True)
        if now > rows:
            found = queueing.fewest(servers, rows)
            if not found.met:  # what there is may at least be nearer than the fewest that hold
                kept = {n: max(k, held[n]) for n, k in found.instances.items()}
                found = Staffing(kept, math.fsum(s.number(kept[s.name]) for s in servers), False)
        else:
            spared = [self._spared(s) for s in servers]
            fewer = queueing.fewest(spared, (1 - self.policy.slack) * rows)
            found = fewer if fewer.met and fewer.total < found.total else found
        was = math.fsum(s.number(self.now[s.name]) for s in servers)
        self._gain(was, found.number, rate)
        told = f"{_seconds(was, rate)} now, {_seconds(found.number, rate)} expected"
        self.said.append(f"{constraint.name}: {told}, {constraint.latency:.3g} s asked for")
        self.numbers[f"{constraint.name} bound"] = constraint.latency
        if not found.met:
            why = self._too_slow(servers, rows, rate)
            self.said.append(f"{constraint.name} cannot be met: {why}")
        return found.instances

    def _too_slow(self, servers: Sequence[Server], rows: float, rate: float) -> str:
        """Why more rows are in a sequence than may be, with whatever number of instances."""
        work = math.fsum(s.load for s in servers)
        if work > rows:
            return f"the operators alone take {_seconds(work, rate)}"
        full = [f"{s.name} needs {s.fewest} and stands {s.most}" for s in servers if not s.stable]
        if full:
            return f"too few instances for the load, {messages.listed(full, ', ')}"
        return "its queues are too long with all instances they may have"

    def _free(self) -> Mapping[str, int]:
        """The fewest with which the queues take no more than a share `gain` of the work."""
        servers = [self._server(name, 1) for name in self.topology.pipelines]
        now = math.fsum(s.number(max(s.least, self.now[s.name])) for s in servers)
        work = math.fsum(s.load for s in servers)
        allowed, share = self.policy.gain * work, 1 - self.policy.slack
        found = queueing.fewest(servers, work + share * allowed)
        rate = math.fsum(self.late[name].rate for name in self.topology.sources)
        self._gain(now, found.number, rate)
        told = f"{_seconds(now, rate)} in the flow now, {_seconds(work, rate)} of it work"
        self.said.append(f"{told}: queues may take {self.policy.gain:.0%} of that")
        if not found.met and math.isinf(found.number):
            self.said.append(f"its bounds are too low for a load of {self._load:.2f}")
        late = now > work + allowed * (1 + 1e-9)
        fewer = found.total < sum(self.now.values())
        return found.instances if late or fewer else self.now

    def _budgeted(self) -> Mapping[str, int]:
        """The best use of the budget; of as many instances as there are, where there is none."""
        slots = self.context.limits.slots or self.context.plan.slots
        servers = [self._server(name, 1) for name in self.topology.pipelines]
        now = math.fsum(s.number(self.now[s.name]) for s in servers)
        found = queueing.best(servers, slots)
        rate = math.fsum(self.late[name].rate for name in self.topology.sources)
        if not found.met:
            self.said.append(f"{slots} instances are too few for a load of {self._load:.2f}")
            return queueing.within(servers, slots)
        self._gain(now, found.number, rate)
        told = f"{_seconds(found.number, rate)} is the least with {slots} instances"
        self.said.append(f"{_seconds(now, rate)} in the flow now, {told}")
        worth = now - found.number > self.policy.gain * now if now < math.inf else True
        return found.instances if worth or not self._load else self.now  # idle ones are given back

    def _gain(self, now: float, then: float, rate: float) -> None:
        """Note what becomes of the rows in a part of the flow."""
        self.gains.append((now - then) / rate if math.isfinite(now) and rate else math.inf)

    @property
    def _load(self) -> float:
        return math.fsum(flow.load for flow in self.late.values())

    def _capped(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        slots, total = self.context.limits.slots, sum(wanted.values())
        if slots is None or total <= slots:
            return wanted
        bounds = self.topology.bounds
        servers = [
            Server(n, self.late[n].load, min(bounds(n).least, k), k) for n, k in wanted.items()
        ]
        found = queueing.within(servers, slots)
        cut = messages.shortage_text(found, wanted)
        self.said.append(f"the budget of {slots} instances is less than {total}: {cut}")
        return found

    def _server(self, name: str, least: int) -> Server:
        bounds, ceiling = self.topology.bounds(name), self.topology.pipelines[name].ceiling
        limits = (bounds.most, ceiling, self.context.limits.slots)
        most = min((m for m in limits if m is not None), default=self.policy.most)
        least = max(bounds.least, least)
        return Server(name, self.late[name].load, least, max(most, least))

    def _spared(self, server: Server) -> Server:
        """The same with no fewer instances than have time to spare, of those there are.

        By the model one that is busy nearly all the time may do, and then the load of the next
        window, which is never quite the same, would need one more again.
        """
        enough = math.ceil(derived.rounded(server.load / (1 - self.policy.slack)))
        return replace(server, least=max(server.least, min(enough, self.now[server.name])))

    def _timely(self, name: str, least: int) -> Server:
        """By what comes, with instances for what waits at least, as far as it may have them."""
        server, load = self._server(name, least), self.flows[name].load
        if server.load <= load:
            return server
        enough = min(server.fewest, server.most or server.fewest)
        return replace(server, load=load, least=max(server.least, enough))


def _seconds(number: float, rate: float) -> str:
    """The time that so many rows stay in a flow into which they come at a rate."""
    if math.isinf(number):
        return "ever more"
    return f"{number / rate:.3g} s" if rate else "0 s"
