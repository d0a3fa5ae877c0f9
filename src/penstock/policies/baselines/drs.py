"""DRS: sizes a flow by latency, modelled as a Jackson network of M/M/k queues.

Each instance goes where latency gains most. With latency constraints, the policy uses the fewest
instances that meet them by the model; without, the best use of a budget of instances, or the fewest
with hardly any queueing.
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
    """Minimise the sojourn time of rows in a network of M/M/k queues, greedily.

    adjust: seconds between two decisions; slack: share of the latency bound, and of their own time,
    that fewer instances must leave unused; gain: with a budget, relative saving of latency that
    makes instances move; without one, waiting time allowed as a share of work; most: most instances
    of a pipeline without other bounds; budget: use the whole budget even with latency constraints;
    catch_up: seconds in which a backlog is to be worked off.
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
            raise InvalidInput(f"drs: slack must be below 1, not {self.slack:g}")

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        last = -math.inf if memory is None else memory.looked_at
        seen = observation.look(context, last, self.adjust)
        if isinstance(seen, Decision):
            return seen, memory
        flows = rates.predicted_inflow(seen.topology, seen.measured, catch_up=math.inf)
        late = rates.predicted_inflow(seen.topology, seen.measured, catch_up=self.catch_up)
        return _Look(self, context, seen.topology, flows, late).decision(), DrsMemory(context.now)


