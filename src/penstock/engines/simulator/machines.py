"""Machines: which instance runs where, how neighbours slow each other down, what moving costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats, Indices, Numbers
from penstock.engines.simulator.model import Node, Timing
from penstock.plan.plan import Plan


@dataclass(frozen=True)
class Placement:
    """The executors by name, and for each pipeline the executor of each instance.

    starting: executors that take the place of one that was lost, and when each will be there.
    """

    executors: tuple[str, ...]
    hosts: Mapping[str, Indices] = field(default_factory=dict)
    named: int = 0
    """How many names were ever given, so that none is given twice."""
    starting: Mapping[str, float] = field(default_factory=dict)

    def loads(self) -> Indices:
        """Instances on each executor."""
        counts = np.zeros(len(self.executors), np.intp)
        for hosts in self.hosts.values():
            counts += np.bincount(hosts, minlength=len(counts))
        return counts

    def apart(self, first: str, second: str) -> float:
        """The share of the pairs of instances of two pipelines that two executors hold."""
        size = len(self.executors)
        one, other = (np.bincount(self.hosts[name], minlength=size) for name in (first, second))
        return 1 - int(one @ other) / (int(one.sum()) * int(other.sum()))

    @property
    def present(self) -> int:
        """How many executors are there."""
        return len(self.executors) - len(self.starting)

    def without(self, executor: str, until: float) -> Placement:
        """An executor is lost, and another takes its place at a time.

        Its instances go where the fewest are, or wait for the other one if there is none else.
        """
        lost = self.executors.index(executor)
        new = str(self.named)
        executors = tuple(new if name == executor else name for name in self.executors)
        starting = {name: at for name, at in self.starting.items() if name != executor}
        starting[new] = until
        hosts = {name: where.copy() for name, where in self.hosts.items()}
        if len(starting) < len(executors):
            for where in hosts.values():
                where[where == lost] = -1
            _fill(hosts, executors, starting)
        return Placement(executors, hosts, self.named + 1, starting)

    def at(self, now: float) -> Placement:
        """The same with the executors that are there by now."""
        starting = {name: at for name, at in self.starting.items() if at > now}
        return replace(self, starting=starting)

    def drawn(self, pipelines: Sequence[str], came: Sequence[int]) -> Placement:
        """The same with instances of some pipelines on executors that came.

        These get their share of all instances, one of each pipeline in this order, so that who
        stands beside whom in it is on one executor as far as that goes.
        """
        share = int(self.loads().sum()) // len(self.executors)
        hosts = {name: where.copy() for name, where in self.hosts.items()}
        most = max(map(len, hosts.values()))
        able = (
            (name, at)
            for at in range(most)
            for name in pipelines
            if at < len(hosts[name]) and hosts[name][at] not in came
        )
        for number, (name, at) in enumerate(islice(able, share * len(came))):
            hosts[name][at] = came[number // share]
        return replace(self, hosts=hosts)

    def evened(self) -> Placement:
        """The same with executors as even as they can be, by as few moves as that takes.

        Who has too many gives away of the pipeline of which it has most. Executors that are not
        there yet neither give nor take.
        """
        loads = self.loads()
        there = np.array([name not in self.starting for name in self.executors])
        over = _excess(loads, there)
        if not over.any():
            return self
        sizes = [len(where) for where in self.hosts.values()]
        where = np.concatenate(list(self.hosts.values()))
        which = np.repeat(np.arange(len(sizes)), sizes)
        beside = _rank(where * len(sizes) + which)  # of the same pipeline on the same executor
        order = np.lexsort((-which, -beside, where))
        going = np.sort(order[_rank(where[order]) < over[where[order]]])
        left = np.where(there, loads - over, loads.sum() + 1)
        where[going] = _emptiest(left, len(going))
        parts = np.split(where, np.cumsum(sizes)[:-1])
        return replace(self, hosts=dict(zip(self.hosts, parts, strict=True)))


def moved(before: Placement, after: Placement) -> dict[str, Indices]:
    """The instances of each pipeline that were and are there, on another executor than before."""
    place = {name: at for at, name in enumerate(after.executors)}
    kept = np.array([place.get(name, -1) for name in before.executors], np.intp)
    found = {}
    for name, now in after.hosts.items():
        then = before.hosts.get(name, np.zeros(0, np.intp))[: len(now)]
        which = np.flatnonzero(kept[then] != now[: len(then)])
        if len(which):
            found[name] = which
    return found


def place(
    before: Placement | None,
    plan: Plan,
    *,
    stays: bool = False,
    drawn: Sequence[str] = (),
    anew: bool = False,
    work: Mapping[str, float] | None = None,
    room: int | None = None,
) -> Placement:
    """Instances that stay, stay where they are; new ones go where the fewest are.

    Where executors come, they then get their share of what runs, unless all of it `stays` or all
    but what is `drawn`. A pipeline that is new takes the places of the pipeline before it that held
    its first operator, if there was one of the same name. anew: all are new. work: cores that the
    instances of each pipeline keep busy together; then new ones go where the least is to do, and
    there are fewer than `room`.
    """
    executors, kept, named = _executors(before, plan)
    hosts: dict[str, Indices] = {}
    for pipeline in plan.pipelines:
        old = np.zeros(0, np.intp)
        if before is not None and pipeline.name in before.hosts and not anew:
            old = kept[before.hosts[pipeline.name][: pipeline.parallelism]]
        hosts[pipeline.name] = np.concatenate(
            (old, np.full(pipeline.parallelism - len(old), -1, np.intp))
        )
    awaited = {} if before is None else before.starting
    starting = {name: awaited[name] for name in executors if name in awaited}
    if work is None:
        _fill(hosts, executors, starting)
    else:
        _fill_by_load(hosts, executors, starting, work, room)
    found = Placement(executors, hosts, named, starting)
    known = executors if before is None else before.executors
    came = [at for at, name in enumerate(executors) if name not in known]
    if came and drawn:
        return found.drawn(drawn, came)
    return found.evened() if came and not stays else found


def _excess(loads: Indices, there: npt.NDArray[np.bool_]) -> Indices:
    """How many each executor has more than its share; who has most keeps what does not divide."""
    over = np.zeros_like(loads)
    if there.any():
        share, rest = divmod(int(loads[there].sum()), int(there.sum()))
        goal = np.full(int(there.sum()), share)
        goal[np.argsort(-loads[there], kind="stable")[:rest]] += 1
        over[there] = np.maximum(loads[there] - goal, 0)
    return over


def _rank(groups: Indices) -> Indices:
    """The place of each among those of the same group, in their order."""
    order = np.argsort(groups, kind="stable")
    sizes = np.unique(groups, return_counts=True)[1]
    found = np.empty(len(groups), np.intp)
    found[order] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


def _fill(
    hosts: Mapping[str, Indices], executors: Sequence[str], starting: Mapping[str, float]
) -> None:
    """Put instances that have no place where the fewest are, if need be on who is not there yet."""
    loads = np.zeros(len(executors), np.intp)
    for where in hosts.values():
        loads += np.bincount(where[where >= 0], minlength=len(loads))
    absent = [at for at, name in enumerate(executors) if name in starting]
    if len(absent) < len(executors):
        loads[absent] += sum(map(len, hosts.values()))
    for where in hosts.values():
        new = np.flatnonzero(where < 0)
        where[new] = _emptiest(loads, len(new))
        loads += np.bincount(where[new], minlength=len(loads))


def _fill_by_load(
    hosts: Mapping[str, Indices],
    executors: Sequence[str],
    starting: Mapping[str, float],
    work: Mapping[str, float],
    room: int | None,
) -> None:
    """Put instances that have no place, one after the other, where the least is to do.

    Each will do its part of the work of its pipeline, as those do that are there.
    """
    loads, counts = np.zeros(len(executors)), np.zeros(len(executors), np.intp)
    each = {name: work.get(name, 0.0) / max(len(where), 1) for name, where in hosts.items()}
    for name, where in hosts.items():
        there = np.bincount(where[where >= 0], minlength=len(executors))
        loads, counts = loads + each[name] * there, counts + there
    absent = np.array([name in starting for name in executors])
    for name, where in hosts.items():
        for at in np.flatnonzero(where < 0):
            full = absent if room is None else counts >= room
            goes = np.lexsort((counts, loads, full, absent))[0]
            where[at] = goes
            loads[goes] += each[name]
            counts[goes] += 1


def packed(plan: Plan) -> Placement:
    """Executor after executor is filled, pipeline after pipeline, each with as many as the next."""
    hosts: dict[str, Indices] = {}
    at = 0
    for pipeline in plan.pipelines:
        places = np.arange(at, at + pipeline.parallelism)
        hosts[pipeline.name] = (places * plan.executors // plan.slots).astype(np.intp)
        at += pipeline.parallelism
    return Placement(tuple(map(str, range(plan.executors))), hosts, plan.executors)


def _executors(before: Placement | None, plan: Plan) -> tuple[tuple[str, ...], Indices, int]:
    """The executors of a plan, and where each of those before it is now (-1: gone)."""
    names = () if before is None else before.executors
    named = 0 if before is None else before.named
    leaving = set(plan.leaving) if plan.executors < len(names) else set()
    awaited = {} if before is None else before.starting
    there = [n for n in names if n not in leaving]
    first = set(sorted(there, key=lambda name: name in awaited)[: plan.executors])
    stay = [n for n in there if n in first]  # who is not there yet is missed least
    new = [str(named + i) for i in range(plan.executors - len(stay))]
    place = {name: at for at, name in enumerate(stay)}
    kept = np.array([place.get(name, -1) for name in names], np.intp)
    return (*stay, *new), kept, named + len(new)


def _emptiest(loads: Indices, count: int) -> Indices:
    """Where to put instances so that executors end up as even as they can."""
    if not count:
        return np.zeros(0, np.intp)
    level = int(loads.min())
    while int(np.maximum(level - loads, 0).sum()) < count:
        level += max(1, (count - int(np.maximum(level - loads, 0).sum())) // len(loads))
    room = np.maximum(level - loads, 0)
    rank = np.arange(int(room.sum())) - np.repeat(np.cumsum(room) - room, room)
    slots = np.repeat(np.arange(len(loads)), room)
    height = np.repeat(loads, room) + rank
    return slots[np.argsort(height, kind="stable")[:count]].astype(np.intp)


def used(placement: Placement, state: Mapping[str, float], node: Node) -> Floats:
    """The share of the memory of each executor that state needs; bytes of it by pipeline."""
    size = len(placement.executors)
    found = np.zeros(size)
    for name, hosts in placement.hosts.items():
        if state.get(name):
            found += np.bincount(hosts, minlength=size) * (state[name] / max(len(hosts), 1))
    return found / node.memory


def slowdown(
    placement: Placement,
    wanted: Mapping[str, Floats],
    state: Mapping[str, float],
    node: Node,
    *,
    shared: bool = False,
) -> tuple[Floats, Floats]:
    """How many times as long a record takes on each executor, and the memory share in use.

    wanted: by pipeline, the share of time that each instance wants a core, whether it gets one or
    not; state: bytes of state by pipeline, even over its instances. Where more cores are wanted
    than there are, all slow down alike, so that no more is done than there are cores; shared: that
    is accounted for elsewhere.
    """
    size = len(placement.executors)
    cores, memory = np.zeros(size), used(placement, state, node)
    for name, hosts in placement.hosts.items():
        if name in wanted:
            cores += np.bincount(hosts, wanted[name], minlength=size)
    # what instances take for themselves is gone for all of them, but for a little
    left = np.maximum(node.cores - node.upkeep * placement.loads(), 0.01 * node.cores)
    factor = np.ones(size) if shared else np.maximum(cores / left, 1.0)
    if node.interference:
        # what an instance sees is the others: at most all cores but its own
        beside = np.minimum(np.maximum(cores - 1.0, 0.0), node.cores - 1.0)
        factor = factor * (1.0 + node.interference * beside)
    return np.where(memory > 1.0, factor * node.spill, factor), memory


@dataclass(frozen=True)
class Move:
    """Instances of a pipeline that are started elsewhere and read their state there.

    pause: seconds for which they stand still; rows and bytes: of their state.
    """

    instances: Numbers
    pause: float
    rows: int = 0
    bytes: float = 0.0


def moves(
    before: Placement,
    after: Placement,
    state: dict[str, tuple[int, float]],
    timing: Timing,
    *,
    batched: bool = False,
) -> dict[str, Move]:
    """What moves between two placements, by pipeline; state: rows and bytes of each, even over its
    instances.

    batched: tasks of a batch are started anew each time, wherever there is room, so only state
    has to move.
    """
    found = {}
    for name, which in moved(before, after).items():
        rows, size = state.get(name, (0, 0.0))
        if batched and not rows:
            continue
        share = len(which) / len(before.hosts[name])
        pause = timing.restart + share * size / timing.state_rate
        found[name] = Move(which, pause, round(share * rows), share * size)
    return found
