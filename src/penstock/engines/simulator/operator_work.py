"""What a pipeline does with a record: how long it takes, and how many records come of it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.records import Records
from penstock.plan.plan import Pipeline

Counts = npt.NDArray[np.int64]


class Ledger:
    """Records that entered and left each operator, whatever pipelines it was part of.

    Of n records that an operator has seen, n times its selectivity have come out, rounded down,
    so that what reaches the sinks in the end does not depend on plans. Each operator draws its
    times from a stream of its own.
    """

    def __init__(self, model: Model, names: Sequence[str], seed: int) -> None:
        self.model = model
        self.seen: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.streams = {
            name: np.random.Generator(np.random.SFC64([seed, zlib.crc32(name.encode())]))
            for name in names
        }

    def draw(self, name: str, count: int) -> Floats:
        return self.model.step(name).service.draw(self.streams[name], count)

    def outputs(self, name: str, visits: Counts | None, count: int) -> Counts | None:
        """Records out for each of `count` records, which enter `visits` times (None: once)."""
        ratio = self.model.step(name).ratio
        entered = count if visits is None else int(visits.sum())
        before, made = self.seen[name], self.made[name]
        self.seen[name] += entered
        if ratio == 1 and before == made:
            self.made[name] += entered
            return visits
        steps = np.arange(1, count + 1) if visits is None else np.cumsum(visits)
        due = (before + steps) * ratio.numerator // ratio.denominator
        due = np.maximum(due, made)  # records that were given back may leave too many made
        self.made[name] = int(due[-1]) if count else made
        return np.diff(due, prepend=made)

    def undo(self, name: str, entered: int, left: int) -> None:
        """Forget records that an operator was given and did not begin with."""
        self.seen[name] -= entered
        self.made[name] -= left


@dataclass(frozen=True)
class Allotted:
    """Records in a pipeline with what is in store for them.

    visits: for each operator on the way, how often it sees the record, and at the end how many
    records come out; None stands for once each. Ways of different length end together: the
    shorter ones have empty places in front.
    """

    service: Floats
    visits: tuple[Counts | None, ...]

    def __getitem__(self, which: slice | npt.NDArray[np.generic]) -> Allotted:
        return Allotted(
            self.service[which], tuple(None if v is None else v[which] for v in self.visits)
        )

    @property
    def outputs(self) -> Counts | None:
        return self.visits[-1]


class Work:
    """The operators of one pipeline and the ways through it, one for each place to enter."""

    def __init__(self, graph: Graph, pipeline: Pipeline, ledger: Ledger) -> None:
        self.pipeline = pipeline
        self.graph = graph
        self._ledger = ledger
        model = ledger.model
        body = [n for n in pipeline.operators if graph[n].state is not State.SINK]
        self.tail = (body or list(pipeline.operators))[-1]
        self.sinks = tuple(n for n in pipeline.operators if graph[n].state is State.SINK)
        keyed = [n for n in pipeline.operators if graph[n].state is State.KEYED]
        self.keyed = keyed[0] if keyed else None
        self.stateful = next((n for n in pipeline.operators if graph[n].stateful), None)
        self.paths = {name: self._path(name) for name in pipeline.operators}
        self._longest = max(map(len, self.paths.values()))
        self._send = self._sending(model)
        self.gain = {name: self._gain(name) for name in pipeline.operators}
        self.mean = {name: self._mean(name, model) for name in pipeline.operators}
        self.cpu = self._cpu(model)

    def _cpu(self, model: Model) -> float:
        """The share of the time at work that needs a processor."""
        steps = [model.step(name) for name in self.pipeline.operators]
        total = sum(step.service.mean for step in steps)
        return sum(step.service.mean * step.cpu for step in steps) / total if total else 1.0

    def _path(self, name: str) -> tuple[str, ...]:
        """From where a record enters to the tail."""
        path = [name]
        while path[-1] != self.tail and name not in self.sinks:
            path.append(self.graph.successors[path[-1]][0])
        return tuple(path)

    def _gain(self, entry: str) -> float:
        """Records out of the pipeline for one that enters."""
        return self.visits(entry)[-1]

    def visits(self, entry: str) -> list[float]:
        """How often each operator on the way sees a record, and what comes out, on average."""
        found = [1.0]
        for name in self.paths[entry]:
            found.append(found[-1] * self._ledger.model.step(name).selectivity)
        return found

    def _mean(self, entry: str, model: Model) -> float:
        visits = self.visits(entry)
        path = self.paths[entry]
        inner = sum(v * model.step(n).service.mean for n, v in zip(path, visits, strict=False))
        beside = sum(model.step(n).service.mean for n in self.sinks if n != self.tail)
        return self._hop(entry) + inner + visits[-1] * (beside + self._send)

    def _hop(self, entry: str) -> float:
        """What it takes to read a record from another pipeline; a source reads from none."""
        model = self._ledger.model
        crowd = model.crowding * (self.pipeline.parallelism - 1)
        return model.hop + crowd if self.graph[entry].inputs else 0.0

    def _sending(self, model: Model) -> float:
        """What it takes to give a record to all pipelines that read it."""
        graph, inside = self.graph, self.pipeline.operators
        if not graph[inside[0]].inputs:
            return 0.0
        return model.send * sum(reader not in inside for reader in graph.successors[self.tail])

    def allot(self, entry: str, count: int) -> Allotted:
        """Draw what records that enter at an operator will take and become."""
        ledger = self._ledger
        visits: list[Counts | None] = [None]
        service = np.zeros(0)
        for at, name in enumerate(self.paths[entry]):
            took = self._times(name, visits[-1], count)
            service = took if at == 0 else service + took
            visits.append(ledger.outputs(name, visits[-1], count))
        for name in self.sinks:
            if name != self.tail:
                service = service + self._times(name, visits[-1], count)
                made = count if visits[-1] is None else int(visits[-1].sum())
                ledger.seen[name] += made
                ledger.made[name] += made
        hop = self._hop(entry)
        if hop:
            service = service + hop
        if self._send:
            service = service + self._send * (1.0 if visits[-1] is None else visits[-1])
        front: list[Counts | None] = [None] * (self._longest + 1 - len(visits))
        return Allotted(service, (*front, *visits))

    def take_back(self, entry: str, allotted: Allotted) -> None:
        """Undo an allotment."""
        count = len(allotted.service)
        visits = allotted.visits[-len(self.paths[entry]) - 1 :]
        totals = [count if v is None else int(v.sum()) for v in visits]
        for at, name in enumerate(self.paths[entry]):
            self._ledger.undo(name, totals[at], totals[at + 1])
        for name in self.sinks:
            if name != self.tail:
                self._ledger.undo(name, totals[-1], totals[-1])

    def keys_of(
        self, records: Records, server: npt.NDArray[np.integer[Any]], rng: np.random.Generator
    ) -> Records:
        """The same records with their keys, drawn where they are open: what waits with an instance
        has one of its keys, whichever instance that will belong to."""
        name, instances = self.keyed, self.pipeline.parallelism
        if name is None or instances == 1:  # all keys are with it, so nothing is known
            return records
        keys = records.keys.get(name, np.full(len(records), -1)).copy()
        open_ = np.flatnonzero(keys < 0)
        keys[open_] = self._ledger.model.step(name).keys.drawn(server[open_], instances, rng)
        return replace(records, keys={**records.keys, name: keys})

    def _times(self, name: str, visits: Counts | None, count: int) -> Floats:
        if visits is None:
            return self._ledger.draw(name, count)
        ends = np.cumsum(visits)
        total = int(ends[-1]) if count else 0
        drawn = np.concatenate(([0.0], np.cumsum(self._ledger.draw(name, total))))
        return np.asarray(drawn[ends] - drawn[ends - visits])

    def operators(self, taken: Mapping[str, int]) -> dict[str, tuple[float, float]]:
        """Records in and out of each operator, for records taken by where they entered."""
        found = {name: [0.0, 0.0] for name in self.pipeline.operators}
        for entry, count in taken.items():
            visits = self.visits(entry)
            for at, name in enumerate(self.paths[entry]):
                found[name][0] += count * visits[at]
                found[name][1] += count * visits[at + 1]
            for name in self.sinks:
                if name != self.tail:
                    found[name][0] += count * visits[-1]
        return {name: (rows[0], rows[1]) for name, rows in found.items()}
