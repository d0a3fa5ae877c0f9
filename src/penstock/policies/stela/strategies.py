"""Baselines of the Stela paper, which rank pipelines by topology and traffic.

A ranking lists all pipelines in the order in which they get slots, round after round. In the paper
these strategies move instances between machines. Here Spark decides where an instance runs, so they
choose which pipeline gets a further instance, from the same number of slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from penstock.metrics import derived
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.shared.rates import CATCH_UP, CONGESTED, NotMeasured, Rates
from penstock.policies.shared.topology import Topology
from penstock.policies.stela import slots
from penstock.policies.stela.rate_table import RateTable
from penstock.policies.stela.slots import Choice, SlotAllocation

Ranking = Callable[[Topology, Rates], tuple[str, ...]]

Keys = npt.NDArray[np.float64] | npt.NDArray[np.intp]


def distance_from_source(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Rank by distance from a source, nearest first."""
    return _sorted(topology, _hops(topology.sources, topology.downstream))


def distance_to_sink(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Rank by distance to a sink, nearest first."""
    return _sorted(topology, _hops(topology.sinks, topology.upstream))


def descendants(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Rank by number of downstream pipelines, most first."""
    bit = {name: 1 << at for at, name in enumerate(topology.pipelines)}
    behind: dict[str, int] = {}
    for name in reversed(tuple(topology.pipelines)):
        behind[name] = 0
        for reader in topology.downstream[name]:
            behind[name] |= bit[reader] | behind[reader]
    return _sorted(topology, {name: -mask.bit_count() for name, mask in behind.items()})


def centrality(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Rank by number of input and output links, most first."""
    links = {n: len(topology.upstream[n]) + len(topology.downstream[n]) for n in topology.pipelines}
    return _sorted(topology, {name: -count for name, count in links.items()})


def least_link_load(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Rank by traffic on input and output links, least first."""
    return _sorted(topology, _link_load(topology, rates))


def most_link_load(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Rank by traffic on input and output links, most first."""
    return _sorted(topology, {n: -load for n, load in _link_load(topology, rates).items()})


def round_robin(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Rank in topological order."""
    return tuple(topology.pipelines)


RANKINGS: Mapping[str, Ranking] = {
    "distance-from-source": distance_from_source,
    "distance-to-sink": distance_to_sink,
    "descendants": descendants,
    "centrality": centrality,
    "least-link-load": least_link_load,
    "most-link-load": most_link_load,
    "round-robin": round_robin,
}


_BY_TRAFFIC: Mapping[Ranking, float] = {least_link_load: 1.0, most_link_load: -1.0}

_NEAR = 1e-9
"""Relative difference of traffic beyond which rounding cannot change the order."""


def by(ranking: Ranking) -> Choice:
    """Return a choice that goes round the pipelines in the order of a ranking.

    Its state is the position of each pipeline in the ranking, unless that follows the traffic.
    """

    def choose(allocation: SlotAllocation, memory: Keys | None) -> tuple[str | None, Keys | None]:
        names, numbers = allocation.table.numbered.names, allocation.table.numbered.numbers
        turns = np.zeros(len(names))
        turns[[numbers[name] for name in allocation.given]] = [*allocation.given.values()]
        able = np.flatnonzero(allocation.open)
        if not len(able):
            return None, memory
        able = able[turns[able] == turns[able].min()]
        if ranking in _BY_TRAFFIC:
            keys = _BY_TRAFFIC[ranking] * _traffic(allocation.table)[able]
            near = keys <= keys.min() + _NEAR * np.abs(keys).max()
            able, keys = able[near], derived.rounded_array(keys[near])
        else:
            if memory is None:
                ranked = ranking(allocation.topology, allocation.rates)
                memory = np.argsort([numbers[name] for name in ranked])
            keys = memory[able]
        return names[able[np.argmin(keys)]], memory

    return choose


def scale_out(context: Context, executors: int, ranking: Ranking) -> Decision:
    """Add executors, and allocate their slots by a ranking."""
    return slots.scale_out(context, executors, by(ranking))


@dataclass(frozen=True)
class RoundRobinMemory:
    """Memory of a round: pipelines served, and the last one with its old instances."""

    served: tuple[str, ...] = ()
    turn: str | None = None
    instances: int = 0
    version: Literal[1] = 1

    def had(self, plan: Plan) -> tuple[str, ...]:
        """Pipelines served so far under the plan in force.

        The last one does not count if its change was not carried out; otherwise the timing of
        changes would decide which pipelines ever get an instance.
        """
        now = {p.name: p.parallelism for p in plan.pipelines}
        if self.turn is None or now.get(self.turn, 0) <= self.instances:
            return self.served
        return (*self.served, self.turn)


def next_turn(
    context: Context,
    start: SlotAllocation,
    ranking: tuple[str, ...],
    memory: RoundRobinMemory | None,
) -> tuple[Decision, RoundRobinMemory | None]:
    """Give a further instance to the next of a ranking while a pipeline is congested."""
    if (why_not := slots.why_nothing_to_give(context, start)) is not None:
        return Decision(None, why_not), memory
    served = (memory or RoundRobinMemory()).had(context.plan)
    had = {*served}
    turns = sorted(ranking, key=lambda name: name in had)
    turn = next((name for name in turns if start.room(name)), None)
    if turn is None:
        return slots.all_at_bounds(start, ranking), memory
    if turn in had:
        served = ()  # the next round begins
    decision = slots.one_more_instance(context, start, turn, f"{turn} is next in turn")
    return decision, RoundRobinMemory(served, turn, start.instances(turn))


@dataclass(frozen=True)
class _Ranked:
    """While a pipeline is congested, gives instances one by one, by a ranking.

    congested: rows arriving for each row processed, above which a pipeline is congested; calm:
    seconds for which an instance must have been idle before it is removed; catch_up: seconds in
    which the remaining instances must be able to work off a backlog.
    """

    name: ClassVar[str]
    memory_type: ClassVar[Any] = RoundRobinMemory
    congested: float = CONGESTED
    calm: float = slots.CALM
    catch_up: float = CATCH_UP

    def __post_init__(self) -> None:
        slots.check(self.congested, self.calm, self.catch_up)

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        try:
            start = slots.measured(context, self.congested)
        except NotMeasured as why:
            return Decision(None, f"no change: {why}"), memory
        if (less := slots.fewer_instances(context, start, self.calm, self.catch_up)) is not None:
            return less, memory
        ranking = RANKINGS[self.name](start.topology, start.rates)
        return next_turn(context, start, ranking, memory)


@dataclass(frozen=True)
class LeastLinkLoad(_Ranked):
    """Add instances where link traffic is lowest, while a pipeline is congested."""

    name: ClassVar[str] = "least-link-load"


@dataclass(frozen=True)
class RoundRobin(_Ranked):
    """Add instances to one pipeline after the other, while a pipeline is congested."""

    name: ClassVar[str] = "round-robin"


def _hops(ends: Iterable[str], links: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    """Fewest links between each pipeline and one of the ends."""
    found = dict.fromkeys(ends, 0)
    queue = deque(found)
    while queue:
        name = queue.popleft()
        for other in links[name]:
            if other not in found:
                found[other] = found[name] + 1
                queue.append(other)
    return found


def _link_load(topology: Topology, rates: Rates) -> Mapping[str, float]:
    """Rows per second on all input and output links of each pipeline."""
    return {
        name: derived.rounded(rate.arrival + rate.output * len(topology.downstream[name]))
        for name, rate in rates.items()
    }


def _traffic(table: RateTable) -> Keys:
    """Link traffic by number of the pipeline, not rounded."""
    readers = np.array([len(found) for found in table.numbered.readers], np.float64)
    return np.array(table.arrival, np.float64) + np.array(table.output, np.float64) * readers


def _sorted(topology: Topology, key: Mapping[str, float]) -> tuple[str, ...]:
    """Sort by key, lowest first; ties in topological order."""
    return tuple(sorted(topology.pipelines, key=lambda name: key[name]))
