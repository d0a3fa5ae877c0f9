"""Executors: placement of instances, contention between neighbours, and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from penstock.engines.simulator.model import Machine, Timing
from penstock.engines.simulator.queues import Floats, Indices, Numbers
from penstock.plan.plan import Plan


@dataclass(frozen=True)
class Placement:
    """The executors by name, and for each pipeline the executor of each instance.

    starting: executors that replace a lost one, and when each will be there.
    """

    executors: tuple[str, ...]
    hosts: Mapping[str, Indices] = field(default_factory=dict)
    named: int = 0
    """Number of names ever given, so that none is used twice."""
    starting: Mapping[str, float] = field(default_factory=dict)

    def loads(self) -> Indices:
        """Number of instances on each executor."""
        counts = np.zeros(len(self.executors), np.intp)
        for hosts in self.hosts.values():
            counts += np.bincount(hosts, minlength=len(counts))
        return counts

    def apart(self, first: str, second: str) -> float:
        """Share of the instance pairs of two pipelines that are on different executors."""
        size = len(self.executors)
        one, other = (np.bincount(self.hosts[name], minlength=size) for name in (first, second))
        return 1 - int(one @ other) / (int(one.sum()) * int(other.sum()))

    @property
    def present(self) -> int:
        """Number of executors that are there."""
        return len(self.executors) - len(self.starting)

    def without(self, executor: str, until: float) -> Placement:
        """Return the placement after the loss of an executor.

        until: when its replacement arrives.

        Its instances go where the fewest are, or wait for the replacement if there is no other
        executor.
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
        """Return the placement with the executors that are there at a time."""
        starting = {name: at for name, at in self.starting.items() if at > now}
        return replace(self, starting=starting)

    def drawn(self, pipelines: Sequence[str], came: Sequence[int]) -> Placement:
        """Return the placement with instances of some pipelines moved to new executors.

        The new executors get their share of all instances, one of each pipeline in this order, so
        that neighbours in the order share an executor as far as possible.
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

    def balanced(self) -> Placement:
        """Return the placement balanced over the executors with the fewest moves.

        An executor with too many instances gives away those of the pipeline of which it has most.
        Executors that are still starting neither give nor take.
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
    """Return the surviving instances of each pipeline that changed executor."""
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
    """Place a plan: surviving instances stay, new ones go where the fewest are.

    New executors then get their share of what runs, unless all instances stay (`stays`) or all
    except those of the pipelines in `drawn`. A pipeline takes the places of the previous pipeline
    of the same name. anew: place all instances anew. work: busy cores of each pipeline; if given,
    new instances go where the load is lowest and fewer than `room` instances are.
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
    return found.balanced() if came and not stays else found


def _excess(loads: Indices, there: NDArray[np.bool_]) -> Indices:
    """Instances above each executor's share; the fullest keep the remainder."""
    over = np.zeros_like(loads)
    if there.any():
        share, rest = divmod(int(loads[there].sum()), int(there.sum()))
        goal = np.full(int(there.sum()), share)
        goal[np.argsort(-loads[there], kind="stable")[:rest]] += 1
        over[there] = np.maximum(loads[there] - goal, 0)
    return over


def _rank(groups: Indices) -> Indices:
    """Position of each element among those of its group."""
    order = np.argsort(groups, kind="stable")
    sizes = np.unique(groups, return_counts=True)[1]
    found = np.empty(len(groups), np.intp)
    found[order] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


def _fill(
    hosts: Mapping[str, Indices], executors: Sequence[str], starting: Mapping[str, float]
) -> None:
    """Place unplaced instances where the fewest are.

    Executors that are still starting are used only if there are no others.
    """
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
    """Place unplaced instances one by one where the load is lowest.

    Each is expected to do its share of its pipeline's work.
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
    """Fill executor after executor evenly, pipeline by pipeline."""
    hosts: dict[str, Indices] = {}
    at = 0
    for pipeline in plan.pipelines:
        places = np.arange(at, at + pipeline.parallelism)
        hosts[pipeline.name] = (places * plan.executors // plan.slots).astype(np.intp)
        at += pipeline.parallelism
    return Placement(tuple(map(str, range(plan.executors))), hosts, plan.executors)


def _executors(before: Placement | None, plan: Plan) -> tuple[tuple[str, ...], Indices, int]:
    """Return the executors of a plan.

    Also the new index of each previous one (-1: gone), and how many names were ever given.
    """
    names = () if before is None else before.executors
    named = 0 if before is None else before.named
    leaving = set(plan.leaving) if plan.executors < len(names) else set()
    awaited = {} if before is None else before.starting
    there = [n for n in names if n not in leaving]
    first = set(sorted(there, key=lambda name: name in awaited)[: plan.executors])
    stay = [n for n in there if n in first]  # executors still starting leave first
    new = [str(named + i) for i in range(plan.executors - len(stay))]
    place = {name: at for at, name in enumerate(stay)}
    kept = np.array([place.get(name, -1) for name in names], np.intp)
    return (*stay, *new), kept, named + len(new)


def _emptiest(loads: Indices, count: int) -> Indices:
    """Return executors for instances so that loads end up as even as possible."""
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


def memory_use(placement: Placement, state: Mapping[str, float], machine: Machine) -> Floats:
    """Share of each executor's memory that state needs, in bytes by pipeline."""
    size = len(placement.executors)
    found = np.zeros(size)
    for name, hosts in placement.hosts.items():
        if state.get(name):
            found += np.bincount(hosts, minlength=size) * (state[name] / max(len(hosts), 1))
    return found / machine.memory


def slowdown(
    placement: Placement,
    wanted: Mapping[str, Floats],
    state: Mapping[str, float],
    machine: Machine,
    *,
    shared: bool = False,
) -> tuple[Floats, Floats]:
    """Factor on a record's time on each executor, and the memory share in use.

    wanted: by pipeline, the share of time in which each instance wants a core; state: bytes by
    pipeline, spread evenly over its instances. If more cores are wanted than there are, all slow
    down alike, so that no more work is done than there are cores; shared: that is modelled
    elsewhere.
    """
    size = len(placement.executors)
    cores, memory = np.zeros(size), memory_use(placement, state, machine)
    for name, hosts in placement.hosts.items():
        if name in wanted:
            cores += np.bincount(hosts, wanted[name], minlength=size)
    # upkeep reduces the cores for all instances, but never to nothing
    left = np.maximum(machine.cores - machine.upkeep * placement.loads(), 0.01 * machine.cores)
    factor = np.ones(size) if shared else np.maximum(cores / left, 1.0)
    if machine.interference:
        # an instance is disturbed by the others: at most all cores except its own
        beside = np.minimum(np.maximum(cores - 1.0, 0.0), machine.cores - 1.0)
        factor = factor * (1.0 + machine.interference * beside)
    return np.where(memory > 1.0, factor * machine.spill, factor), memory


@dataclass(frozen=True)
class Move:
    """Instances of a pipeline that restart on another executor.

    pause: seconds until they have restarted and read their state; rows and bytes: of that state.
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
    """Return the moves between two placements, by pipeline.

    state: rows and bytes of each pipeline, spread evenly over its instances; batched: tasks start
    anew in each batch on any slot, so only state has to move.
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