class _Look:
    """One decision about a flow that is fully measured.

    flows: predicted input, which latency depends on; late: the same with backlogs to work off,
    which instances must be able to do.
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
        changes = messages.changes_text(self.context.plan, plan)
        reason = f"{changes}: {'; '.join(self.said)}" if self.said else changes
        numbers = {**self.numbers, **self._gained()}
        return Decision(None if plan == self.context.plan else plan, reason, numbers)

    def _gained(self) -> Mapping[str, float]:
        """Seconds of latency saved, for the guard.

        Empty if backlogs would build up otherwise, or if the gain is fewer instances.
        """
        gain = max(self.gains, default=0.0)
        return {GAIN_SECONDS: gain} if 0 < gain < math.inf else {}

    def _bounded(self) -> Mapping[str, int]:
        """Fewest instances for each constraint; later ones only raise."""
        wanted: dict[str, int] = {}
        for constraint in self.context.graph.constraints:
            names = self.topology.between(constraint.first, constraint.last)
            wanted |= self._met(constraint, [self._timely(n, wanted.get(n, 1)) for n in names])
        return wanted

    def _met(self, constraint: Constraint, servers: Sequence[Server]) -> Mapping[str, int]:
        """Instances for one constraint; unchanged unless they are too few or too many."""
        rate = self.flows[self.context.plan.pipeline_of(constraint.first).name].rate
        rows = constraint.latency * rate  # so many may be between its ends at a time, by Little
        held = {s.name: max(s.least, self.now[s.name]) for s in servers}
        now = math.fsum(s.number(held[s.name]) for s in servers)
        found = Staffing(held, now, met=True)
        if now > rows:
            found = queueing.fewest(servers, rows)
            if not found.met:  # the present instances may be closer to the bound
                kept = {n: max(k, held[n]) for n, k in found.instances.items()}
                found = Staffing(kept, math.fsum(s.number(kept[s.name]) for s in servers), False)
        else:
            spared = [self._spared(s) for s in servers]
            fewer = queueing.fewest(spared, (1 - self.policy.slack) * rows)
            found = fewer if fewer.met and fewer.total < found.total else found
        was = math.fsum(s.number(self.now[s.name]) for s in servers)
        self._gain(was, found.number, rate)
        told = f"{_seconds(was, rate)}, expected {_seconds(found.number, rate)}"
        self.said.append(f"{constraint.name} takes {told}, bound {constraint.latency:.3g} s")
        self.numbers[f"{constraint.name} bound"] = constraint.latency
        if not found.met:
            why = self._too_slow(servers, rows, rate)
            self.said.append(f"{constraint.name} cannot be met: {why}")
        return found.instances

    def _too_slow(self, servers: Sequence[Server], rows: float, rate: float) -> str:
        """Say why no allowed number of instances meets a constraint."""
        work = math.fsum(s.load for s in servers)
        if work > rows:
            return f"its operators alone take {_seconds(work, rate)}"
        full = [f"{s.name} needs {s.fewest}, {s.most} allowed" for s in servers if not s.stable]
        if full:
            return f"too few instances for the load, {messages.listed(full, ', ')}"
        return "its queues are too long with all instances allowed"

    def _free(self) -> Mapping[str, int]:
        """Fewest instances whose queueing takes at most the share `gain` of work."""
        servers = [self._server(name, 1) for name in self.topology.pipelines]
        now = math.fsum(s.number(max(s.least, self.now[s.name])) for s in servers)
        work = math.fsum(s.load for s in servers)
        allowed, share = self.policy.gain * work, 1 - self.policy.slack
        found = queueing.fewest(servers, work + share * allowed)
        rate = math.fsum(self.late[name].rate for name in self.topology.sources)
        self._gain(now, found.number, rate)
        told = f"rows take {_seconds(now, rate)}, of which {_seconds(work, rate)} is work"
        self.said.append(f"{told}, and queueing may add {self.policy.gain:.0%} of that")
        if not found.met and math.isinf(found.number):
            self.said.append(f"the bounds on instances are too low for a load of {self._load:.2f}")
        late = now > work + allowed * (1 + 1e-9)
        fewer = found.total < sum(self.now.values())
        return found.instances if late or fewer else self.now

    def _budgeted(self) -> Mapping[str, int]:
        """Best use of the budget, or without one, of the present number of instances."""
        slots = self.context.limits.slots or self.context.plan.slots
        servers = [self._server(name, 1) for name in self.topology.pipelines]
        now = math.fsum(s.number(self.now[s.name]) for s in servers)
        found = queueing.best(servers, slots)
        rate = math.fsum(self.late[name].rate for name in self.topology.sources)
        if not found.met:
            self.said.append(f"{slots} instances are too few for a load of {self._load:.2f}")
            return queueing.within(servers, slots)
        self._gain(now, found.number, rate)
        told = f"expected {_seconds(found.number, rate)} with the best use of {slots} instances"
        self.said.append(f"rows take {_seconds(now, rate)}, {told}")
        worth = now - found.number > self.policy.gain * now if now < math.inf else True
        return (
            found.instances if worth or not self._load else self.now
        )  # idle instances are removed

    def _gain(self, now: float, then: float, rate: float) -> None:
        """Record the saving of latency in a part of the flow."""
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
        self.said.append(f"budget of {slots} instances is below the {total} needed: {cut}")
        return found

    def _server(self, name: str, least: int) -> Server:
        bounds, ceiling = self.topology.bounds(name), self.topology.pipelines[name].ceiling
        limits = (bounds.most, ceiling, self.context.limits.slots)
        most = min((m for m in limits if m is not None), default=self.policy.most)
        least = max(bounds.least, least)
        return Server(name, self.late[name].load, least, max(most, least))

    def _spared(self, server: Server) -> Server:
        """Raise the fewest instances, so that the remaining ones have time to spare.

        The model accepts instances that are busy nearly all the time; a slightly higher load in the
        next window would then need another one.
        """
        enough = math.ceil(derived.rounded(server.load / (1 - self.policy.slack)))
        return replace(server, least=max(server.least, min(enough, self.now[server.name])))

    def _timely(self, name: str, least: int) -> Server:
        """Queue for the predicted input, with at least the instances a backlog needs."""
        server, load = self._server(name, least), self.flows[name].load
        if server.load <= load:
            return server
        enough = min(server.fewest, server.most or server.fewest)
        return replace(server, load=load, least=max(server.least, enough))


def _seconds(number: float, rate: float) -> str:
    """Time that so many rows spend in a flow at an arrival rate, by Little's law."""
    if math.isinf(number):
        return "ever longer"
    return f"{number / rate:.3g} s" if rate else "0 s"
