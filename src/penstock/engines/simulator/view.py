"""From a simulation to a snapshot."""

from __future__ import annotations

import numpy as np

from penstock.engines.simulator.gauge import Spell, variation
from penstock.engines.simulator.simulation import Simulation
from penstock.engines.simulator.stage import Stage
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
    slots = sim.plan.executors * sim.model.node.cores
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
        load=min(1.0, at_work / (seconds * slots)) if seconds else None,
        source_pipelines=frozenset(sim.plan.pipeline_of(s).name for s in sim.sources),
        operators=operators,
        channels=_channels(sim, pipelines),
        executors=executors,
        settled=settled,
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
        share = spell.running if sim.model.batch else float(spell.busy.mean())
        busy = min(1.0, share / seconds)
    rate_in, rate_out = _rates(sim, stage, spell)
    stateful = stage.work.stateful is not None
    rows, size = sim.state(stage)
    return PipelineMetrics(
        name=stage.pipeline.name,
        parallelism=stage.instances,
        batches=batches,
        rows_in=done,
        rows_out=spell.out,
        rate_in=rate_in,
        rate_out=rate_out,
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


def _rates(sim: Simulation, stage: Stage, spell: Spell) -> tuple[float, float | None]:
    """Records a second in and out: over whole batches, or over the window where there are none."""
    whole, seconds = stage.gauge.rates(sim.now, sim.window), spell.seconds
    if whole is not None:
        return whole
    return (sum(spell.done.values()) / seconds, spell.out / seconds) if seconds else (0.0, None)


def _to_output(spell: Spell) -> float | None:
    """Seconds until a row of a window is written; a row without one is, when it is done."""
    if not spell.held or not spell.out or not spell.taken:
        return None
    return spell.service / spell.taken + spell.held / spell.out


def _instances(sim: Simulation, stage: Stage, spell: Spell) -> tuple[InstanceMetrics, ...]:
    hosts = sim.placement.hosts[stage.pipeline.name].tolist()
    seconds = spell.seconds
    return tuple(
        InstanceMetrics(
            index,
            rows,
            min(1.0, busy / seconds) if seconds else None,
            sim.placement.executors[host],
        )
        for index, (rows, busy, host) in enumerate(
            zip(spell.rows.tolist(), spell.busy.tolist(), hosts, strict=True)
        )
    )


def _operators(sim: Simulation, stage: Stage, spell: Spell) -> dict[str, OperatorMetrics]:
    """Operators share what their pipeline measured, in proportion to what they take."""
    done, seconds = sum(spell.done.values()), spell.seconds
    rate, _ = _rates(sim, stage, spell)
    each = rate / done if done else None if rate else 0.0
    found = {}
    alone = len(stage.pipeline.operators) == 1
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
            arrival_cv=variation(spell.gaps, spell.gap, spell.gap_squares),
            busy=min(1.0, rows_in * service / stage.instances / seconds) if seconds else None,
            measured=alone or bool(spell.batches),
            cpu=need / service if spell.batches and service else None,
        )
    return found


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


def _channels(sim: Simulation, pipelines: dict[str, PipelineMetrics]) -> dict[str, ChannelMetrics]:
    found = {}
    for name, stage in sim.stages.items():
        for outlet in stage.outlets:
            reader = sim.plan.pipeline_of(outlet.edge[1]).name
            seen = pipelines[reader]
            queued = None if seen.wait is None else seen.wait - (seen.batching or 0.0)
            found[f"{name}>{reader}"] = ChannelMetrics(
                writer=name,
                reader=reader,
                backlog_rows=seen.backlog_rows,
                backlog_seconds=seen.backlog_seconds,
                latency=None if queued is None else queued + outlet.delay,
                batching=seen.batching,
            )
    return found


def _executors(sim: Simulation, spells: dict[str, Spell]) -> dict[str, ExecutorMetrics]:
    names, cores = sim.placement.executors, sim.model.node.cores
    busy = np.zeros(len(names))
    counts = {}
    seconds = 0.0
    for name, hosts in sim.placement.hosts.items():
        busy += np.bincount(hosts, spells[name].busy, minlength=len(names))
        counts[name] = np.bincount(hosts, minlength=len(names)).tolist()
        seconds = max(seconds, spells[name].seconds)
    stateful = {n for n, s in sim.stages.items() if s.work.stateful is not None}
    memory = sim.memory.tolist()
    shares = np.minimum(busy / (seconds * cores), 1.0).tolist() if seconds else [None] * len(names)
    found = {}
    for at, executor in enumerate(names):
        here = {name: c[at] for name, c in counts.items() if c[at]}
        found[executor] = ExecutorMetrics(
            name=executor,
            slots=cores,
            busy=shares[at],
            cpu=shares[at],
            memory=min(1.0, memory[at]),
            instances=here,
            state_parts={name: n for name, n in here.items() if name in stateful},
        )
    return found
