"""Snapshots of a simulation, with the metrics that every engine has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.engines.simulator.continuous import RunningPipeline
from penstock.engines.simulator.measurement import WindowSums, variation
from penstock.engines.simulator.queues import Floats
from penstock.engines.simulator.simulation import Simulation
from penstock.metrics.snapshot import (
    ChannelMetrics,
    ExecutorMetrics,
    InstanceMetrics,
    LatencyMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)


def snapshot(
    sim: Simulation, *, settled: bool, drained: bool, slot_seconds: float, detail: int
) -> Snapshot:
    """Metrics of the window; lists up to `detail` instances of a pipeline."""
    sums_of = {name: pipeline.gauge.window() for name, pipeline in sim.pipelines.items()}
    pipelines = {n: _pipeline(sim, s, sums_of[n], detail) for n, s in sim.pipelines.items()}
    operators = {}
    for name, pipeline in sim.pipelines.items():
        operators.update(_operators(sim, pipeline, sums_of[name]))
    executors = _executors(sim, sums_of)
    slots = sim.placement.present * sim.model.node.cores
    at_work = sum(float(sums.busy.sum()) for sums in sums_of.values())
    seconds = max((sums.seconds for sums in sums_of.values()), default=0.0)
    return Snapshot(
        at=sim.now,
        window=seconds,
        rows_offered=sum(s.offered(sim.now) for s in sim.sources.values()),
        rows_ingested=sum(s.taken for s in sim.sources.values()),
        rows_delivered=sum(sim.delivered.values()),
        rows_dead=0,
        pipelines=pipelines,
        latency=_latency(sim),
        sinks={o.name: sim.delivered[o.name] for o in sim.graph.sinks},
        drained=drained,
        load=min(1.0, at_work / (seconds * slots)) if seconds and slots else None,
        source_pipelines=frozenset(sim.plan.pipeline_of(s).name for s in sim.sources),
        operators=operators,
        channels=_channels(sim, sums_of),
        executors=executors,
        settled=settled,
        ending=sim.closed,
        slot_seconds=slot_seconds,
    )


def _latency(sim: Simulation) -> dict[str, LatencyMetrics]:
    found = {name: gauge.window(sim.now) for name, gauge in sim.latency.items()}
    return {name: metrics for name, metrics in found.items() if metrics is not None}


def _pipeline(
    sim: Simulation, pipeline: RunningPipeline, sums: WindowSums, detail: int
) -> PipelineMetrics:
    seconds, done = sums.seconds, sum(sums.done.values())
    taken, batches = sums.taken, sums.batches
    backlog = pipeline.waiting(sim.now)
    busy = None
    if seconds:
        busy = min(1.0, sums.running / seconds) if sim.model.batch else _busy(sim, sums)
    # before the first measurement these keep their defaults, "not measured"
    flow: dict[str, Any] = {}
    if seconds:
        flow = {"rows_in": done, "rows_out": sums.out, **_rates(sim, pipeline, sums)}
    stateful = pipeline.work.stateful is not None
    rows, size = sim.state(pipeline)
    return PipelineMetrics(
        name=pipeline.spec.name,
        parallelism=pipeline.instances,
        batches=batches,
        **flow,
        arrival_rate=sums.arrived / seconds if seconds else None,
        service=sums.service / taken if taken else None,
        task_overhead=sums.overhead / sums.tasks if sums.tasks else None,
        service_cv=variation(taken, sums.service, sums.squares),
        arrival_cv=variation(sums.gaps, sums.gap, sums.gap_squares),
        batch_seconds=sums.batch_seconds / batches if batches else _to_output(sums),
        wait=sums.wait / taken if taken else None,
        batching=sums.gathered / taken if taken else None,
        parts={name: s / batches for name, s in sums.parts.items()} if batches else {},
        busy=busy,
        backlog_rows=backlog,
        backlog_seconds=backlog * seconds / done if done else (0.0 if not backlog else None),
        state_rows=rows if stateful else None,
        state_bytes=int(size) if stateful else None,
        instances=_instances(sim, pipeline, sums) if pipeline.instances <= detail else (),
    )


def _busy(sim: Simulation, sums: WindowSums) -> float:
    """Share of time for which instances work or spin."""
    looking = sim.model.looking * sums.open
    return float(np.minimum(1.0, (sums.busy + looking) / sums.seconds).mean())


def _rates(sim: Simulation, pipeline: RunningPipeline, sums: WindowSums) -> dict[str, Any]:
    """Rates of records in and out: over whole batches, else over the window."""
    whole = pipeline.gauge.rates(sim.now, sim.window)
    if whole is None:
        whole = sum(sums.done.values()) / sums.seconds, sums.out / sums.seconds
    return {"rate_in": whole[0], "rate_out": whole[1]}


def _to_output(sums: WindowSums) -> float | None:
    """Seconds until a windowed row is written; None without a window."""
    if not sums.held or not sums.out or not sums.taken:
        return None
    return sums.service / sums.taken + sums.held / sums.out


def _instances(
    sim: Simulation, pipeline: RunningPipeline, sums: WindowSums
) -> tuple[InstanceMetrics, ...]:
    hosts = sim.placement.hosts[pipeline.spec.name].tolist()
    seconds, names = sums.seconds, sim.placement.executors
    parts = _key_parts(pipeline)
    own = sums.busy - sums.reading  # an instance keeps the state, as on Spark
    return tuple(
        InstanceMetrics(
            index,
            rows,
            min(1.0, busy / seconds) if seconds else None,
            None if names[host] in sim.placement.starting else names[host],
            index if index < parts else None,
        )
        for index, (rows, busy, host) in enumerate(
            zip(sums.rows.tolist(), own.tolist(), hosts, strict=True)
        )
    )


def _key_parts(pipeline: RunningPipeline) -> int:
    """Number of key partitions, if each instance has one; else 0."""
    if pipeline.work.stateful is None or (pipeline.spec.ceiling or 0) > pipeline.instances:
        return 0
    return 1 if pipeline.work.keyed is None else pipeline.instances


def _operators(
    sim: Simulation, pipeline: RunningPipeline, sums: WindowSums
) -> dict[str, OperatorMetrics]:
    """Split a pipeline's measurements between its operators by their costs."""
    done, seconds = sum(sums.done.values()), sums.seconds
    rate = _rates(sim, pipeline, sums)["rate_in"] if seconds else 0.0
    each = rate / done if done else None if rate else 0.0
    found = {}
    alone = len(pipeline.spec.operators) == 1
    gaps = variation(sums.gaps, sums.gap, sums.gap_squares)
    arriving = _arriving(sim, pipeline)
    slow, wait = _slowness(pipeline, sums)
    for name, (rows_in, rows_out) in pipeline.work.operators(sums.done).items():
        cost = sim.model.cost(name)
        need = cost.service.mean * cost.cpu
        if sums.touched and rows_in and name == pipeline.work.stateful:
            need += cost.touch * sums.touched / rows_in
        service = need * slow + cost.service.mean * (1 - cost.cpu) * wait
        found[name] = OperatorMetrics(
            name=name,
            rows_in=round(rows_in),
            rows_out=round(rows_out),
            rate_in=rows_in * each if seconds and each is not None else None,
            rate_out=rows_out * each if seconds and each is not None else None,
            service=service if sums.taken else None,
            service_cv=variation(sums.taken, sums.service, sums.squares) if alone else None,
            arrival_cv=gaps if name in arriving else None,
            busy=min(1.0, rows_in * service / pipeline.instances / seconds) if seconds else None,
            measured=alone or bool(sums.batches),
            cpu=need / service if sums.batches and service else None,
        )
    return found


