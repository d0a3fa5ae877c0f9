"""What would become of a flow under another load, another policy or on other machines.

The run's own history tells what things cost (`engines/simulator/calibration.py`); the simulator
then goes on with the flow twice: under today's plan left alone, and under the policy. It goes on
from where the run stands: with the plan, the place in the load, the rows that wait and the state of
today, and within the run's own limits and guard.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock import policies, text
from penstock.app import run
from penstock.clock import Clock
from penstock.control.guard import Guard
from penstock.control.summary import LatencySummary
from penstock.dataflow.graph import Graph
from penstock.dataflow.load_profile import Load
from penstock.engines.simulator import initial_state
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.initial_state import Beginning
from penstock.engines.simulator.model import Model
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import Snapshot
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Policy
from penstock.predict import future_load, model_file
from penstock.predict.batch_observations import Recording, recording
from penstock.predict.calibration import Quality, fit
from penstock.predict.future_load import Rules
from penstock.predict.model_file import Fitted
from penstock.store import history, run_options
from penstock.store.run_options import Terms

_UNSEEN = 2.0
"""Tasks of so many times the rows of the largest that was recorded are a guess."""


@dataclass(frozen=True)
class Question:
    """load: `x2` for twice the run's own, which goes on from today, or a load profile, which begins
    now; nodes: machines there are (None: as many as the run has or may have); policy: None for the
    run's. A number of records after which a generator ends does not count.
    """

    load: str = "x1"
    policy: str | Policy | None = None
    nodes: int | None = None
    seconds: float = 600.0
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What comes of it over the time that was asked for; the plan is the one at the end.

    offered, throughput: rows a second that come to the sources, and that are taken from them, of
    which some may have waited there before; task: rows of one instance in the largest batches.
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
class Answer:
    """Today's plan left alone, and the policy beside it; quality: of the fit, if one was made."""

    flow: str
    load: Mapping[str, str]
    seconds: float
    nodes: int
    alone: Outcome
    steered: Outcome
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
    """Where both simulations begin; time: when that was, in seconds since 1970."""

    graph: Graph
    plan: Plan
    loads: Mapping[str, Load]
    begin: Beginning
    time: float


def ask(run_dir: Path, question: Question, fitted: Fitted | None = None) -> Answer:
    """Answer from the history of a run; `fitted` is a model to use instead of fitting one."""
    policy = _policy(run_dir, question.policy)
    if question.nodes is not None and question.nodes < 1:
        raise InvalidInput(f"a cluster of {question.nodes} machines cannot be")
    if question.seconds <= 0:
        raise InvalidInput(f"{question.seconds:g} s is no time to look ahead")
    seen = recording(run_dir)
    quality, notes = None, tuple[str, ...]()
    if fitted is None:
        made = fit([seen])
        fitted, quality, notes = model_file.of(made), made.quality, made.notes
    asked = run_options.read(run_dir)
    nodes = question.nodes or _nodes(asked, seen.plan)
    start = _start(seen, asked, question, nodes)
    model = fitted.model(start.graph, nodes)
    alone = Rules(Limits(executors=nodes), Guard())
    outcomes = [_simulated(start, "static", alone, model, question)]
    if policy != "static":
        rules = future_load.rules_of(asked, start.plan, nodes, seen.today.snapshot.at)
        outcomes.append(_simulated(start, policy, rules, model, question))
    shown = {name: str(load) for name, load in start.loads.items()}
    notes = (*notes, *_unseen(model, outcomes))
    return Answer(
        seen.graph.name, shown, question.seconds, nodes, outcomes[0], outcomes[-1], quality, notes
    )


def _unseen(model: Model, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """A word where tasks come to be far larger than any that the model was fitted to."""
    known = None if model.batch is None else model.batch.few
    largest = max(one.task for one in outcomes)
    if known is None or largest <= _UNSEEN * known:
        return ()
    return (
        f"batches come to {text.count(largest)} rows an instance, and the largest that was "
        f"recorded had {text.count(known)}: what rows cost in larger ones is not known, so "
        "throughput may be told too high; a run that has been under such a load would show it",
    )


def _policy(run_dir: Path, wanted: str | Policy | None) -> str | Policy:
    """The policy that was asked for, or the run's own; checked before anything takes time."""
    if wanted is None:
        asked = run_options.read(run_dir)
        wanted = asked[-1].policy if asked else "static"
    if isinstance(wanted, str):
        return "static" if wanted == "static" else policies.get(wanted)
    return wanted


def _nodes(asked: Sequence[Terms], plan: Plan) -> int:
    """As many machines as the run has, or as many as it may have."""
    allowed = asked[-1].limits.executors if asked else None
    return max(plan.executors, allowed or 1)


def _start(seen: Recording, asked: Sequence[Terms], question: Question, nodes: int) -> _Start:
    today = seen.today
    return _Start(
        future_load.endless(seen.graph),
        replace(seen.plan, executors=min(nodes, seen.plan.executors)),
        future_load.load_of(seen, asked, question.load),
        initial_state.of(seen.graph, today.plan, today.snapshot),
        today.time,
    )


def _simulated(
    start: _Start, policy: str | Policy, rules: Rules, model: Model, asked: Question
) -> Outcome:
    engine = SimulatorEngine(model, load=start.loads, seed=asked.seed, begin=start.begin)
    clock = engine.clock
    with tempfile.TemporaryDirectory(prefix="penstock-whatif-") as folder:
        home = Path(folder) / "run"
        summary = run(
            start.graph,
            policy=policy,
            plan=start.plan,
            engine=engine,
            seconds=asked.seconds,
            backup=rules.backup,
            limits=rules.limits,
            guard=rules.guard,
            run_dir=home,
            verify=False,
            clock=Clock(clock.now, clock.sleep, wall=lambda: start.time + engine.now),
        )
        snapshots = [*history.snapshots(home)]
    due = sum(load.offered(asked.seconds) for load in start.loads.values())
    return Outcome(
        summary.policy,
        summary.plan,
        due / asked.seconds,
        min(summary.rows_ingested, due + start.begin.owed) / asked.seconds,
        summary.latency,
        _spent(snapshots, asked.seconds),
        len(summary.transitions),
        _largest(snapshots),
    )


def _largest(snapshots: Sequence[Snapshot]) -> float:
    """Rows of one instance in a batch, where they were most."""
    every = [one for snapshot in snapshots for one in snapshot.pipelines.values()]
    batches = [one for one in every if one.rows_in and one.batches]
    return max(((o.rows_in or 0) / o.batches / o.parallelism for o in batches), default=0.0)


def _spent(snapshots: Sequence[Snapshot], seconds: float) -> float:
    """Slot-seconds until the time was up: what is under way then is finished, and not counted."""
    known = [(s.at, s.slot_seconds) for s in snapshots if s.slot_seconds is not None]
    at, spent = zip(*known, strict=True)
    return float(np.interp(seconds, at, spent))
