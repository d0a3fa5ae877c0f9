"""Where to put more instances, judged by shape and traffic alone: what Stela compares itself with.

Each ranking names all pipelines, the first to get a slot first; slots go round in that order.
In the original these strategies move instances between machines; where an instance runs is
Spark's to decide here, so they choose who gets one more, from the same number of slots.
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
    """Nearest to a source first."""
    return _sorted(topology, _hops(topology.sources, topology.downstream))


def distance_to_sink(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Nearest to a sink first."""
    return _sorted(topology, _hops(topology.sinks, topology.upstream))


def descendants(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Those with most pipelines behind them first."""
    bit = {name: 1 << at for at, name in enumerate(topology.pipelines)}
    behind: dict[str, int] = {}
    for name in reversed(tuple(topology.pipelines)):
        behind[name] = 0
        for reader in topology.downstream[name]:
            behind[name] |= bit[reader] | behind[reader]
    return _sorted(topology, {name: -mask.bit_count() for name, mask in behind.items()})


def centrality(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Those with most links, in and out, first."""
    links = {n: len(topology.upstream[n]) + len(topology.downstream[n]) for n in topology.pipelines}
    return _sorted(topology, {name: -count for name, count in links.items()})


def least_link_load(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Those with least traffic on their links first."""
    return _sorted(topology, _link_load(topology, rates))


def most_link_load(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """Those with most traffic on their links first."""
    return _sorted(topology, {n: -load for n, load in _link_load(topology, rates).items()})


def round_robin(topology: Topology, rates: Rates) -> tuple[str, ...]:
    """In the order in which records meet them."""
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
"""Difference of loads, as a part of the highest, from which rounding cannot turn them."""


def by(ranking: Ranking) -> Choice:
    """The choice that goes round in the order of a ranking.

    Memory: the place of each pipeline in the ranking, where that does not follow the traffic.
    """

    def choose(growth: SlotAllocation, memory: Keys | None) -> tuple[str | None, Keys | None]:
        names, numbers = growth.ledger.wiring.names, growth.ledger.wiring.numbers
        turns = np.zeros(len(names))
        turns[[numbers[name] for name in growth.given]] = [*growth.given.values()]
        able = np.flatnonzero(growth.open)
        if not len(able):
            return None, memory
        able = able[turns[able] == turns[able].min()]
        if ranking in _BY_TRAFFIC:
            keys = _BY_TRAFFIC[ranking] * _traffic(growth.ledger)[able]
            near = keys <= keys.min() + _NEAR * np.abs(keys).max()
            able, keys = able[near], derived.rounded_array(keys[near])
        else:
            if memory is None:
                ranked = ranking(growth.topology, growth.rates)
                memory = np.argsort([numbers[name] for name in ranked])
            keys = memory[able]
        return names[able[np.argmin(keys)]], memory

    return choose


def scale_out(context: Context, executors: int, ranking: Ranking) -> Decision:
    """Add executors, and give their slots out by a ranking."""
    return slots.scale_out(context, executors, by(ranking))


@dataclass(frozen=True)
class RoundRobinMemory:
    """Who has had a turn in this round, and whose turn it was last, with the instances it had."""

    served: tuple[str, ...] = ()
    turn: str | None = None
    instances: int = 0
    version: Literal[1] = 1

    def had(self, plan: Plan) -> tuple[str, ...]:
        """Who has had a turn by now.

        One that was not carried out is still due: else the time between two changes would decide
        who ever gets an instance.
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
    """One more instance for the next of a ranking while something is congested."""
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
    decision = slots.one_more_instance(context, start, turn, f"{turn} is next")
    return decision, RoundRobinMemory(served, turn, start.instances(turn))


@dataclass(frozen=True)
class _Ranked:
    """While something is congested, one more instance a time for the next one of a ranking.

    calm: seconds for which an instance must have had nothing to do before it goes; catch_up:
    seconds in which rows that wait are to be worked off by those that stay.
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
            return Decision(None, str(why)), memory
        if (less := slots.fewer_instances(context, start, self.calm, self.catch_up)) is not None:
            return less, memory
        ranking = RANKINGS[self.name](start.topology, start.rates)
        return next_turn(context, start, ranking, memory)


@dataclass(frozen=True)
class LeastLinkLoad(_Ranked):
    """More instances for those with least traffic on their links, while something is congested."""

    name: ClassVar[str] = "least-link-load"


@dataclass(frozen=True)
class RoundRobin(_Ranked):
    """More instances for one pipeline after the other, while something is congested."""

    name: ClassVar[str] = "round-robin"


def _hops(ends: Iterable[str], links: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    """Least number of links between each pipeline and one of the ends."""
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
    """Rows per second on all links of a pipeline, in and out."""
    return {
        name: derived.rounded(rate.arrival + rate.output * len(topology.downstream[name]))
        for name, rate in rates.items()
    }


def _traffic(ledger: RateTable) -> Keys:
    """The same by number, not rounded."""
    readers = np.array([len(found) for found in ledger.wiring.readers], np.float64)
    return np.array(ledger.arrival, np.float64) + np.array(ledger.output, np.float64) * readers


def _sorted(topology: Topology, key: Mapping[str, float]) -> tuple[str, ...]:
    """Lowest first; ties in the order in which records meet them."""
    return tuple(sorted(topology.pipelines, key=lambda name: key[name]))
