"""Predicts a recorded run under another load, policy or number of machines.

A model fitted to the run's history provides the costs. The simulator continues the flow twice from
the last state of the run (its plan, position in the load, waiting rows and state): under the plan
as it is, and under a policy within the run's own limits and guard.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock import policies
from penstock.clock import Clock
from penstock.control.blackout_periods import Quiet
from penstock.control.guard import Guard
from penstock.control.summary import LatencySummary, Summary
from penstock.dataflow import load_profile as loads
from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import Load
from penstock.dataflow.operators import Read
from penstock.engines.simulator import state
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.state import InitialState
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import Snapshot
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Policy
from penstock.predict import model_file
from penstock.predict.calibration import Quality, fit
from penstock.predict.model_file import FittedModel
from penstock.predict.observations import RunRecord, read_run
from penstock.store import history, run_options
from penstock.store.run_options import RunOptions

_EXTRAPOLATED = 2.0
"""Multiple of the largest recorded task above which the cost of a row is a guess."""

_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)")
_LATEST = 1e9
"""Upper bound in seconds for the search of the position in a load."""


@dataclass(frozen=True)
class Question:
    """What to predict.

    load: `x2` for twice the run's own load, continued from now, or a load profile that begins now;
    policy: None for the run's own; nodes: number of machines (None: as many as the run has or may
    have). The row limit of a generator is ignored.
    """

    load: str = "x1"
    policy: str | Policy | None = None
    nodes: int | None = None
    seconds: float = 600.0
    seed: int = 0


@dataclass(frozen=True)
class PredictedRun:
    """A predicted continuation of the run; `plan` is the plan at its end.

    offered: rows/s that arrive at the sources; throughput: rows/s taken from them, including rows
    that waited before; task: rows of one instance in the largest batch.
    """

    policy: str
    plan: Plan
    offered: float
    throughput: float
    latency: Mapping[str, LatencySummary]
    slot_seconds: float
    changes: int
    task: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "offered": round(self.offered, 2),
            "throughput": round(self.throughput, 2),
            "latency": {name: one.to_json() for name, one in self.latency.items()},
            "cost": {
                "slot_seconds": round(self.slot_seconds, 1),
                "slots": self.plan.slots,
                "executors": self.plan.executors,
            },
            "changes": self.changes,
            "largest_task": round(self.task),
            "plan": self.plan.to_json(),
        }


@dataclass(frozen=True)
class Prediction:
    """A run continued under its plan (`alone`) and under the policy (`steered`).

    quality: of the fit, None if a model was given.
    """

    flow: str
    load: Mapping[str, str]
    seconds: float
    nodes: int
    alone: PredictedRun
    steered: PredictedRun
    quality: Quality | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "load": dict(self.load),
            "seconds": self.seconds,
            "nodes": self.nodes,
            "left_alone": self.alone.to_json(),
            "with_policy": self.steered.to_json(),
            "typical_error": None if self.quality is None else round(self.quality.typical, 4),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class _Start:
    """Initial state of both simulations; time: seconds since 1970."""

    graph: Graph
    plan: Plan
    loads: Mapping[str, Load]
    initial: InitialState
    time: float


@dataclass(frozen=True)
class _Rules:
    """Limits and guard of the policy.

    backup: bounds of the commit interval, as in `penstock.run`.
    """

    limits: Limits
    guard: Guard
    backup: str | None = None


def ask(
    run_dir: Path,
    question: Question,
    fitted: FittedModel | None = None,
    *,
    run: Callable[..., Summary],
) -> Prediction:
    """Predict the continuation of a recorded run.

    fitted: model to use instead of one fitted to the run; run: `penstock.run`.
    """
    policy = _policy(run_dir, question.policy)
    if question.nodes is not None and question.nodes < 1:
        raise InvalidInput(f"a cluster needs at least one machine, found {question.nodes}")
    if question.seconds <= 0:
        raise InvalidInput(f"the time to look ahead must be above 0 s, found {question.seconds:g}")
    seen = read_run(run_dir)
    quality, notes = None, tuple[str, ...]()
    if fitted is None:
        calibration = fit([seen])
        fitted = model_file.from_calibration(calibration)
        quality, notes = calibration.quality, calibration.notes
    asked = run_options.read(run_dir)
    nodes = question.nodes or _nodes(asked, seen.plan)
    start = _start(seen, asked, question, nodes)
    model = fitted.model(start.graph, nodes)
    alone = _Rules(Limits(executors=nodes), Guard())
    found = [_simulated(start, "static", alone, model, question, run)]
    if policy != "static":
        rules = _rules(asked, start.plan, nodes, seen.today.snapshot.at)
        found.append(_simulated(start, policy, rules, model, question, run))
    shown = {name: str(load) for name, load in start.loads.items()}
    notes = (*notes, *_extrapolated(model, found))
    return Prediction(
        seen.graph.name, shown, question.seconds, nodes, found[0], found[-1], quality, notes
    )


def _extrapolated(model: Model, found: Sequence[PredictedRun]) -> tuple[str, ...]:
    """A note if tasks become far larger than any that the model was fitted to."""
    known = None if model.batch is None else model.batch.few
    largest = max(one.task for one in found)
    if known is None or largest <= _EXTRAPOLATED * known:
        return ()
    return (
        f"batches reach {largest:,.0f} rows an instance, and the largest recorded had "
        f"{known:,.0f}: the cost of a row in larger batches is not known, so the predicted "
        "throughput may be too high; record a run under such a load",
    )


def _policy(run_dir: Path, wanted: str | Policy | None) -> str | Policy:
    """The wanted policy or the run's own, checked before anything takes time."""
    if wanted is None:
        asked = run_options.read(run_dir)
        wanted = asked[-1].policy if asked else "static"
    if isinstance(wanted, str):
        return "static" if wanted == "static" else policies.get(wanted)
    return wanted


