"""A dataflow under a plan on a simulated cluster, advanced step by step."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import Load
from penstock.engines.simulator import network as net
from penstock.engines.simulator.arrivals import SimulatedSource
from penstock.engines.simulator.back_pressure import Admission, limits
from penstock.engines.simulator.batch_time import SlotPool
from penstock.engines.simulator.continuous import RunningPipeline
from penstock.engines.simulator.executors import (
    Move,
    Placement,
    memory_use,
    moves,
    packed,
    place,
    slowdown,
)
from penstock.engines.simulator.measurement import Ages, LatencyGauge
from penstock.engines.simulator.microbatch import BatchPipeline, work_through
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.network import Network
from penstock.engines.simulator.operator_work import Inlet, OperatorCounts, PipelineWork
from penstock.engines.simulator.queues import Floats
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.shared.topology import Topology

_MOST = 100_000
"""Records at a pipeline or operator in one step: bounds memory and keeps arrays in caches."""

_FINEST = 0.01

_LARGE = 31 << 20
"""Size in bytes of an array that makes glibc keep freed memory."""


class Simulation:
    """The state of a simulated flow; times are seconds since the start of the run."""

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
        # Each step frees its arrays and the next one allocates them again. glibc would return them
        # to the system each time, a fifth of all time, unless a larger one has been freed before.
        np.empty(_LARGE, np.uint8)
        self.graph = graph
        model = _whole_sinks(model, graph)
        self.model = model
        self.window = window
        self.now = 0.0
        self.closed = False  # sources were told to stop
        self._loads = loads
        self._step, self._finest = step, finest
        self._seed = seed + (resumed << 32)
        self.sources = {
            o.name: SimulatedSource(
                o.name, loads[o.name], model.arrivals, seed, (), (most or {}).get(o.name)
            )
            for o in graph.sources
        }
        self.network = Network(graph, model.delay, self.sources, model.between)
        self.counts = OperatorCounts(model, graph.topological, seed + (resumed << 32))
        self.latency = {c.name: LatencyGauge(c) for c in graph.constraints}
        self.delivered: Counter[str] = Counter()
        self.pipelines: dict[str, RunningPipeline] = {}  # in topological order
        self.placement = Placement(())
        self.plan: Plan
        self._leftover: list[RunningPipeline] = []  # removed pipelines with unfinished records
        self._streams: dict[str, np.random.Generator] = {}
        self._admission: Admission
        self._fans = np.ones((1, len(self.sources)))  # records caused by one of each source
        self._topology: Topology

    # --- plans --------------------------------------------------------------------------------

    def placed(self, plan: Plan) -> Placement:
        """Where the instances of a plan would be placed."""
        if self.pipelines:
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
        """Cores that the instances of each pipeline kept busy over the window."""
        found = {}
        for name, pipeline in self.pipelines.items():
            sums = pipeline.gauge.window()
            busy = pipeline.wants(sums.busy / max(sums.seconds, 1e-12))
            found[name] = float(busy.sum())
        return found

    def moves(self, after: Placement) -> dict[str, Move]:
        """The moves that another placement would cause."""
        state = {name: self.state(pipeline) for name, pipeline in self.pipelines.items()}
        batched = self.model.batch is not None
        return moves(self.placement, after, state, self.model.timing, batched=batched)

    def switch(
        self,
        plan: Plan,
        pauses: Mapping[str, float] | None = None,
        moves: Mapping[str, Move] | None = None,
    ) -> None:
        """Change to a plan; pauses: seconds for which pipelines of it stand still."""
        same = set(self.plan.pipelines) & set(plan.pipelines) if self.pipelines else set()
        old = {p.spec: p for p in self.pipelines.values()}
        gone = [p for spec, p in old.items() if spec not in same]
        for pipeline in gone:
            pipeline.stop(self.now)
        self.placement = self.placed(plan)
        self._topology = Topology(self.graph, plan)
        self.pipelines = {}
        for name, spec in self._topology.pipelines.items():
            kept = old.get(spec)
            self.pipelines[name] = kept if kept is not None else self._new_pipeline(spec, plan)
            self.pipelines[name].outlets = self._outlets(self.pipelines[name].work, plan)
            if self.model.batch is None:
                shipped = self.network.gathers_by_channel(spec, plan)
                self.pipelines[name].servers.cadence = 0.0 if shipped else spec.cadence
        tails = {p.work.tail: p for p in self.pipelines.values()}
        for pipeline in gone:
            heir = tails.get(pipeline.work.tail)
            if heir is not None:
                heir.inherit(pipeline)
            else:
                pipeline.outlets = self._outlets(pipeline.work, plan)
                self._leftover.append(pipeline)
        self._deliver_to_fused_sinks()
        for name, source in self.sources.items():
            source.births = net.begins(self.graph, plan, name)
        for name, pause in (pauses or {}).items():
            self.pipelines[name].servers.hold(self.now + pause)
        for name, move in (moves or {}).items():
            self.pipelines[name].move(self.now, move.instances, move.pause)
        for name, hosts in self.placement.hosts.items():
            for executor, until in self.placement.starting.items():
                there = hosts == self.placement.executors.index(executor)
                self.pipelines[name].servers.hold(until, np.flatnonzero(there))
        self.plan = plan
        upstream, continuous = self._topology.upstream, self.model.batch is None
        queue = self.model.queue
        self._admission = Admission(self.pipelines, upstream, queue, continuous=continuous)
        self._fan_out()
        for pipeline in self.pipelines.values():
            pipeline.servers.slow = None
            pipeline.gauge.clear()
        batched = {n: p for n, p in self.pipelines.items() if isinstance(p, BatchPipeline)}
        pool = SlotPool(*self._capacity(), self.now)
        for name, pipeline in batched.items():
            pipeline.pool = pool
            pipeline.readers = [batched[reader] for reader in self._topology.downstream[name]]

    def _capacity(self) -> tuple[int, float]:
        """Number of slots and processors of all executors that are there."""
        node, there = self.model.node, self.placement.present
        return there * node.cores, there * (node.processors or 0.0)

    def _fan_out(self) -> None:
        """Records that one record of each source causes at each pipeline.

        The rows bound them from above: one for all sources together, and one for each pipeline.
        """
        out: dict[str, Floats] = {}
        peaks = [np.ones(len(self._loads))]
        for name, pipeline in self.pipelines.items():
            own = [float(source in pipeline.spec.operators) for source in self._loads]
            comes = sum((out[up] for up in self._topology.upstream[name]), np.array(own))
            paths = [pipeline.work.visits(inlet.entry) for inlet in pipeline.open_inlets]
            peaks.append(comes * max(map(max, paths)))
            out[name] = comes * max(path[-1] for path in paths)
        self._fans = np.array(peaks)

    def _deliver_to_fused_sinks(self) -> None:
        """Deliver rows queued for a sink that is now fused with its writer."""
        for pipeline in self.pipelines.values():
            for sink in pipeline.work.sinks:
                if sink != pipeline.work.tail:
                    waited = self.network.queues[pipeline.work.tail, sink].take(math.inf)
                    self.delivered[sink] += len(waited)
                    self.counts.seen[sink] += len(waited)
                    self.counts.made[sink] += len(waited)

    def _new_pipeline(self, spec: Pipeline, plan: Plan) -> RunningPipeline:
        graph = self.graph
        work = PipelineWork(graph, spec, self.counts)
        edges = [
            (upstream, name)
            for name in spec.operators
            if name not in work.sinks or name == work.tail
            for upstream in graph[name].inputs or (name,)
        ]
        inlets = [Inlet(e[1], self.network.inlet(e), e[0]) for e in dict.fromkeys(edges)]
        ends = frozenset(c.name for c in graph.constraints if c.last in spec.operators)
        stream = self._stream(spec.name)
        if self.model.batch is None:
            return RunningPipeline(work, inlets, (), self.model, self.now, stream, ends)
        return BatchPipeline(work, inlets, (), self.model, self.now, stream, ends)

    def _outlets(self, work: PipelineWork, plan: Plan) -> tuple[net.Outlet, ...]:
        readers = self.graph.successors[work.tail]
        out = [r for r in readers if r not in work.sinks]
        rng = None if self.model.batch is not None else self._stream(f"{work.tail} ships")
        return tuple(self.network.outlet((work.tail, r), plan, self.placement, rng) for r in out)

    def delay(self, inlet: Inlet) -> float:
        """Mean seconds on the way to an inlet that another pipeline feeds."""
        return self.network.delay((inlet.writer, inlet.entry), self.plan, self.placement)

    def _stream(self, name: str) -> np.random.Generator:
        if name not in self._streams:
            words = [self._seed, zlib.crc32(name.encode()), 1]
            self._streams[name] = np.random.Generator(np.random.SFC64(words))
        return self._streams[name]

    # --- time ---------------------------------------------------------------------------------

    def advance(self, until: float) -> None:
        """Advance to a time; steps end at the same times whenever it is called."""
        while self.now < until:
            awaited = min(self.placement.starting.values(), default=math.inf)
            self.step(min(until, self._end(), awaited))

    def step(self, end: float) -> None:
        """Advance by one step."""
        begin = self.now
        for pipeline in self._leftover:
            self._note(pipeline, pipeline.let_out(end), end)
        self._leftover = [p for p in self._leftover if len(p)]
        pipelines = list(self.pipelines.values())
        most = limits(pipelines, self._topology.downstream, begin, end)
        self._admission.restrict(most)
        batched = [pipeline for pipeline in pipelines if isinstance(pipeline, BatchPipeline)]
        found = work_through(batched, begin, end, most) if batched else {}
        for pipeline in pipelines:
            name = pipeline.spec.name
            left = found[name] if name in found else pipeline.run(begin, end, most[name])
            self._note(pipeline, left, end)
            pipeline.gauge.close(end, self.window)
        self.now = end
        if min(self.placement.starting.values(), default=math.inf) <= end:
            self._add_replacements()
        self._contend(end - begin)

    def _note(
        self, pipeline: RunningPipeline, latencies: Mapping[str, Sequence[Ages]], end: float
    ) -> None:
        for name, ages in latencies.items():
            self.latency[name].add(end, ages)
        self.delivered.update(pipeline.delivered)
        pipeline.delivered.clear()

    def _end(self) -> float:
        """End of the next step; it is short if records are many or queues are filling up."""
        step = self._step
        rate = float((self._fans @ [load.rate(self.now) for load in self._loads.values()]).max())
        if rate * step > _MOST:
            step = _MOST / rate
        for pipeline in self.pipelines.values():
            if pipeline.bound is not None:
                full = pipeline.bound * pipeline.mean()
                filling = float(pipeline.servers.free.max()) - self.now > full / 2
                if full < 2 * step and (filling or pipeline.blocked):
                    step = max(self._finest, full / 2)
        if self._admission.limits:
            step = max(_FINEST, min(step, self._admission.quarter()))
        grid = math.floor(self.now / step + 1e-6) * step
        end = grid + step if grid + step > self.now else grid + 2 * step
        return max(end, self.next_departure()) if self.closed else end

    def next_departure(self) -> float:
        """When a record next leaves or enters a pipeline if no input arrives.

        Nothing changes before that, however long it takes. The current time if nothing is known to
        come.
        """
        times = [
            pipeline.next_departure(self.now)
            for pipeline in (*self.pipelines.values(), *self._leftover)
        ]
        times += [q.first() for q in self.network.queues.values() if q.first() > self.now]
        found = min(times, default=math.inf)
        return found if found < math.inf else self.now

    def _contend(self, seconds: float) -> None:
        """Slow down instances for the next step by the contention in this one."""
        node = self.model.node
        shared = self.model.batch is not None and node.processors is not None
        state = {name: self.state(pipeline)[1] for name, pipeline in self.pipelines.items()}
        crowded = self.plan.slots > node.cores * self.placement.present
        crowded = crowded or int(self.placement.loads().max()) > node.cores
        crowded = crowded and not shared  # `batch_time` models shared processors
        if not (crowded or node.interference or any(state.values())):
            return
        wanted = {}
        for name, pipeline in self.pipelines.items():
            sums = pipeline.gauge.latest
            assert sums is not None
            share = np.minimum(sums.busy / max(sums.seconds, 1e-12), 1.0)
            wanted[name] = pipeline.wants(share)
        factor, _ = slowdown(self.placement, wanted, state, node, shared=shared)
        weight = min(1.0, seconds / self._step)  # one short step must not dominate
        for name, pipeline in self.pipelines.items():
            before = 1.0 if pipeline.servers.slow is None else pipeline.servers.slow
            now = 1.0 + pipeline.work.cpu * (factor[self.placement.hosts[name]] - 1.0)
            slow = before + weight * (now - before)
            pipeline.servers.slow = None if bool(np.all(slow == 1.0)) else slow

    # --- contents -----------------------------------------------------------------------------

    def state(self, pipeline: RunningPipeline) -> tuple[int, float]:
        """Rows and bytes of state of a pipeline."""
        name = pipeline.work.stateful
        if name is None:
            return 0, 0.0
        keys = self.model.cost(name).keys
        rows = keys.seen(self.counts.seen[name]) if pipeline.work.keyed else 1
        return rows, rows * keys.bytes

    def memory(self) -> Floats:
        """Share of its memory that each executor needs for state; above 1 it spills."""
        state = {name: self.state(pipeline)[1] for name, pipeline in self.pipelines.items()}
        return memory_use(self.placement, state, self.model.node)

    @property
    def in_flight(self) -> int:
        """Number of records taken from a source that are not processed completely."""
        inside = sum(map(len, self.pipelines.values())) + sum(map(len, self._leftover))
        return inside + len(self.network)

    def close_sources(self) -> None:
        """Stop taking records from outside."""
        self.closed = True
        for source in self.sources.values():
            source.close(self.now)
        for pipeline in self.pipelines.values():
            pipeline.draining = True

    def put_back(self) -> None:
        """Give back all records that have not left, as when the process ends."""
        for pipeline in (*self.pipelines.values(), *self._leftover):
            pipeline.stop(self.now, begun_too=True)
        self._leftover = []

    def lose(self, executor: str, until: float) -> None:
        """Remove an executor; its replacement arrives at `until`."""
        self._use(self.placement.without(executor, until))

    def _add_replacements(self) -> None:
        """Executors that replace lost ones are there, and get their share of what runs."""
        there = self.placement.at(self.now)
        there = there if self.model.stays else there.balanced()
        moves = self.moves(there)
        self._use(there)
        for name, pipeline in self.pipelines.items():
            pipeline.servers.slow = None
            if name in moves:
                pipeline.move(self.now, moves[name].instances, moves[name].pause)

    def _use(self, placement: Placement) -> None:
        """Use another placement under the same plan."""
        self.placement = placement.at(self.now)
        for pipeline in self.pipelines.values():
            pipeline.outlets = self._outlets(pipeline.work, self.plan)
            if isinstance(pipeline, BatchPipeline):
                pipeline.pool.resize(*self._capacity(), self.now)

    def fail(self, pipeline: str, servers: Sequence[int], until: float) -> int:
        """Break instances of a pipeline until a time; returns the rows to process again."""
        return self.pipelines[pipeline].fail(self.now, np.array(servers, np.intp), until)


def _whole_sinks(model: Model, graph: Graph) -> Model:
    """Give sinks selectivity 1: every row that reaches a sink is delivered."""
    sinks = {o.name: replace(model.cost(o.name), selectivity=1.0) for o in graph.sinks}
    return replace(model, costs={**model.costs, **sinks})
