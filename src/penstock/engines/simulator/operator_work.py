"""Times and output counts of a pipeline's records, and the records it holds."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.engines.simulator.arrivals import SimulatedSource
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.queues import Floats, Numbers, order
from penstock.engines.simulator.records import NOTHING, RecordQueue, Records, concatenated
from penstock.plan.plan import Pipeline

Counts = npt.NDArray[np.int64]


class OperatorCounts:
    """Counts the records into and out of each operator, across all plans.

    Of n records that an operator has seen, n times its selectivity, rounded down, have come out, so
    the number of rows that reach the sinks does not depend on plans. Each operator draws service
    times from its own random stream.
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
        """Draw service times of an operator."""
        return self.model.cost(name).service.draw(self.streams[name], count)

    def outputs(self, name: str, visits: Counts | None, count: int) -> Counts | None:
        """Count records into an operator; return the records out for each.

        visits: how often each of the `count` records enters (None: once, also in the result).
        """
        ratio = self.model.cost(name).ratio
        entered = count if visits is None else int(visits.sum())
        before, made = self.seen[name], self.made[name]
        self.seen[name] += entered
        if ratio == 1 and before == made:
            self.made[name] += entered
            return visits
        costs = np.arange(1, count + 1) if visits is None else np.cumsum(visits)
        due = (before + costs) * ratio.numerator // ratio.denominator
        due = np.maximum(due, made)  # records given back may have left the count too high
        self.made[name] = int(due[-1]) if count else made
        return np.diff(due, prepend=made)

    def undo(self, name: str, entered: int, left: int) -> None:
        """Take back records that an operator was given and has not begun."""
        self.seen[name] -= entered
        self.made[name] -= left