def _nodes(asked: Sequence[RunOptions], plan: Plan) -> int:
    """Number of machines that the run has or may have."""
    allowed = asked[-1].limits.executors if asked else None
    return max(plan.executors, allowed or 1)


def _start(seen: RunRecord, asked: Sequence[RunOptions], question: Question, nodes: int) -> _Start:
    today = seen.today
    return _Start(
        _endless(seen.graph),
        replace(seen.plan, executors=min(nodes, seen.plan.executors)),
        _loads(seen, asked, question.load),
        state.state_of(seen.graph, today.plan, today.snapshot),
        today.time,
    )


def _simulated(
    start: _Start,
    policy: str | Policy,
    rules: _Rules,
    model: Model,
    question: Question,
    run: Callable[..., Summary],
) -> PredictedRun:
    engine = SimulatorEngine(model, load=start.loads, seed=question.seed, initial=start.initial)
    clock = engine.clock
    with tempfile.TemporaryDirectory(prefix="penstock-whatif-") as folder:
        home = Path(folder) / "run"
        summary = run(
            start.graph,
            policy=policy,
            plan=start.plan,
            engine=engine,
            seconds=question.seconds,
            backup=rules.backup,
            limits=rules.limits,
            guard=rules.guard,
            run_dir=home,
            verify=False,
            clock=Clock(clock.now, clock.sleep, wall=lambda: start.time + engine.now),
        )
        snapshots = [*history.snapshots(home)]
    due = sum(load.offered(question.seconds) for load in start.loads.values())
    return PredictedRun(
        summary.policy,
        summary.plan,
        due / question.seconds,
        min(summary.rows_ingested, due + start.initial.owed) / question.seconds,
        summary.latency,
        _slot_seconds(snapshots, question.seconds),
        len(summary.transitions),
        _largest_task(snapshots),
    )


def _largest_task(snapshots: Sequence[Snapshot]) -> float:
    """Rows of one instance in the largest batch."""
    every = [one for snapshot in snapshots for one in snapshot.pipelines.values()]
    batches = [one for one in every if one.rows_in and one.batches]
    return max(((o.rows_in or 0) / o.batches / o.parallelism for o in batches), default=0.0)


