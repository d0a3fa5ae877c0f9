"""A model of a running flow, for tests of changes without Spark: rows, state and channels as lists.

Every operator passes each row on, so a sink must hold each source row once for each path to it,
and a stateful operator must have seen the same. A crash ends a process and leaves its disk.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes import wiring as wirings
from penstock.plan.plan import Pipeline
from penstock.store.run_directory import Wired, Wiring

Row = tuple[str, int]
ROWS = 40


class Crash(BaseException):
    """The process dies here."""


class Bomb:
    """Raises an error at the n-th moment that could be one's last; never if n is None."""

    def __init__(self, at: int | None = None, error: type[BaseException] = Crash) -> None:
        self.left, self.error = at, error

    def tick(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise self.error("now")


@dataclass
class Checkpoint:
    """Rows read by epoch and input, state partitions (None before a batch), and rows in state."""

    rows: dict[tuple[int, str], int] = field(default_factory=dict)
    partitions: int | None = None
    seen: Counter[Row] = field(default_factory=Counter)
    torn: bool = False


@dataclass
class Disk:
    """What outlives a process."""

    wiring: Wiring
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    copies: dict[str, Checkpoint] = field(default_factory=dict)
    channels: dict[str, list[Row]] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    sinks: dict[str, list[Row]] = field(default_factory=dict)
    executors: int = 1


class Running:
    """A pipeline, or its successor, in a process."""

    def __init__(self, spec: Pipeline, wired: Wired, delivers: bool = True) -> None:
        self.spec, self.wired, self.delivers = spec, wired, delivers
        self.open = self.alive = True
        self.settings = spec


class ModelFlow:
    """One process of a flow: the `Pipelines` that steps act on."""

    def __init__(self, graph: Graph, disk: Disk, choose: random.Random, bomb: Bomb) -> None:
        self.graph, self.disk, self.choose, self.bomb = graph, disk, choose, bomb
        self.pipelines: dict[str, Running] = {}
        self.successors: dict[str, Running] = {}
        self.kept: dict[str, dict[str, int]] = {}

    # --- life --------------------------------------------------------------------------------

    @property
    def wiring(self) -> Wiring:
        return self.disk.wiring

    def begin(self) -> None:
        """Start all pipelines of the wiring in force, with the executors that there are."""
        plan = replace(self.wiring.plan, executors=self.disk.executors)
        self.disk.wiring = replace(self.wiring, plan=plan)
        for spec in plan.pipelines:
            self.pipelines[spec.name] = Running(spec, self.wiring.pipelines[spec.name])

    def go_on(self, batches: int = 3) -> None:
        """Let some pipelines run a batch."""
        for _ in range(batches):
            ready = [p for p in self.pipelines.values() if p.alive and p.open and p.delivers]
            if ready:
                self.batch(self.choose.choice(ready))

    def finish(self) -> None:
        """Run until no row is left."""
        while sum(self.batch(p, ROWS) for p in self.pipelines.values()):
            pass

    def batch(self, at: Running, most: int = 7, until: Mapping[str, int] | None = None) -> bool:
        """Read some rows of every input, put them through, and commit. False if there was none."""
        checkpoint = self.disk.checkpoints.setdefault(at.wired.checkpoint, Checkpoint())
        assert not checkpoint.torn, f"{at.wired.checkpoint} is half repartitioned"
        if checkpoint.partitions is None:
            checkpoint.partitions = at.wired.partitions
        before = self.positions(at)
        after, given = dict(before), dict[str, list[Row]]()
        for entry in pipeline_graph.inputs(self.graph, at.spec.operators):
            end = min(before[entry.key] + self.choose.randint(1, most), self._end(entry))
            end = end if until is None else min(end, until[entry.key])
            after[entry.key] = end
            rows = self._read(entry, before[entry.key], end)
            given.setdefault(entry.operator, []).extend(rows)
        if after == before:
            return False
        self._put_through(at, given, checkpoint)
        for key, row in after.items():
            checkpoint.rows[at.wired.epoch, key] = row
        self._clean()
        return True

    def positions(self, at: Running) -> dict[str, int]:
        checkpoint = self.disk.checkpoints.get(at.wired.checkpoint, Checkpoint())
        return {
            e.key: checkpoint.rows.get((at.wired.epoch, e.key), at.wired.first.get(e.key, 0))
            for e in pipeline_graph.inputs(self.graph, at.spec.operators)
        }

    def _end(self, entry: pipeline_graph.Input) -> int:
        return self.channel_end(entry.upstream) if entry.upstream else ROWS

    def _read(self, entry: pipeline_graph.Input, first: int, end: int) -> list[Row]:
        if not entry.upstream:
            return [(entry.operator, row) for row in range(first, end)]
        gone = self.disk.deleted.get(entry.upstream, 0)
        assert first >= gone or first == end, f"{entry.key}: rows from {first} are deleted"
        return self.disk.channels.get(entry.upstream, [])[first:end]

    def _put_through(
        self, at: Running, given: dict[str, list[Row]], checkpoint: Checkpoint
    ) -> None:
        inside, tail = at.spec.operators, pipeline_graph.tail(self.graph, at.spec.operators)
        for name in (n for n in self.graph.topological if n in inside):
            rows = given.get(name, [])
            if self.graph[name].stateful:
                checkpoint.seen.update(rows)
            if self.graph[name] in self.graph.sinks and at.delivers:
                self.disk.sinks.setdefault(name, []).extend(rows)
            for reader in self.graph.successors[name]:
                if reader in inside:
                    given.setdefault(reader, []).extend(rows)
        if pipeline_graph.feeds(self.graph, inside) and at.delivers:
            self.disk.channels.setdefault(tail, []).extend(given.get(tail, []))

    def _clean(self) -> None:
        """Delete rows that all readers of a channel have committed."""
        readers: dict[str, list[int]] = {}
        for running in self.pipelines.values():
            positions = self.positions(running)
            for entry in pipeline_graph.inputs(self.graph, running.spec.operators):
                if entry.upstream:
                    readers.setdefault(entry.upstream, []).append(positions[entry.key])
        for upstream, rows in readers.items():
            kept = [found[upstream] for found in self.kept.values() if upstream in found]
            self.disk.deleted[upstream] = max(self.disk.deleted.get(upstream, 0), min(rows + kept))

    def _alive(self, pipeline: str) -> Running:
        found = self.pipelines[pipeline]
        assert found.alive, f"{pipeline} does not run"
        return found

    def _moment(self) -> None:
        """Something may happen here: a crash, an error, batches of others."""
        self.bomb.tick()
        self.go_on(self.choose.randint(0, 2))

    # --- the steps ----------------------------------------------------------------------------

    def channel_end(self, operator: str) -> int:
        return len(self.disk.channels.get(operator, []))

    def empty(self, pipeline: str, inside: tuple[str, ...], instances: int, final: bool) -> None:
        self._moment()
        running = self._alive(pipeline)
        assert instances >= 1
        for upstream in inside:
            feeding = self.wiring.plan.pipeline_of(upstream).name
            assert not self.pipelines[feeding].alive, f"{upstream} still writes"
        entries = pipeline_graph.inputs(self.graph, running.spec.operators)
        while any(
            e.upstream in inside and self.positions(running)[e.key] < self._end(e) for e in entries
        ):
            self.batch(running)
        running.open = False

    def stop(self, pipeline: str) -> Mapping[str, int]:
        self._moment()
        running = self.pipelines[pipeline]
        assert not running.open
        running.alive = False
        return self.positions(running)

    def resume(self, pipeline: str) -> None:
        self._moment()
        running = self.pipelines.get(pipeline)
        if running is not None:
            running.open = running.alive = True

    def keep_rows(self, pipeline: str) -> None:
        self._moment()
        running = self._alive(pipeline)
        entries = pipeline_graph.inputs(self.graph, running.spec.operators)
        positions = self.positions(running)
        self.kept[pipeline] = {e.upstream: positions[e.key] for e in entries if e.upstream}

    def release_rows(self, pipeline: str) -> None:
        self.kept.pop(pipeline, None)

    def copy_checkpoint(self, pipeline: str, checkpoint: str) -> Mapping[str, int]:
        self._moment()
        running = self._alive(pipeline)
        found = copy.deepcopy(self.disk.checkpoints[running.wired.checkpoint])
        self.disk.checkpoints[checkpoint] = found
        return self.positions(running)

    def start_successor(self, spec: Pipeline, wired: Wired) -> None:
        self._moment()
        self._alive(spec.name)
        found = self.disk.checkpoints[wired.checkpoint].partitions
        assert found in (None, wired.partitions)
        self.successors.setdefault(spec.name, Running(spec, wired, delivers=False))
        self.catch_up(spec.name, self.positions(self.pipelines[spec.name]))

    def catch_up(self, pipeline: str, positions: Mapping[str, int]) -> None:
        self._moment()
        goal, successor = positions, self.successors[pipeline]
        while self.batch(successor, until=goal):
            self.go_on(1)
        now = self.positions(successor)
        assert now == {key: goal[key] for key in now}

    def stop_successor(self, spec: Pipeline, epoch: int) -> None:
        self._moment()
        self.successors.pop(spec.name, None)

    def repartition(self, checkpoint: str, partitions: int, guarded: bool) -> bool:
        self._moment()
        if checkpoint in self.disk.copies:
            self.restore(checkpoint)
        found = self.disk.checkpoints.get(checkpoint)
        if found is None or found.partitions in (None, partitions):
            return False
        at_rest = [p for p in self.pipelines.values() if p.wired.checkpoint == checkpoint]
        assert not any(p.alive for p in at_rest), f"{checkpoint} is in use"
        if guarded:
            self.disk.copies[checkpoint] = copy.deepcopy(found)
        found.torn = True
        self.bomb.tick()
        found.partitions, found.torn = partitions, False
        return True

    def restore(self, checkpoint: str) -> None:
        self._moment()
        if checkpoint in self.disk.copies:
            self.disk.checkpoints[checkpoint] = self.disk.copies.pop(checkpoint)

    def discard(self, checkpoint: str) -> None:
        self._moment()
        used = [*self.pipelines.values(), *self.successors.values()]
        assert not any(p.wired.checkpoint == checkpoint for p in used), f"{checkpoint} is in use"
        self.disk.checkpoints.pop(checkpoint, None)

    def discard_copy(self, checkpoint: str) -> None:
        self._moment()
        self.disk.copies.pop(checkpoint, None)

    def commit(self, wiring: Wiring) -> None:
        self._moment()
        assert wiring.number == self.wiring.number + 1
        self.disk.wiring = wiring
        self.bomb.tick()
        for name, running in [*self.pipelines.items()]:
            if wiring.pipelines.get(name) != running.wired:
                assert not running.alive, f"{name} still runs"
                del self.pipelines[name]
        for spec in wiring.plan.pipelines:
            wired = wiring.pipelines[spec.name]
            if spec.name not in self.pipelines:
                found = self.successors.get(spec.name)
                opened = found if found is not None and found.wired == wired else None
                self.pipelines[spec.name] = opened or Running(spec, wired)
                self.pipelines[spec.name].alive = opened is not None

    def start(self, pipeline: str) -> None:
        self._moment()
        self.pipelines[pipeline].alive = True

    def switch_over(self, pipeline: str) -> None:
        self._moment()
        self.successors.pop(pipeline, None)
        self.pipelines[pipeline].delivers = True

    def adjust(self, spec: Pipeline) -> None:
        self._moment()
        self._alive(spec.name).settings = self.pipelines[spec.name].spec = spec

    def add_executors(self, total: int) -> None:
        self._moment()
        self.disk.executors = max(total, self.disk.executors)

    def remove_executors(self, total: int, leaving: tuple[str, ...]) -> None:
        self._moment()
        self.disk.executors = min(total, self.disk.executors)

    def spread_state(self, pipeline: str) -> bool:
        self._moment()
        self._alive(pipeline)
        return True

    # --- what must hold -----------------------------------------------------------------------

    def check_whole(self) -> None:
        """All of one wiring runs, each state is there once, and nothing is left of a change."""
        specs = {spec.name: spec for spec in self.wiring.plan.pipelines}
        assert self.pipelines.keys() == specs.keys()
        for name, running in self.pipelines.items():
            assert (running.alive, running.open, running.delivers) == (True, True, True), name
            assert running.wired == self.wiring.pipelines[name]
            assert running.settings == specs[name]
            operator = pipeline_graph.stateful(self.graph, specs[name].operators)
            if operator is not None and operator.keys:
                assert running.wired.partitions >= specs[name].parallelism
                assert specs[name].ceiling in (None, running.wired.partitions)
        assert not self.disk.copies
        assert not self.successors
        assert not self.kept
        assert self.disk.executors == self.wiring.plan.executors
        named = {wired.checkpoint: wired for wired in self.wiring.pipelines.values()}
        for name, found in self.disk.checkpoints.items():
            assert not found.torn
            if wirings.is_disposable(name):
                assert name in named, f"{name} is left over"
            if name.startswith("state-"):
                assert found.partitions in (None, named[name].partitions)
        for operator in self._stateful():
            holders = [n for n in self.disk.checkpoints if n.split("-0")[0] == f"state-{operator}"]
            assert len(holders) <= 1, holders

    def check_rows(self) -> None:
        """After `finish`: every sink and every state has each row of each path to it once."""
        paths: dict[str, Counter[str]] = {}
        for name in self.graph.topological:
            operator = self.graph[name]
            if not operator.inputs:
                paths[name] = Counter({name: 1})
            else:
                paths[name] = sum((paths[i] for i in operator.inputs), Counter())
        for sink in self.graph.sinks:
            expected = _rows(paths[sink.name])
            assert Counter(self.disk.sinks.get(sink.name, [])) == expected, sink.name
        for operator in self._stateful():
            held = self.wiring.pipelines[self.wiring.plan.pipeline_of(operator.name).name]
            assert self.disk.checkpoints[held.checkpoint].seen == _rows(paths[operator.name])

    def _stateful(self) -> Iterator[Operator]:
        return (operator for operator in self.graph.operators if operator.stateful)


def _rows(paths: Counter[str]) -> Counter[Row]:
    return Counter({(source, row): n for source, n in paths.items() for row in range(ROWS)})
