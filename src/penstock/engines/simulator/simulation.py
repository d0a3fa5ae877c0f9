"""A dataflow under a plan on a simulated cluster, moved on step by step."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import Load
from penstock.engines.simulator import network as net
from penstock.engines.simulator.back_pressure import limits
from penstock.engines.simulator.batch_time import Pool
from penstock.engines.simulator.continuous import Stage
from penstock.engines.simulator.latency import Ages, LatencyGauge
from penstock.engines.simulator.machines import (
    Move,
    Placement,
    moves,
    packed,
    place,
    slowdown,
    used,
)
from penstock.engines.simulator.microbatch import BatchStage, work_through
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.network import Network
from penstock.engines.simulator.operator_work import Ledger, Work
from penstock.engines.simulator.records_in_hand import Inlet
from penstock.engines.simulator.source import Source
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.shared.topology import Topology

_MOST = 100_000
"""Records that come to a pipeline in one step, or go through an operator of it, so that memory is
bounded and caches are not left."""

_FINEST = 0.01

_LARGE = 31 << 20
"""Bytes of the array with which glibc is told to keep what is freed."""


class Simulation:
    """Everything that moves. Times are seconds since the start of the run."""

    def __init__(
        self,
        graph: Graph,
        model: Model,
        loads: Mapping[str, Load],
        seed: int,
        *,
        step: float = 1.0,
        finest: float = _FINEST,
        window: float = 5.0,
        most: Mapping[str, int | None] | None = None,
        resumed: int = 0,
    ) -> None:
        # The arrays of a step are freed and asked for again in the next. glibc gives them back to
        # the system each time, a fifth of all time, until it has seen a larger one being freed.
        np.empty(_LARGE, np.uint8)
        self.graph = graph
        model = _whole_sinks(model, graph)
        self.model = model
        self.window = window
        self.now = 0.0
        self.closed = False  # whether sources were told to stop
        self._loads = loads
        self._step, self._finest = step, finest
        self._seed = seed + (resumed << 32)
        self.sources = {
            o.name: Source(
                o.name, loads[o.name], model.arrivals, seed, (), (most or {}).get(o.name)
            )
            for o in graph.sources
        }
        self.network = Network(graph, model.delay, self.sources, model.between)
        self.ledger = Ledger(model, graph.topological, seed + (resumed << 32))
        self.latency = {c.name: LatencyGauge(c) for c in graph.constraints}
        self.delivered: Counter[str] = Counter()
        self.stages: dict[str, Stage] = {}  # each after those that feed it
        self.placement = Placement(())
        self.plan: Plan
        self._leftover: list[Stage] = []  # stages that are gone but for what they had begun
        self._streams: dict[str, np.random.Generator] = {}
        self._pending: dict[str, int] = {}  # what sources admit to the flow, by pipeline
        self._made: dict[str, float] = {}  # records of each pipeline for one of the sources
        self._fans = np.ones((1, len(self.sources)))  # what comes of a record of each source
        self._topology: Topology

    # --- plans --------------------------------------------------------------------------------

    def placed(self, plan: Plan) -> Placement:
        """Where the instances of a plan would be."""
        if self.stages:
            model = self.model
            return place(
                self.placement,
                plan,
                stays=model.stays,
                drawn=model.drawn,
                anew=model.anew,
                work=self._work() if model.by_load else None,
                room=model.node.room,
            )
        return packed(plan) if self.model.packed else place(None, plan)

    def _work(self) -> dict[str, float]:
        """Cores that the instances of each pipeline have kept busy over the window."""
        found = {}
        for name, stage in self.stages.items():
            spell = stage.gauge.window()
            busy = stage.wants(spell.busy / max(spell.seconds, 1e-12))
            found[name] = float(busy.sum())
        return found

    def moves(self, after: Placement) -> dict[str, Move]:
        """What would move if instances were placed otherwise."""
        state = {name: self.state(stage) for name, stage in self.stages.items()}
        batched = self.model.batch is not None
        return moves(self.placement, after, state, self.model.timing, batched=batched)

    def switch(
        self,
        plan: Plan,
        pauses: Mapping[str, float] | None = None,
        moves: Mapping[str, Move] | None = None,
    ) -> None:
        """Go over to a plan; pauses: seconds for which pipelines of it stand still."""
        same = set(self.plan.pipelines) & set(plan.pipelines) if self.stages else set()
        old = {s.pipeline: s for s in self.stages.values()}
        gone = [s for p, s in old.items() if p not in same]
        for stage in gone:
            stage.stop(self.now)
        self.placement = self.placed(plan)
        self._topology = Topology(self.graph, plan)
        self.stages = {}
        for name, pipeline in self._topology.pipelines.items():
            kept = old.get(pipeline)
            self.stages[name] = kept if kept is not None else self._stage(pipeline, plan)
            self.stages[name].outlets = self._outlets(self.stages[name].work, plan)
            if self.model.batch is None:
                shipped = self.network.in_channels(pipeline, plan)
                self.stages[name].servers.cadence = 0.0 if shipped else pipeline.cadence
        tails = {s.work.tail: s for s in self.stages.values()}
        for stage in gone:
            heir = tails.get(stage.work.tail)
            if heir is not None:
                heir.inherit(stage)
            else:
                stage.outlets = self._outlets(stage.work, plan)
                self._leftover.append(stage)
        self._deliver_what_waits_inside()
        for name, source in self.sources.items():
            source.births = net.begins(self.graph, plan, name)
        for name, pause in (pauses or {}).items():
            self.stages[name].servers.hold(self.now + pause)
        for name, move in (moves or {}).items():
            self.stages[name].move(self.now, move.instances, move.pause)
        for name, hosts in self.placement.hosts.items():
            for executor, until in self.placement.starting.items():
                there = hosts == self.placement.executors.index(executor)
                self.stages[name].servers.hold(until, np.flatnonzero(there))
        self.plan = plan
        self._admit()
        self._fan_out()
        for stage in self.stages.values():
            stage.servers.slow = None
            stage.gauge.clear()
        batched = {n: s for n, s in self.stages.items() if isinstance(s, BatchStage)}
        pool = Pool(*self._slots(), self.now)
        for name, stage in batched.items():
            stage.pool = pool
            stage.readers = [batched[reader] for reader in self._topology.downstream[name]]

    def _slots(self) -> tuple[int, float]:
        """Slots and processors of all executors that are there."""
        node, there = self.model.node, self.placement.present
        return there * node.cores, there * (node.processors or 0.0)

    def _admit(self) -> None:
        """Where sources admit so many records to the flow, no more than these wait anywhere."""
        sources = [s for s in self.stages.values() if not self._topology.upstream[s.pipeline.name]]
        self._made = {}
        self._pending = {}
        if self.model.batch is None and all(s.pipeline.admission for s in sources):
            self._pending = {s.pipeline.name: s.pipeline.admission or 0 for s in sources}
        pending = sum(self._pending.values())
        for name, stage in self.stages.items():
            feeds = [self.stages[up] for up in self._topology.upstream[name]]
            made = (self._made[f.pipeline.name] * max(f.work.gain.values()) for f in feeds)
            self._made[name] = sum(made) if feeds else 1 / len(sources)
            stage.bound = self.model.queue
            if pending and feeds:
                each = max(1, math.ceil(pending * self._made[name] / stage.instances))
                stage.bound = each if stage.bound is None else min(stage.bound, each)

    def _fan_out(self) -> None:
        """How many records come of one of each source: of all together, and the most anywhere."""
        out: dict[str, npt.NDArray[np.float64]] = {}
        peaks = [np.ones(len(self._loads))]
        for name, stage in self.stages.items():
            own = [float(source in stage.pipeline.operators) for source in self._loads]
            comes = sum((out[up] for up in self._topology.upstream[name]), np.array(own))
            ways = [stage.work.visits(inlet.entry) for inlet in stage.ways]
            peaks.append(comes * max(map(max, ways)))
            out[name] = comes * max(way[-1] for way in ways)
        self._fans = np.array(peaks)

    def _deliver_what_waits_inside(self) -> None:
        """A sink that is fused with what it reads has no queue of its own any more."""
        for stage in self.stages.values():
            for sink in stage.work.sinks:
                if sink != stage.work.tail:
                    waited = self.network.queues[stage.work.tail, sink].take(math.inf)
                    self.delivered[sink] += len(waited)
                    self.ledger.seen[sink] += len(waited)
                    self.ledger.made[sink] += len(waited)

    def _stage(self, pipeline: Pipeline, plan: Plan) -> Stage:
        graph = self.graph
        work = Work(graph, pipeline, self.ledger)
        edges = [
            (upstream, name)
            for name in pipeline.operators
            if name not in work.sinks or name == work.tail
            for upstream in graph[name].inputs or (name,)
        ]
        inlets = [Inlet(e[1], self.network.inlet(e), e[0]) for e in dict.fromkeys(edges)]
        ends = frozenset(c.name for c in graph.constraints if c.last in pipeline.operators)
        stream = self._stream(pipeline.name)
        if self.model.batch is None:
            return Stage(work, inlets, (), self.model, self.now, stream, ends)
        return BatchStage(work, inlets, (), self.model, self.now, stream, ends)

    def _outlets(self, work: Work, plan: Plan) -> tuple[net.Outlet, ...]:
        readers = self.graph.successors[work.tail]
        out = [r for r in readers if r not in work.sinks]
        rng = None if self.model.batch is not None else self._stream(f"{work.tail} ships")
        return tuple(self.network.outlet((work.tail, r), plan, self.placement, rng) for r in out)

    def delay(self, inlet: Inlet) -> float:
        """Seconds on the way to an inlet of those that are fed by another pipeline."""
        return self.network.delay((inlet.writer, inlet.entry), self.plan, self.placement)

    def _stream(self, name: str) -> np.random.Generator:
        if name not in self._streams:
            words = [self._seed, zlib.crc32(name.encode()), 1]
            self._streams[name] = np.random.Generator(np.random.SFC64(words))
        return self._streams[name]

    # --- time ---------------------------------------------------------------------------------

    def advance(self, until: float) -> None:
        """Let time pass. Steps begin at whole multiples of the step, whoever asks when."""
        while self.now < until:
            awaited = min(self.placement.starting.values(), default=math.inf)
            self.step(min(until, self._end(), awaited))

    def step(self, end: float) -> None:
        """One step of time."""
        begin = self.now
        for stage in self._leftover:
            self._note(stage, stage.let_out(end), end)
        self._leftover = [s for s in self._leftover if len(s)]
        stages = list(self.stages.values())
        most = limits(stages, self._topology.downstream, begin, end)
        if self._pending:
            free = max(0.0, 1 - self._under_way() / sum(self._pending.values()))
            for name, pending in self._pending.items():
                known, room = most[name], math.ceil(free * pending)
                most[name] = room if known is None else min(room, known)
        batched = [stage for stage in stages if isinstance(stage, BatchStage)]
        found = work_through(batched, begin, end, most) if batched else {}
        for stage in stages:
            name = stage.pipeline.name
            left = found[name] if name in found else stage.run(begin, end, most[name])
            self._note(stage, left, end)
            stage.gauge.close(end, self.window)
        self.now = end
        if min(self.placement.starting.values(), default=math.inf) <= end:
            self._arrive()
        self._contend(end - begin)

    def _under_way(self) -> float:
        """Records in the flow, those that were made of one of a source's counted as one."""
        return sum(
            (len(stage) + stage.held_back()) / max(1.0, self._made[name])
            for name, stage in self.stages.items()
        )

    def _shortest(self) -> float:
        """Seconds in which the flow would do a quarter of what its sources admit."""
        times = (self._made[n] * s.mean() / s.instances for n, s in self.stages.items())
        return sum(self._pending.values()) * max(times) / 4

    def _note(self, stage: Stage, latencies: Mapping[str, Sequence[Ages]], end: float) -> None:
        for name, ages in latencies.items():
            self.latency[name].add(end, ages)
        self.delivered.update(stage.delivered)
        stage.delivered.clear()

    def _end(self) -> float:
        """The end of the next step: shorter where records are many or queues are filling up."""
        step = self._step
        rate = float((self._fans @ [load.rate(self.now) for load in self._loads.values()]).max())
        if rate * step > _MOST:
            step = _MOST / rate
        for stage in self.stages.values():
            if stage.bound is not None:
                full = stage.bound * stage.mean()
                filling = float(stage.servers.free.max()) - self.now > full / 2
                if full < 2 * step and (filling or stage.blocked):
                    step = max(self._finest, full / 2)
        if self._pending:
            step = max(_FINEST, min(step, self._shortest()))
        grid = math.floor(self.now / step + 1e-6) * step
        end = grid + step if grid + step > self.now else grid + 2 * step
        return max(end, self.next_departure()) if self.closed else end

    def next_departure(self) -> float:
        """When something leaves a pipeline, or comes to the next, if nothing comes from outside.

        Before that nothing changes, however long it takes; now, if nothing is known of what will.
        """
        times = [
            stage.next_departure(self.now) for stage in (*self.stages.values(), *self._leftover)
        ]
        times += [q.first() for q in self.network.queues.values() if q.first() > self.now]
        found = min(times, default=math.inf)
        return found if found < math.inf else self.now

    def _contend(self, seconds: float) -> None:
        """Instances on one executor slow each other down in the next step as in this one."""
        node = self.model.node
        shared = self.model.batch is not None and node.processors is not None
        state = {name: self.state(stage)[1] for name, stage in self.stages.items()}
        crowded = self.plan.slots > node.cores * self.placement.present
        crowded = crowded or int(self.placement.loads().max()) > node.cores
        crowded = crowded and not shared  # batches share processors themselves
        if not (crowded or node.interference or any(state.values())):
            return
        wanted = {}
        for name, stage in self.stages.items():
            spell = stage.gauge.latest
            assert spell is not None
            share = np.minimum(spell.busy / max(spell.seconds, 1e-12), 1.0)
            wanted[name] = stage.wants(share)
        factor, _ = slowdown(self.placement, wanted, state, node, shared=shared)
        weight = min(1.0, seconds / self._step)  # short steps come in bursts
        for name, stage in self.stages.items():
            before = 1.0 if stage.servers.slow is None else stage.servers.slow
            now = 1.0 + stage.work.cpu * (factor[self.placement.hosts[name]] - 1.0)
            slow = before + weight * (now - before)
            stage.servers.slow = None if bool(np.all(slow == 1.0)) else slow

    # --- what is in it ------------------------------------------------------------------------

    def state(self, stage: Stage) -> tuple[int, float]:
        """Rows and bytes of state of a pipeline."""
        name = stage.work.stateful
        if name is None:
            return 0, 0.0
        keys = self.model.step(name).keys
        rows = keys.seen(self.ledger.seen[name]) if stage.work.keyed else 1
        return rows, rows * keys.bytes

    def memory(self) -> npt.NDArray[np.float64]:
        """The share of its memory that each executor needs for state; above 1 it spills."""
        state = {name: self.state(stage)[1] for name, stage in self.stages.items()}
        return used(self.placement, state, self.model.node)

    @property
    def in_flight(self) -> int:
        """Records that were taken from a source and of which something has yet to be done."""
        inside = sum(map(len, self.stages.values())) + sum(map(len, self._leftover))
        return inside + len(self.network)

    def close_sources(self) -> None:
        """Take nothing more from outside."""
        self.closed = True
        for source in self.sources.values():
            source.close(self.now)
        for stage in self.stages.values():
            stage.draining = True

    def put_back(self) -> None:
        """Give back everything that has not left, as when the process ends."""
        for stage in (*self.stages.values(), *self._leftover):
            stage.stop(self.now, begun_too=True)
        self._leftover = []

    def lose(self, executor: str, until: float) -> None:
        """An executor is gone; another takes its place at a time."""
        self._place(self.placement.without(executor, until))

    def _arrive(self) -> None:
        """Executors are there that take the place of others, and get their share of what runs."""
        there = self.placement.at(self.now)
        there = there if self.model.stays else there.evened()
        moves = self.moves(there)
        self._place(there)
        for name, stage in self.stages.items():
            stage.servers.slow = None
            if name in moves:
                stage.move(self.now, moves[name].instances, moves[name].pause)

    def _place(self, placement: Placement) -> None:
        """Go over to other executors under the same plan."""
        self.placement = placement.at(self.now)
        for stage in self.stages.values():
            stage.outlets = self._outlets(stage.work, self.plan)
            if isinstance(stage, BatchStage):
                stage.pool.resize(*self._slots(), self.now)

    def fail(self, pipeline: str, servers: Sequence[int], until: float) -> int:
        """Break instances of a pipeline until a time; rows that have to be done again."""
        return self.stages[pipeline].fail(self.now, np.array(servers, np.intp), until)


def _whole_sinks(model: Model, graph: Graph) -> Model:
    """What a sink is given counts as delivered, whatever is said of its selectivity."""
    sinks = {o.name: replace(model.step(o.name), selectivity=1.0) for o in graph.sinks}
    return replace(model, steps={**model.steps, **sinks})
