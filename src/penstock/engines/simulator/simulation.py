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
from penstock.engines.simulator import network as net
from penstock.engines.simulator.gauge import LatencyGauge
from penstock.engines.simulator.jobs import Inlet
from penstock.engines.simulator.microbatch import BatchStage
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.network import Network
from penstock.engines.simulator.node import Placement, place, slowdown
from penstock.engines.simulator.pressure import limits
from penstock.engines.simulator.source import Source
from penstock.engines.simulator.stage import Stage
from penstock.engines.simulator.work import Ledger, Work
from penstock.models.load import Load
from penstock.models.topology import Topology
from penstock.plan.plan import Pipeline, Plan

_MOST = 100_000
"""Records from outside in one step, so that memory is bounded and caches are not left."""

_FINEST = 0.01


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
        window: float = 5.0,
        most: Mapping[str, int | None] | None = None,
        resumed: int = 0,
    ) -> None:
        self.graph = graph
        model = _whole_sinks(model, graph)
        self.model = model
        self.window = window
        self.now = 0.0
        self._loads = loads
        self._step = step
        self._seed = seed + (resumed << 32)
        self.sources = {
            o.name: Source(
                o.name, loads[o.name], model.arrivals, seed, (), (most or {}).get(o.name)
            )
            for o in graph.sources
        }
        self.network = Network(graph, model.delay, self.sources)
        self.ledger = Ledger(model, graph.topological, seed + (resumed << 32))
        self.latency = {c.name: LatencyGauge(c) for c in graph.constraints}
        self.delivered: Counter[str] = Counter()
        self.stages: dict[str, Stage] = {}  # each after those that feed it
        self.placement = Placement(())
        self.memory: npt.NDArray[np.float64] = np.zeros(0)
        self.plan: Plan
        self._leftover: list[Stage] = []  # stages that are gone but for what they had begun
        self._streams: dict[str, np.random.Generator] = {}
        self._topology: Topology

    # --- plans --------------------------------------------------------------------------------

    def switch(self, plan: Plan, pauses: Mapping[str, float] | None = None) -> None:
        """Go over to a plan; pauses: seconds for which pipelines of it stand still."""
        same = set(self.plan.pipelines) & set(plan.pipelines) if self.stages else set()
        old = {s.pipeline: s for s in self.stages.values()}
        gone = [s for p, s in old.items() if p not in same]
        for stage in gone:
            stage.stop(self.now)
        self.placement = place(self.placement if self.stages else None, plan)
        self.memory = np.zeros(plan.executors)
        self._topology = Topology(self.graph, plan)
        self.stages = {}
        for name, pipeline in self._topology.pipelines.items():
            kept = old.get(pipeline)
            self.stages[name] = kept if kept is not None else self._stage(pipeline, plan)
            self.stages[name].outlets = self._outlets(self.stages[name].work, plan)
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
        self.plan = plan
        for stage in self.stages.values():
            stage.servers.slow = None
            stage.gauge.clear()

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
        slots = plan.executors * self.model.node.cores
        return BatchStage(work, inlets, (), self.model, self.now, stream, ends, slots)

    def _outlets(self, work: Work, plan: Plan) -> tuple[net.Outlet, ...]:
        readers = self.graph.successors[work.tail]
        out = [r for r in readers if r not in work.sinks]
        return tuple(self.network.outlet((work.tail, reader), plan) for reader in out)

    def _stream(self, name: str) -> np.random.Generator:
        if name not in self._streams:
            words = [self._seed, zlib.crc32(name.encode()), 1]
            self._streams[name] = np.random.Generator(np.random.SFC64(words))
        return self._streams[name]

    # --- time ---------------------------------------------------------------------------------

    def advance(self, until: float) -> None:
        """Let time pass. Steps begin at whole multiples of the step, whoever asks when."""
        while self.now < until:
            self.step(min(until, self._end()))

    def step(self, end: float) -> None:
        """One step of time."""
        begin = self.now
        for stage in self._leftover:
            self._note(stage, stage.let_out(end), end)
        self._leftover = [s for s in self._leftover if len(s)]
        stages = list(self.stages.values())
        most = limits(stages, self._topology.downstream, begin, end, self.model.queue)
        for stage in stages:
            self._note(stage, stage.run(begin, end, most[stage.pipeline.name]), end)
            stage.gauge.close(end, self.window)
        self.now = end
        self._contend()

    def _note(
        self, stage: Stage, latencies: Mapping[str, npt.NDArray[np.float64]], end: float
    ) -> None:
        for name, ages in latencies.items():
            self.latency[name].add(end, ages)
        self.delivered.update(stage.delivered)
        stage.delivered.clear()

    def _end(self) -> float:
        """The end of the next step: shorter where records are many or queues are filling up."""
        step = self._step
        rate = sum(load.rate(self.now) for load in self._loads.values())
        if rate * step > _MOST:
            step = _MOST / rate
        bound = self.model.queue
        if bound is not None:
            for stage in self.stages.values():
                full = bound * stage.mean()
                if full < 2 * step and float(stage.servers.free.max()) - self.now > full / 2:
                    step = max(_FINEST, full / 2)
        grid = math.floor(self.now / step + 1e-6) * step
        return grid + step if grid + step > self.now else grid + 2 * step

    def _contend(self) -> None:
        """Instances on one executor slow each other down in the next step as in this one."""
        cores = self.model.node.cores
        state = {name: self.state(stage)[1] for name, stage in self.stages.items()}
        crowded = self.plan.slots > cores * self.plan.executors
        crowded = crowded or int(self.placement.loads().max()) > cores
        if not (crowded or self.model.node.interference or any(state.values())):
            return
        wanted = {}
        for name, stage in self.stages.items():
            spell = stage.gauge.latest
            assert spell is not None
            # Those at work share the cores. Slowed down they are at work for longer, so where more
            # work comes than the cores can do, they slow down until all of them always are.
            wanted[name] = np.minimum(spell.busy / max(spell.seconds, 1e-12), 1.0)
        factor, self.memory = slowdown(self.placement, wanted, state, self.model.node)
        for name, stage in self.stages.items():
            slow = factor[self.placement.hosts[name]]
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

    @property
    def in_flight(self) -> int:
        """Records that were taken from a source and of which something has yet to be done."""
        inside = sum(map(len, self.stages.values())) + sum(map(len, self._leftover))
        return inside + len(self.network)

    def close_sources(self) -> None:
        """Take nothing more from outside."""
        for source in self.sources.values():
            source.closed = True
        for stage in self.stages.values():
            stage.draining = True

    def put_back(self) -> None:
        """Give back everything that has not left, as when the process ends."""
        for stage in (*self.stages.values(), *self._leftover):
            stage.stop(self.now, begun_too=True)
        self._leftover = []

    def fail(self, pipeline: str, servers: Sequence[int], until: float) -> int:
        """Break instances of a pipeline until a time; rows that have to be done again."""
        return self.stages[pipeline].fail(self.now, np.array(servers, np.intp), until)


def _whole_sinks(model: Model, graph: Graph) -> Model:
    """What a sink is given counts as delivered, whatever is said of its selectivity."""
    sinks = {o.name: replace(model.step(o.name), selectivity=1.0) for o in graph.sinks}
    return replace(model, steps={**model.steps, **sinks})
