"""The in-memory engine: a fluid model of a dataflow.

It serves tests of flows and policies. Time passes only when `advance` is called. Records are
counted, not generated, and no function of an operator is called.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock import files
from penstock.dataflow import load_profile, validation
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.errors import Refused, RunDirectoryError
from penstock.metrics.snapshot import ChannelMetrics, PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.change import Change
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition

_STEP = Fraction(1, 10)

Edge = tuple[str, str]
"""Writer and reader of a queue; (s, s) holds rows offered to a source and not taken."""


class MemoryEngine:
    """An `Engine` whose operators are numbers.

    costs: seconds of an instance per record of an operator (default 0); selectivity: records out
    per record in (default 1; rows of all inputs count alike); rate: records per second offered to
    each source: a number, a function of time, or a load profile as text.

    Rows are whole: of n rows that an operator has seen, floor(n * selectivity) have come out,
    whatever the plan, so the number of rows at the sinks after a drain is exact. Queues are
    unbounded. A pipeline with an admission of 0 takes nothing until the drain; any other admission,
    cadence, ceiling or number of executors is accepted and has no effect.

    The window of a snapshot is the last `advance` (or drain); a change of plan empties it. The run
    directory is written by `start`, `apply` and `stop`, so a crash falls back to the last of them.
    """

    name = "memory"

    def __init__(
        self,
        costs: Mapping[str, float] | None = None,
        selectivity: Mapping[str, float] | None = None,
        rate: float | Callable[[float], float] | str = 1000.0,
    ) -> None:
        self._costs = {name: _exact(cost) for name, cost in (costs or {}).items()}
        self._selectivity = {name: _exact(s) for name, s in (selectivity or {}).items()}
        self._rate = load_profile.parse(rate).rate if isinstance(rate, str) else rate
        self._phase, self._drained = "new", False
        self._graph: Graph
        self._plan: Plan
        self._file: Path
        self._order: list[Pipeline]  # in topological order
        self._inlets: dict[str, dict[Edge, Fraction]]  # by pipeline: work that a row causes
        self._clock = Fraction(0)
        self._due: dict[str, Fraction] = defaultdict(Fraction)  # rows offered, with fractions
        self._seen: Counter[str] = Counter()  # rows that entered each operator
        self._queues: Counter[Edge] = Counter()
        self._spare: dict[str, Fraction] = defaultdict(Fraction)  # work spent on the next row
        self._new_window(Fraction(0))

    @property
    def plan(self) -> Plan:
        self._expect("running", "stopped")
        return self._plan

    def start(self, graph: Graph, plan: Plan | None, run_dir: Path) -> None:
        self._expect("new")
        validation.check(graph)
        kept = _kept(file := Path(run_dir) / "memory.json", graph)
        if plan is None:
            plan = Plan.from_json(kept["plan"]) if kept else fusion.default_plan(graph, 1)
        fusion.check(plan, graph)
        self._graph, self._file, self._phase = graph, file, "running"
        if kept:
            self._clock = Fraction(kept["clock"])
            self._due.update({name: Fraction(due) for name, due in kept["due"].items()})
            self._seen.update(kept["seen"])
            self._queues.update({(writer, reader): n for writer, reader, n in kept["queues"]})
        self._switch(plan)

    def apply(self, plan: Plan, reason: str = "") -> Transition:
        self._expect("running")
        fusion.check(plan, self._graph)
        change = Change(self._plan, plan)
        if change:
            self._switch(plan)
        return Transition(
            float(self._clock), tuple(map(str, change.actions)), 0.0, 0.0, reason, settled=True
        )

    def observe(self) -> Snapshot:
        self._expect("running", "stopped")
        sources = [o.name for o in self._graph.sources]
        sinks = {o.name: self._seen[o.name] for o in self._graph.sinks}
        return Snapshot(
            at=float(self._clock),
            window=float(self._window),
            rows_offered=sum(int(due) for due in self._due.values()),
            rows_ingested=sum(self._seen[name] for name in sources),
            rows_delivered=sum(sinks.values()),
            rows_dead=0,
            pipelines={p.name: self._metrics(p) for p in self._plan.pipelines},
            sinks=sinks,
            drained=self._drained,
            ending=self._phase == "stopped",
            source_pipelines=frozenset(self._plan.pipeline_of(name).name for name in sources),
            channels=self._channels(),
        )

    def _channels(self) -> dict[str, ChannelMetrics]:
        """Metrics of the edges between two pipelines."""
        home = {name: p.name for p in self._plan.pipelines for name in p.operators}
        return {
            f"{writer}>{reader}": ChannelMetrics(writer, reader, self._queues[writer, reader])
            for writer in self._graph.topological
            for reader in self._graph.successors[writer]
            if home[writer] != home[reader]
        }

    def stop(self, drain: bool = True) -> None:
        self._expect("running", "stopped")
        if self._phase == "stopped":
            return
        if drain:  # it takes as long as the slowest pipeline
            self._new_window(Fraction(0))
            for pipeline in self._order:
                self._work(pipeline, None)
            self._window = max(self._used[p.name] / p.parallelism for p in self._order)
            self._clock += self._window
        self._phase, self._drained = "stopped", drain
        self._save()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._expect("running")
        left = _exact(seconds)
        self._new_window(left)
        while left > 0:
            step = min(_STEP, left)
            rate = self._rate(float(self._clock + step / 2)) if callable(self._rate) else self._rate
            for source in self._graph.sources:
                before = int(self._due[source.name])
                self._due[source.name] += _exact(rate) * step
                self._queues[source.name, source.name] += int(self._due[source.name]) - before
            for pipeline in self._order:
                self._work(pipeline, self._spare[pipeline.name] + pipeline.parallelism * step)
            self._clock += step
            left -= step

    def _work(self, pipeline: Pipeline, budget: Fraction | None) -> None:
        """Take rows for at most `budget` seconds of work.

        None drains: all rows are taken, but nothing from outside.
        """
        cost = self._inlets[pipeline.name]
        waiting = {e: self._queues[e] for e in cost if budget is not None or e[0] != e[1]}
        if pipeline.admission == 0 and budget is not None:
            waiting = {}
        wanted = sum(rows * cost[edge] for edge, rows in waiting.items() if rows and cost[edge])
        taken, spent = waiting, wanted
        if budget is not None and wanted > budget:  # every queue gets the same share of its need
            share = budget / wanted
            taken = {e: int(rows * share) if cost[e] else rows for e, rows in waiting.items()}
            spent = sum(rows * cost[edge] for edge, rows in taken.items() if rows and cost[edge])
        self._used[pipeline.name] += spent
        self._rows_in[pipeline.name] += sum(taken.values())
        self._spare[pipeline.name] = budget - spent if budget and taken != waiting else Fraction(0)
        self._queues.subtract(taken)
        inflow: Counter[str] = Counter()
        for (_, name), rows in taken.items():
            inflow[name] += rows
        for name in pipeline.operators:
            factor = self._selectivity.get(name, 1)
            before = int(self._seen[name] * factor)
            self._seen[name] += inflow[name]
            out = int(self._seen[name] * factor) - before
            self._rows_out[name] += out
            for reader in self._graph.successors[name]:
                if reader in pipeline.operators:
                    inflow[reader] += out
                else:
                    self._queues[name, reader] += out

    def _switch(self, plan: Plan) -> None:
        """Change to a plan. Queues keep their rows, even if a merge makes them internal."""
        place = {name: at for at, name in enumerate(self._graph.topological)}
        self._plan = plan
        self._order = sorted(plan.pipelines, key=lambda p: place[self._tail(p)])
        self._inlets = {}
        for p in plan.pipelines:
            edges = [(i, name) for name in p.operators for i in self._graph[name].inputs or (name,)]
            self._inlets[p.name] = {edge: self._cost(edge[1], p) for edge in edges}
        self._spare.clear()
        self._new_window(Fraction(0))
        self._save()

    def _tail(self, pipeline: Pipeline) -> str:
        body = [n for n in pipeline.operators if self._graph[n].state is not State.SINK]
        return (body or pipeline.operators)[-1]

    def _cost(self, name: str, pipeline: Pipeline) -> Fraction:
        """Seconds of work caused by a row that enters the pipeline at an operator."""
        inside = [r for r in self._graph.successors[name] if r in pipeline.operators]
        behind = sum(self._cost(reader, pipeline) for reader in inside)
        return self._costs.get(name, Fraction(0)) + self._selectivity.get(name, 1) * behind

    def _new_window(self, seconds: Fraction) -> None:
        self._window = seconds
        self._used: dict[str, Fraction] = defaultdict(Fraction)
        self._waiting = self._queues.copy()
        self._rows_in: Counter[str] = Counter()
        self._rows_out: Counter[str] = Counter()

    def _metrics(self, pipeline: Pipeline) -> PipelineMetrics:
        name, window, p = pipeline.name, self._window, pipeline.parallelism
        rows_in, rows_out = self._rows_in[name], self._rows_out[self._tail(pipeline)]
        inlets, used = self._inlets[name].items(), self._used[name]
        arrived = rows_in + sum(self._queues[edge] - self._waiting[edge] for edge, _ in inlets)
        return PipelineMetrics(
            name=name,
            parallelism=p,
            rows_in=rows_in if window else None,
            rows_out=rows_out if window else None,
            rate_in=float(rows_in / window) if window else None,
            rate_out=float(rows_out / window) if window else None,
            arrival_rate=float(arrived / window) if window else None,
            service=float(used / rows_in) if rows_in else None,
            busy=float(used / (p * window)) if window else None,
            backlog_rows=sum(self._queues[edge] for edge, _ in inlets),
            backlog_seconds=float(sum(self._queues[edge] * cost for edge, cost in inlets) / p),
        )

    def _expect(self, *phases: str) -> None:
        if self._phase not in phases:
            raise Refused(f"the engine is {self._phase}; this needs one that is {phases[0]}")

    def _save(self) -> None:
        data = {
            "flow": self._graph.name,
            "fingerprint": self._graph.fingerprint,
            "plan": self._plan.to_json(),
            "clock": str(self._clock),
            "due": {name: str(due) for name, due in self._due.items()},
            "seen": self._seen,
            "queues": [[*edge, rows] for edge, rows in self._queues.items() if rows],
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(self._file, data)


def _kept(file: Path, graph: Graph) -> dict[str, Any]:
    """State saved by an earlier run of the same dataflow; empty if there is none."""
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if kept and kept["fingerprint"] != graph.fingerprint:
        owner = f"{file.parent} belongs to another dataflow or version, '{kept['flow']}'"
        raise RunDirectoryError(f"{owner}; use another run directory")
    return kept


@lru_cache(maxsize=1024)
def _exact(number: float) -> Fraction:
    """The number as written: 0.1 is a tenth, so that whole rows come out whole."""
    return Fraction(str(float(number)))