def _arriving(sim: Simulation, pipeline: RunningPipeline) -> frozenset[str]:
    """Operators at which all records arrive as they did at the pipeline.

    After an operator that changes their number, the gaps between records are others.
    """
    found = []
    for inlet in pipeline.open_inlets:
        path = pipeline.work.paths[inlet.entry]
        other = [at for at, name in enumerate(path) if sim.model.cost(name).ratio != 1]
        found.append({*path[: other[0] + 1]} if other else {*path, *pipeline.work.sinks})
    return frozenset.intersection(*map(frozenset, found)) if found else frozenset()


def _slowness(pipeline: RunningPipeline, sums: WindowSums) -> tuple[float, float]:
    """Factors on the processor time and on the waiting time of records."""
    if sums.batches:
        return (sums.stretched / sums.needed if sums.needed else 1.0), 1.0
    done = sum(sums.done.values())
    due = sum(pipeline.work.mean[entry] * count for entry, count in sums.done.items())
    if not (sums.taken and due > 0):
        return 1.0, 1.0
    slow = (sums.service / sums.taken) / (due / done)
    return slow, slow


def _channels(sim: Simulation, sums_of: Mapping[str, WindowSums]) -> dict[str, ChannelMetrics]:
    """Metrics of every edge between two pipelines, named by its operators."""
    found = {}
    for name, pipeline in sim.pipelines.items():
        sums, backlog = sums_of[name], pipeline.backlog(sim.now)
        for number, inlet in enumerate(pipeline.inlets):
            if inlet.writer in pipeline.spec.operators:
                continue
            rows, wait, gathered = sums.by_inlet[:, number].tolist()
            waits = backlog[number]
            found[f"{inlet.writer}>{inlet.entry}"] = ChannelMetrics(
                writer=inlet.writer,
                reader=inlet.entry,
                backlog_rows=waits,
                backlog_seconds=waits * sums.seconds / rows if rows else None if waits else 0.0,
                latency=wait / rows + sim.delay(inlet) if rows else None,
                batching=gathered / rows if rows else None,
            )
    return found