@dataclass(frozen=True)
class Allotted:
    """Work of records in a pipeline.

    visits: for each operator on the path, how often it sees the record, and last how many records
    come out; None means once each. Paths of different length are aligned at the end: shorter ones
    are padded at the front.
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


class PipelineWork:
    """The operators of one pipeline, and the paths through it by entry."""

    def __init__(self, graph: Graph, spec: Pipeline, counts: OperatorCounts) -> None:
        self.spec = spec
        self.graph = graph
        self._counts = counts
        model = counts.model
        body = [n for n in spec.operators if graph[n].state is not State.SINK]
        self.tail = (body or list(spec.operators))[-1]
        self.sinks = tuple(n for n in spec.operators if graph[n].state is State.SINK)
        keyed = [n for n in spec.operators if graph[n].state is State.KEYED]
        self.keyed = keyed[0] if keyed else None
        self.stateful = next((n for n in spec.operators if graph[n].stateful), None)
        self.paths = {name: self._path(name) for name in spec.operators}
        self._longest = max(map(len, self.paths.values()))
        self._send = self._send_time(model)
        self.gain = {name: self._gain(name) for name in spec.operators}
        self.mean = {name: self._mean(name, model) for name in spec.operators}
        self.cpu = self._cpu(model)

    def _cpu(self, model: Model) -> float:
        """Share of the service time that needs a processor."""
        costs = [model.cost(name) for name in self.spec.operators]
        total = sum(cost.service.mean for cost in costs)
        return sum(cost.service.mean * cost.cpu for cost in costs) / total if total else 1.0

    def _path(self, name: str) -> tuple[str, ...]:
        """Operators from the entry to the tail."""
        path = [name]
        while path[-1] != self.tail and name not in self.sinks:
            path.append(self.graph.successors[path[-1]][0])
        return tuple(path)

    def _gain(self, entry: str) -> float:
        """Mean number of records out of the pipeline for one that enters."""
        return self.visits(entry)[-1]

    def visits(self, entry: str) -> list[float]:
        """Mean visits of each operator on the path, and last the records out."""
        found = [1.0]
        for name in self.paths[entry]:
            found.append(found[-1] * self._counts.model.cost(name).selectivity)
        return found

    def _mean(self, entry: str, model: Model) -> float:
        """Mean seconds of an instance for a record that enters at an operator."""
        visits = self.visits(entry)
        path = self.paths[entry]
        inner = sum(v * model.cost(n).service.mean for n, v in zip(path, visits, strict=False))
        beside = sum(model.cost(n).service.mean for n in self.sinks if n != self.tail)
        return self._receive_time(entry) + inner + visits[-1] * (beside + self._send)

    def _receive_time(self, entry: str) -> float:
        """Seconds to receive a record from another pipeline; 0 for a source."""
        model = self._counts.model
        crowd = model.crowding * (self.spec.parallelism - 1)
        return model.hop + crowd if self.graph[entry].inputs else 0.0

    def _send_time(self, model: Model) -> float:
        """Seconds to hand a record to all downstream pipelines; 0 for a source."""
        graph, inside = self.graph, self.spec.operators
        if not graph[inside[0]].inputs:
            return 0.0
        return model.send * sum(reader not in inside for reader in graph.successors[self.tail])

    def allot(self, entry: str, count: int) -> Allotted:
        """Draw service times and output counts of records that enter at an operator."""
        counts = self._counts
        visits: list[Counts | None] = [None]
        service = np.zeros(0)
        for at, name in enumerate(self.paths[entry]):
            took = self._times(name, visits[-1], count)
            service = took if at == 0 else service + took
            visits.append(counts.outputs(name, visits[-1], count))
        for name in self.sinks:
            if name != self.tail:
                service = service + self._times(name, visits[-1], count)
                made = count if visits[-1] is None else int(visits[-1].sum())
                counts.seen[name] += made
                counts.made[name] += made
        hop = self._receive_time(entry)
        if hop:
            service = service + hop
        if self._send:
            service = service + self._send * (1.0 if visits[-1] is None else visits[-1])
        front: list[Counts | None] = [None] * (self._longest + 1 - len(visits))
        return Allotted(service, (*front, *visits))

    def undo_allot(self, entry: str, allotted: Allotted) -> None:
        """Undo `allot`."""
        count = len(allotted.service)
        visits = allotted.visits[-len(self.paths[entry]) - 1 :]
        totals = [count if v is None else int(v.sum()) for v in visits]
        for at, name in enumerate(self.paths[entry]):
            self._counts.undo(name, totals[at], totals[at + 1])
        for name in self.sinks:
            if name != self.tail:
                self._counts.undo(name, totals[-1], totals[-1])

    def with_keys(self, records: Records, server: Numbers, rng: np.random.Generator) -> Records:
        """Return the records with keys; unknown keys are drawn.

        A record that waits for an instance has one of that instance's keys, and keeps it when the
        keys go to other instances.
        """
        name, instances = self.keyed, self.spec.parallelism
        if name is None or instances == 1:  # it has all keys, so the instance tells nothing
            return records
        keys = records.keys.get(name, np.full(len(records), -1)).copy()
        unknown = np.flatnonzero(keys < 0)
        keys[unknown] = self._counts.model.cost(name).keys.draw(server[unknown], instances, rng)
        return replace(records, keys={**records.keys, name: keys})

    def _times(self, name: str, visits: Counts | None, count: int) -> Floats:
        """Service times at an operator that sees each record `visits` times."""
        if visits is None:
            return self._counts.draw(name, count)
        ends = np.cumsum(visits)
        total = int(ends[-1]) if count else 0
        drawn = np.concatenate(([0.0], np.cumsum(self._counts.draw(name, total))))
        return np.asarray(drawn[ends] - drawn[ends - visits])

    def operators(self, taken: Mapping[str, int]) -> dict[str, tuple[float, float]]:
        """Records in and out of each operator, given records taken by operator of entry."""
        found = {name: [0.0, 0.0] for name in self.spec.operators}
        for entry, count in taken.items():
            visits = self.visits(entry)
            for at, name in enumerate(self.paths[entry]):
                found[name][0] += count * visits[at]
                found[name][1] += count * visits[at + 1]
            for name in self.sinks:
                if name != self.tail:
                    found[name][0] += count * visits[-1]
        return {name: (rows[0], rows[1]) for name, rows in found.items()}


@dataclass(frozen=True)
class Inlet:
    """A way into a pipeline: the operator that reads, and the queue before it.

    writer: the upstream operator, or the source itself for records from outside.
    """

    entry: str
    queue: RecordQueue | SimulatedSource
    writer: str


@dataclass(frozen=True)
class TakenRecords:
    """Records that a pipeline has taken, with their departure times and instances.

    entry: index of the inlet of each record.
    """

    records: Records
    allotted: Allotted
    left: Floats
    server: Numbers
    entry: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, which: slice | Numbers) -> TakenRecords:
        return TakenRecords(
            self.records[which],
            self.allotted[which],
            self.left[which],
            self.server[which],
            self.entry[which],
        )

    def split(self, end: float) -> tuple[slice | Numbers, TakenRecords]:
        """Return the indices of records that leave by `end`, and the records that stay."""
        go = self.left <= end
        if go.all():
            return slice(None), NONE_TAKEN
        if not go.any():  # avoids copying a batch of millions of records in every step
            return slice(0), self
        return np.flatnonzero(go), self[np.flatnonzero(~go)]

    @property
    def begun(self) -> Floats:
        """When each record begins to be processed."""
        return self.left - self.allotted.service

    def give_back(
        self, work: PipelineWork, inlets: Sequence[Inlet], rng: np.random.Generator | None = None
    ) -> None:
        """Put all records back into their queues and undo their work.

        rng: draws keys for them; None if any of the records taken could be given back instead, so
        that they may be dealt out anew.
        """
        for number, inlet in enumerate(inlets):
            mine = np.flatnonzero(self.entry == number)
            if len(mine):
                work.undo_allot(inlet.entry, self.allotted[mine])
                records = self.records[mine]
                if rng is not None:
                    records = work.with_keys(records, self.server[mine], rng)
                inlet.queue.put_back(records)


NONE_TAKEN = TakenRecords(
    NOTHING, Allotted(np.zeros(0), ()), np.zeros(0), np.zeros(0, np.intp), np.zeros(0, np.uint8)
)


def combined(first: TakenRecords, second: TakenRecords) -> TakenRecords:
    """Concatenate records taken by one pipeline."""
    if not len(first) or not len(second):
        return first if len(first) else second
    return TakenRecords(
        concatenated((first.records, second.records)),
        combined_work((first.allotted, second.allotted)),
        np.concatenate((first.left, second.left)),
        np.concatenate((first.server, second.server)),
        np.concatenate((first.entry, second.entry)),
    )


def combined_work(parts: Sequence[Allotted]) -> Allotted:
    """Concatenate the work of records of one pipeline."""
    if len(parts) == 1:
        return parts[0]
    return Allotted(
        np.concatenate([a.service for a in parts]),
        tuple(_stacked(place, parts) for place in zip(*(a.visits for a in parts), strict=True)),
    )


def _stacked(place: Sequence[Counts | None], parts: Sequence[Allotted]) -> Counts | None:
    if all(counts is None for counts in place):
        return None
    return np.concatenate(
        [
            np.ones(len(a.service), np.int64) if counts is None else counts
            for counts, a in zip(place, parts, strict=True)
        ]
    )


def in_order(
    parts: Sequence[tuple[int, Records, Allotted]],
) -> tuple[Records, Allotted, npt.NDArray[np.uint8]]:
    """Merge the records of all inlets in order of arrival."""
    if len(parts) == 1:
        number, records, allotted = parts[0]
        return records, allotted, np.array(number, np.uint8)
    records = concatenated([records for _, records, _ in parts])
    numbers = np.array([number for number, _, _ in parts], np.uint8)
    entry = np.repeat(numbers, [len(r) for _, r, _ in parts])
    found = order(records.time)
    return records[found], combined_work([a for _, _, a in parts])[found], entry[found]