def _slot_seconds(snapshots: Sequence[Snapshot], seconds: float) -> float:
    """Slot-seconds used in the given time, without the drain that follows."""
    known = [(s.at, s.slot_seconds) for s in snapshots if s.slot_seconds is not None]
    at, spent = zip(*known, strict=True)
    return float(np.interp(seconds, at, spent))


# --- load ---------------------------------------------------------------------------------------


def _loads(seen: RunRecord, asked: Sequence[RunOptions], text: str) -> dict[str, Load]:
    """Load of each source from now on."""
    names = [o.name for o in seen.graph.sources]
    factor = _FACTOR.fullmatch(text.strip())
    if factor is None:
        return dict.fromkeys(names, loads.parse(text))
    own = {n: loads.parse(load) for n, load in asked[-1].loads.items()} if asked else {}
    at = _place(seen, own, continued=len(asked) > 1)
    found = {}
    for name in names:
        base = own[name].since(at) if name in own else _measured_load(seen, name)
        found[name] = base.scaled(float(factor[1]))
    return found


def _place(seen: RunRecord, own: Mapping[str, Load], continued: bool) -> float:
    """Elapsed seconds of the load profile.

    A resumed run continues the load where it stopped, but its own clock starts at zero. The
    position is then found by bisection: the time by which the load offers as many rows as were
    offered.
    """
    today = seen.today.snapshot
    if not continued or today.rows_offered is None or not own:
        return today.at
    low, high = 0.0, 1.0
    while sum(load.offered(high) for load in own.values()) < today.rows_offered and high < _LATEST:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        enough = sum(load.offered(middle) for load in own.values()) >= today.rows_offered
        low, high = (low, middle) if enough else (middle, high)
    return high


def _measured_load(seen: RunRecord, source: str) -> Load:
    """Last measured rate of a source without a declared load."""
    pipeline = seen.plan.pipeline_of(source)
    metrics = seen.now.pipelines.get(pipeline.name)
    rate = None if metrics is None else metrics.arrival_rate or metrics.rate_in
    if not rate:
        raise InvalidInput(
            f"the arrival rate of '{source}' was not measured, so it cannot be multiplied: "
            "give a load like 5000/s"
        )
    sources = sum(name in pipeline.operators for name in (o.name for o in seen.graph.sources))
    return loads.parse(f"{rate / sources:.6g}/s")


def _endless(graph: Graph) -> Graph:
    """The dataflow with endless generators; the engine gets their loads separately."""
    operators = []
    for operator in graph.operators:
        body = operator.body
        if isinstance(body, Read) and isinstance(body.source, Generator):
            operator = replace(operator, body=Read(replace(body.source, load="1/s", limit=None)))
        operators.append(operator)
    return replace(graph, operators=tuple(operators))


# --- rules --------------------------------------------------------------------------------------


def _rules(asked: Sequence[RunOptions], plan: Plan, nodes: int, at: float) -> _Rules:
    """Limits, guard and commit interval of the run, from `at` on."""
    if not asked:
        return _Rules(Limits(executors=nodes), Guard())
    own = asked[-1]
    slots = None if own.limits.slots is None else max(own.limits.slots, plan.slots)
    known = {f.name for f in fields(Guard)} - {"quiet"}
    times: dict[str, Any] = {  # JSON has no infinity: it is stored as null
        name: math.inf if value is None or math.isnan(value) else value
        for name, value in own.guard.items()
        if name in known
    }
    quiet = tuple(one for text in own.quiet for one in _remaining(Quiet.parse(text), at))
    limits = replace(own.limits, slots=slots, executors=nodes)
    return _Rules(limits, Guard(**times, quiet=quiet), own.backup)


def _remaining(quiet: Quiet, at: float) -> tuple[Quiet, ...]:
    """A quiet period relative to a time of the run; empty if it is over."""
    if quiet.daily:
        return (quiet,)
    return (Quiet(max(0.0, quiet.first - at), quiet.last - at),) if quiet.last > at else ()