def _executors(sim: Simulation, sums_of: Mapping[str, WindowSums]) -> dict[str, ExecutorMetrics]:
    names, cores = sim.placement.executors, sim.model.node.cores
    busy, cpu = np.zeros(len(names)), np.zeros(len(names))
    counts, parts = {}, {}
    seconds = max((sums.seconds for sums in sums_of.values()), default=0.0)
    for name, hosts in sim.placement.hosts.items():
        sums = sums_of[name]
        busy += np.bincount(hosts, sums.busy, minlength=len(names))
        cpu += np.bincount(hosts, _on_processor(sim.pipelines[name], sums), minlength=len(names))
        counts[name] = np.bincount(hosts, minlength=len(names)).tolist()
        dealt = hosts[: _key_parts(sim.pipelines[name])]
        if len(dealt):
            ends = np.cumsum(np.bincount(dealt, minlength=len(names)))
            parts[name] = np.split(np.argsort(dealt, kind="stable"), ends[:-1])
    stateful = {n for n, s in sim.pipelines.items() if s.work.stateful is not None}
    memory = sim.memory().tolist()
    found = {}
    for at, executor in enumerate(names):
        if executor in sim.placement.starting:
            continue
        here = {name: c[at] for name, c in counts.items() if c[at]}
        found[executor] = ExecutorMetrics(
            name=executor,
            slots=cores,
            busy=min(1.0, float(busy[at]) / (seconds * cores)) if seconds else None,
            cpu=min(1.0, float(cpu[at]) / (seconds * cores)) if seconds else None,
            memory=min(1.0, memory[at]),
            instances=here,
            state_parts={name: n for name, n in here.items() if name in stateful},
            partitions={name: tuple(p[at].tolist()) for name, p in parts.items() if len(p[at])},
        )
    return found


def _on_processor(pipeline: RunningPipeline, sums: WindowSums) -> Floats:
    """Seconds for which each instance was on a processor."""
    if not sums.batches:
        return pipeline.wants(sums.busy)
    total = float(sums.busy.sum())
    return sums.busy * (sums.worked / total) if total else sums.busy
