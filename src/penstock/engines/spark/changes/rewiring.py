"""Carrying out a change of plan while records flow.

What a valve can do takes effect with the next batch. For the rest only the pipelines concerned
are stopped, upstream first: each takes nothing new, finishes what it has and is then empty, so
nothing is in flight between them. One file, the new wiring, is the instant of the change: a
crash before it leaves the old plan in force and a crash after it the new one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.engines.spark.changes.executors import spread
from penstock.engines.spark.changes.interruption import Aftermath, moved_share
from penstock.engines.spark.changes.quiescence import quiesce
from penstock.engines.spark.changes.repartition import check as check_state
from penstock.engines.spark.changes.repartition import repartition
from penstock.engines.spark.changes.shadow import Shadow
from penstock.engines.spark.changes.shadow import possible as shadow_possible
from penstock.engines.spark.changes.wiring import following, kept_together, partitions
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.errors import PenstockError, Refused
from penstock.plan.change import CeilingChange, Change
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store.run_directory import Wiring

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine


def rewire(engine: SparkEngine, change: Change, reason: str) -> Aftermath:
    """Bring an engine from one plan to the next."""
    before, after = change.before, change.after
    began = time.time()
    _refuse_impossible(engine, after)
    stopping = [p for p in before.pipelines if not _survives(engine, p, _same_operators(after, p))]
    starting = [p for p in after.pipelines if not _survives(engine, _same_operators(before, p), p)]
    everywhere = after.executors != before.executors
    old = [p for p in before.pipelines if everywhere or p in stopping or p not in after.pipelines]
    new = [p for p in after.pipelines if everywhere or p in starting or p not in before.pipelines]
    was = {spec.name: engine.pipelines[spec.name] for spec in old}
    waiting = engine.gauges.usually_waiting(was.values())
    cut = _cuts(was.values())
    phases = _Phases()
    names = frozenset(p.name for p in starting)
    successors: dict[str, Shadow] = {}
    try:
        if after.executors > before.executors:
            engine.executors.grow(after.executors, engine.wait)
            phases.end("executors")
        successors = _successors(engine, starting)
        if successors:
            phases.end("prepare")
        stopped = quiesce(engine, stopping)
        if stopping:
            phases.end("quiesce")
        for shadow in successors.values():
            shadow.reach(stopped.positions)
        if successors:
            phases.end("hand over")
        ready = {name: shadow.wired for name, shadow in successors.items()}
        wiring = following(engine.site, engine.wiring, after, names, stopped.positions, ready)
        cold = [p for p in starting if p.name not in successors]
        moved = _repartition(engine, wiring, cold)
        if moved:
            phases.end("repartition")
        moved += [was[name] for name in successors]
    except Exception as error:
        for shadow in successors.values():
            shadow.dismiss()
        engine.bring_back(p.name for p in stopping)
        if isinstance(error, PenstockError):
            raise
        raise Refused(f"the change failed and was undone: {error}") from error
    engine.put_in_force(wiring, [p.name for p in stopping], cold, successors)
    if cold:
        phases.end("restart")
    for spec in after.pipelines:
        if spec.name not in names:
            engine.pipelines[spec.name].respecify(spec)
    moved += _relocate(engine, change, phases)
    rows, size = engine.observer.state(p.name for p in moved) if moved else (0, 0)
    now = {spec.name: engine.pipelines[spec.name] for spec in new}
    transition = Transition(
        at=engine.since_start(began),
        changes=(*map(str, change.actions), *_recut(cut, _cuts(now.values()), change)),
        duration=time.time() - began,
        interruption=sum(t for name, t in phases.found if name not in ("executors", "prepare")),
        reason=reason,
        phases=tuple(phases.found),
        state_rows_moved=rows,
        state_bytes_moved=size,
        keys_moved=_keys_moved(cut, _cuts(now.values())),
        backlog_left=engine.gauges.waiting(now.values()),
    )
    tails = {p.tail for p in was.values()} & {p.tail for p in now.values()}
    return Aftermath(
        transition,
        began,
        time.time(),
        operators=frozenset(name for spec in new for name in spec.operators),
        changed=frozenset(tails),
        sinks=frozenset(sink.name for sink in engine.site.graph.sinks),
        waiting=waiting,
    )


class _Phases:
    """A clock that is read at the end of each phase."""

    def __init__(self) -> None:
        self.found: list[tuple[str, float]] = []
        self._clock = time.time()

    def end(self, name: str) -> None:
        self.found.append((name, time.time() - self._clock))
        self._clock = time.time()


def _successors(engine: SparkEngine, starting: list[Pipeline]) -> dict[str, Shadow]:
    """Successors of pipelines that only get their state cut anew, as close behind as can be."""
    found: dict[str, Shadow] = {}
    for spec in starting if engine.make_before_break else ():
        old = engine.pipelines.get(spec.name)
        if old is None or old.spec.operators != spec.operators or not shadow_possible(old):
            continue
        if checkpoint.last_commit(old.checkpoint) < 0:
            continue
        try:
            parts = partitions(engine.site, spec, old.wired.partitions)
            found[spec.name] = Shadow(engine, old, spec, parts)
            found[spec.name].approach()
        except PenstockError:
            for shadow in found.values():
                shadow.dismiss()
            raise
        except Exception:  # there is the other way, which needs no copy
            engine.let_go(spec.name)
            if spec.name in found:
                found.pop(spec.name).dismiss()
    return found


def _relocate(engine: SparkEngine, change: Change, phases: _Phases) -> list[RunningPipeline]:
    """Use executors that have come, take over from those that leave; returns whose state moves."""
    executors, after = engine.executors, change.after
    if after.executors == change.before.executors and not after.leaving:
        return []
    keyed = [p for p in engine.pipelines.values() if p.stateful is not None]
    held = {p.name: p.placement(executors) for p in keyed}
    if after.executors < change.before.executors:
        count = Counter(where for parts in held.values() for where in parts.values() if where)
        executors.shrink(after.executors, after.leaving, count, engine.wait)
        phases.end("executors")
    there = executors.ids()
    moved = []
    for pipeline in keyed:
        where = spread(held[pipeline.name], there)
        if where and len(held[pipeline.name]) > 1:
            place(engine, pipeline, where)
            moved.append(pipeline)
    return moved


def place(engine: SparkEngine, pipeline: RunningPipeline, where: Mapping[int, str]) -> None:
    """Have parts of a pipeline's state held by certain executors.

    Between two batches, because each task of a running one says again where its state is.
    """
    pipeline.turn(open=False)
    engine.wait(lambda: pipeline.quiet or bool(pipeline.foreign))
    pipeline.place(engine.executors, where)
    pipeline.turn(open=True)


Cuts = Mapping[str, tuple[int, int]]
"""Parts of state and instances that serve them, by stateful operator."""


def _cuts(pipelines: Iterable[RunningPipeline]) -> Cuts:
    return {
        p.stateful.name: (p.wired.partitions, min(p.wired.partitions, p.valve.parallelism))
        for p in pipelines
        if p.stateful is not None
    }


def _recut(before: Cuts, after: Cuts, change: Change) -> Iterator[str]:
    """Parts of state that have changed though nobody has asked for it by name."""
    asked = any(isinstance(action, CeilingChange) for action in change.actions)
    for name in before.keys() & after.keys() if not asked else ():
        if before[name][0] != after[name][0]:
            yield f"{name}: state cut from {before[name][0]} into {after[name][0]} parts"


def _keys_moved(before: Cuts, after: Cuts) -> float | None:
    """Share of keys with another instance, of the state where that is most."""
    shares = [moved_share(before[name], after[name]) for name in before.keys() & after.keys()]
    return max(shares, default=None)


def _repartition(
    engine: SparkEngine, wiring: Wiring, starting: list[Pipeline]
) -> list[RunningPipeline]:
    """Cut the state of pipelines that start anew as their wiring wants; returns whose it was."""
    done = []
    for spec in starting:
        wired = wiring.pipelines[spec.name]
        folder = engine.site.directory / "checkpoints" / wired.checkpoint
        if not wired.checkpoint.startswith("state-") or not folder.exists():
            continue
        if repartition(engine.spark, folder, wired.partitions):
            held = (p for p in engine.pipelines.values() if p.wired.checkpoint == wired.checkpoint)
            done += list(held)
    return done


def _refuse_impossible(engine: SparkEngine, after: Plan) -> None:
    engine.executors.check(after.executors, after.leaving, engine.wiring.plan.executors)
    engine.executors.check_size(after)
    _refuse_recutting(engine, after)
    for spec in after.pipelines:
        for name in spec.operators:
            if engine.site.graph[name].state.value != "source" or engine.site.generator(name):
                continue
            if spec.admission is not None:
                raise Refused(
                    f"'{name}' is a source of Spark's own: how much it takes is set by its options "
                    "(such as maxOffsetsPerTrigger), it can be neither paused nor limited"
                )
            old = engine.wiring.plan.pipeline_of(name)
            kept = engine.wiring.pipelines[old.name]
            if not kept_together(engine.site, spec, kept.checkpoint):
                raise Refused(
                    f"'{name}' is a source of Spark's own: its position is kept together with the "
                    "state in its pipeline, so the two cannot be split or merged while they run"
                )


def _refuse_recutting(engine: SparkEngine, after: Plan) -> None:
    for spec in after.pipelines:
        for name in spec.operators:
            if not engine.site.graph[name].stateful:
                continue
            held = engine.wiring.pipelines[engine.wiring.plan.pipeline_of(name).name]
            if partitions(engine.site, spec, held.partitions) != held.partitions:
                check_state(engine.site.directory / "checkpoints" / held.checkpoint)


def _same_operators(plan: Plan, spec: Pipeline) -> Pipeline | None:
    return next((p for p in plan.pipelines if p.operators == spec.operators), None)


def _survives(engine: SparkEngine, old: Pipeline | None, new: Pipeline | None) -> bool:
    """Whether a pipeline can go from one form to the other without being stopped."""
    if old is None or new is None:
        return False
    running = engine.pipelines[old.name]
    if running.stateful is not None and running.stateful.keys:
        parts = running.wired.partitions
        if new.parallelism > parts or (new.ceiling or parts) != parts:
            return False
    # Sources of Spark's own have no valve: their spread and cadence are part of the query.
    return not running.foreign or (old.parallelism, old.cadence) == (new.parallelism, new.cadence)
