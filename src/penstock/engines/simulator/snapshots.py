"""From a simulation to a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.engines.simulator.arrays import Floats
from penstock.engines.simulator.continuous import Stage
from penstock.engines.simulator.measurements import Spell, variation
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
    """Everything measured over the window; instances are listed up to `detail` of a pipeline."""
    spells = {name: stage.gauge.window() for name, stage in sim.stages.items()}
    pipelines = {n: _pipeline(sim, s, spells[n], detail) for n, s in sim.stages.items()}
    operators = {}
    for name, stage in sim.stages.items():
        operators.update(_operators(sim, stage, spells[name]))
    executors = _executors(sim, spells)
    slots = sim.placement.present * sim.model.node.cores
    at_work = sum(float(spell.busy.sum()) for spell in spells.values())
    seconds = max((spell.seconds for spell in spells.values()), default=0.0)
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
        channels=_channels(sim, spells),
        executors=executors,
        settled=settled,
        ending=sim.closed,
        slot_seconds=slot_seconds,
    )


def _latency(sim: Simulation) -> dict[str, LatencyMetrics]:
    found = {name: gauge.window(sim.now) for name, gauge in sim.latency.items()}
    return {name: metrics for name, metrics in found.items() if metrics is not None}


def _pipeline(sim: Simulation, stage: Stage, spell: Spell, detail: int) -> PipelineMetrics:
    seconds, done = spell.seconds, sum(spell.done.values())
    taken, batches = spell.taken, spell.batches
    backlog = stage.waiting(sim.now)
    busy = None
    if seconds:
        busy = min(1.0, spell.running / seconds) if sim.model.batch else _busy(sim, spell)
    # where nothing was measured yet, these stay what "not measured" is
    flow: dict[str, Any] = {}
    if seconds:
        flow = {"rows_in": done, "rows_out": spell.out, **_rates(sim, stage, spell)}
    stateful = stage.work.stateful is not None
    rows, size = sim.state(stage)
    return PipelineMetrics(
        name=stage.pipeline.name,
        parallelism=stage.instances,
        batches=batches,
        **flow,
        arrival_rate=spell.came / seconds if seconds else None,
        service=spell.service / taken if taken else None,
        task_overhead=spell.overhead / spell.tasks if spell.tasks else None,
        service_cv=variation(taken, spell.service, spell.squares),
        arrival_cv=variation(spell.gaps, spell.gap, spell.gap_squares),
        batch_seconds=spell.batch_seconds / batches if batches else _to_output(spell),
        wait=spell.wait / taken if taken else None,
        batching=spell.gathered / taken if taken else None,
        parts={name: s / batches for name, s in spell.parts.items()} if batches else {},
        busy=busy,
        backlog_rows=backlog,
        backlog_seconds=backlog * seconds / done if done else (0.0 if not backlog else None),
        state_rows=rows if stateful else None,
        state_bytes=int(size) if stateful else None,
        instances=_instances(sim, stage, spell) if stage.instances <= detail else (),
    )


def _busy(sim: Simulation, spell: Spell) -> float:
    """The share of their time for which instances are at work, or look for something to do."""
    looking = sim.model.looking * spell.open
    return float(np.minimum(1.0, (spell.busy + looking) / spell.seconds).mean())


def _rates(sim: Simulation, stage: Stage, spell: Spell) -> dict[str, Any]:
    """Records a second in and out: over whole batches, or over the window where there are none."""
    whole = stage.gauge.rates(sim.now, sim.window)
    if whole is None:
        whole = sum(spell.done.values()) / spell.seconds, spell.out / spell.seconds
    return {"rate_in": whole[0], "rate_out": whole[1]}


def _to_output(spell: Spell) -> float | None:
    """Seconds until a row of a window is written; a row without one is, when it is done."""
    if not spell.held or not spell.out or not spell.taken:
        return None
    return spell.service / spell.taken + spell.held / spell.out


def _instances(sim: Simulation, stage: Stage, spell: Spell) -> tuple[InstanceMetrics, ...]:
    hosts = sim.placement.hosts[stage.pipeline.name].tolist()
    seconds, names = spell.seconds, sim.placement.executors
    parts = _key_parts(stage)
    own = spell.busy - spell.reading  # an instance is who keeps the state, as on Spark
    return tuple(
        InstanceMetrics(
            index,
            rows,
            min(1.0, busy / seconds) if seconds else None,
            None if names[host] in sim.placement.starting else names[host],
            index if index < parts else None,
        )
        for index, (rows, busy, host) in enumerate(
            zip(spell.rows.tolist(), own.tolist(), hosts, strict=True)
        )
    )


def _key_parts(stage: Stage) -> int:
    """Parts into which keys are dealt out, where each instance has one of them; else 0."""
    if stage.work.stateful is None or (stage.pipeline.ceiling or 0) > stage.instances:
        return 0
    return 1 if stage.work.keyed is None else stage.instances


def _operators(sim: Simulation, stage: Stage, spell: Spell) -> dict[str, OperatorMetrics]:
    """Operators share what their pipeline measured, in proportion to what they take."""
    done, seconds = sum(spell.done.values()), spell.seconds
    rate = _rates(sim, stage, spell)["rate_in"] if seconds else 0.0
    each = rate / done if done else None if rate else 0.0
    found = {}
    alone = len(stage.pipeline.operators) == 1
    gaps = variation(spell.gaps, spell.gap, spell.gap_squares)
    arriving = _arriving(sim, stage)
    slow, wait = _slowness(stage, spell)
    for name, (rows_in, rows_out) in stage.work.operators(spell.done).items():
        step = sim.model.step(name)
        need = step.service.mean * step.cpu
        if spell.touched and rows_in and name == stage.work.stateful:
            need += step.touch * spell.touched / rows_in
        service = need * slow + step.service.mean * (1 - step.cpu) * wait
        found[name] = OperatorMetrics(
            name=name,
            rows_in=round(rows_in),
            rows_out=round(rows_out),
            rate_in=rows_in * each if seconds and each is not None else None,
            rate_out=rows_out * each if seconds and each is not None else None,
            service=service if spell.taken else None,
            service_cv=variation(spell.taken, spell.service, spell.squares) if alone else None,
            arrival_cv=gaps if name in arriving else None,
            busy=min(1.0, rows_in * service / stage.instances / seconds) if seconds else None,
            measured=alone or bool(spell.batches),
            cpu=need / service if spell.batches and service else None,
        )
    return found


def _arriving(sim: Simulation, stage: Stage) -> frozenset[str]:
    """The operators to which all records come as they came to the pipeline.

    Behind what makes more or fewer of them, the times between records are others.
    """
    found = []
    for inlet in stage.ways:
        path = stage.work.paths[inlet.entry]
        other = [at for at, name in enumerate(path) if sim.model.step(name).ratio != 1]
        found.append({*path[: other[0] + 1]} if other else {*path, *stage.work.sinks})
    return frozenset.intersection(*map(frozenset, found)) if found else frozenset()


def _slowness(stage: Stage, spell: Spell) -> tuple[float, float]:
    """How many times as long as on an idle machine records were at work, and waited."""
    if spell.batches:
        return (spell.stretched / spell.needed if spell.needed else 1.0), 1.0
    done = sum(spell.done.values())
    due = sum(stage.work.mean[entry] * count for entry, count in spell.done.items())
    if not (spell.taken and due > 0):
        return 1.0, 1.0
    slow = (spell.service / spell.taken) / (due / done)
    return slow, slow


def _channels(sim: Simulation, spells: Mapping[str, Spell]) -> dict[str, ChannelMetrics]:
    """Every edge between two pipelines, named by its operators."""
    found = {}
    for name, stage in sim.stages.items():
        spell, backlog = spells[name], stage.backlog(sim.now)
        for number, inlet in enumerate(stage.inlets):
            if inlet.writer in stage.pipeline.operators:
                continue
            rows, wait, gathered = spell.ways[:, number].tolist()
            waits = backlog[number]
            found[f"{inlet.writer}>{inlet.entry}"] = ChannelMetrics(
                writer=inlet.writer,
                reader=inlet.entry,
                backlog_rows=waits,
                backlog_seconds=waits * spell.seconds / rows if rows else None if waits else 0.0,
                latency=wait / rows + sim.delay(inlet) if rows else None,
                batching=gathered / rows if rows else None,
            )
    return found


def _executors(sim: Simulation, spells: Mapping[str, Spell]) -> dict[str, ExecutorMetrics]:
    names, cores = sim.placement.executors, sim.model.node.cores
    busy, cpu = np.zeros(len(names)), np.zeros(len(names))
    counts, parts = {}, {}
    seconds = max((spell.seconds for spell in spells.values()), default=0.0)
    for name, hosts in sim.placement.hosts.items():
        spell = spells[name]
        busy += np.bincount(hosts, spell.busy, minlength=len(names))
        cpu += np.bincount(hosts, _on_processor(sim.stages[name], spell), minlength=len(names))
        counts[name] = np.bincount(hosts, minlength=len(names)).tolist()
        dealt = hosts[: _key_parts(sim.stages[name])]
        if len(dealt):
            ends = np.cumsum(np.bincount(dealt, minlength=len(names)))
            parts[name] = np.split(np.argsort(dealt, kind="stable"), ends[:-1])
    stateful = {n for n, s in sim.stages.items() if s.work.stateful is not None}
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


def _on_processor(stage: Stage, spell: Spell) -> Floats:
    """Seconds that instances were on a processor; all that want one, if there are enough."""
    if not spell.batches:
        return stage.wants(spell.busy)
    total = float(spell.busy.sum())
    return spell.busy * (spell.worked / total) if total else spell.busy
