"""What would become of a flow under another load, another policy or on other machines.

The run's own history tells what things cost (`engines/simulator/calibration.py`); the simulator
then goes on with the flow twice: under today's plan left alone, and under the policy. It goes on
from where the run stands: with the plan, the place in the load, the rows that wait and the state of
today, and within the run's own limits and guard.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock import policies
from penstock.control import history, terms
from penstock.control.guard import Guard
from penstock.control.quiet import Quiet
from penstock.control.run import run
from penstock.control.terms import Terms
from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.operator import Read
from penstock.engines.simulator import beginning, modelfile
from penstock.engines.simulator.beginning import Beginning
from penstock.engines.simulator.calibration import Quality, fit
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Model
from penstock.engines.simulator.modelfile import Fitted
from penstock.engines.simulator.observed import Recording, recording
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import Snapshot
from penstock.models import load as loads
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.policy import Policy
from penstock.report.summary import LatencySummary

_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)")
_LATEST = 1e9


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
    which some may have waited there before.
    """

    policy: str
    plan: Plan
    offered: float
    throughput: float
    latency: Mapping[str, LatencySummary]
    slot_seconds: float
    changes: int

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
    loads: Mapping[str, loads.Load]
    begin: Beginning
    time: float


@dataclass(frozen=True)
class _Rules:
    """Within what a policy decides; backup: as it was asked for."""

    limits: Limits
    guard: Guard
    backup: str | None = None


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
        fitted, quality, notes = modelfile.of(made), made.quality, made.notes
    asked = terms.read(run_dir)
    nodes = question.nodes or _nodes(asked, seen.plan)
    start = _start(seen, asked, question, nodes)
    model = fitted.model(start.graph, nodes)
    alone = _Rules(Limits(executors=nodes), Guard())
    outcomes = [_simulated(start, "static", alone, model, question)]
    if policy != "static":
        rules = _rules(asked, start.plan, nodes, seen.today.snapshot.at)
        outcomes.append(_simulated(start, policy, rules, model, question))
    shown = {name: str(load) for name, load in start.loads.items()}
    return Answer(
        seen.graph.name, shown, question.seconds, nodes, outcomes[0], outcomes[-1], quality, notes
    )


def _policy(run_dir: Path, wanted: str | Policy | None) -> str | Policy:
    """The policy that was asked for, or the run's own; checked before anything takes time."""
    if wanted is None:
        asked = terms.read(run_dir)
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
        _endless(seen.graph),
        replace(seen.plan, executors=min(nodes, seen.plan.executors)),
        _loads(seen, asked, question.load),
        beginning.of(seen.graph, today.plan, today.snapshot),
        today.time,
    )


# --- the load ---------------------------------------------------------------------------------


def _loads(seen: Recording, asked: Sequence[Terms], text: str) -> dict[str, loads.Load]:
    """The load of each source from today on."""
    names = [o.name for o in seen.graph.sources]
    factor = _FACTOR.fullmatch(text.strip())
    if factor is None:
        return dict.fromkeys(names, loads.parse(text))
    own = {n: loads.parse(load) for n, load in asked[-1].loads.items()} if asked else {}
    at = _place(seen, own, continued=len(asked) > 1)
    found = {}
    for name in names:
        base = own[name].since(at) if name in own else _measured(seen, name)
        found[name] = base.scaled(float(factor[1]))
    return found


def _place(seen: Recording, own: Mapping[str, loads.Load], continued: bool) -> float:
    """Seconds of the load that have passed.

    A run that was continued goes on with the load where it stopped, while its own time begins anew:
    then the place is where as many rows were due as there have been.
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


def _measured(seen: Recording, source: str) -> loads.Load:
    """What came of late, where nobody said what is to come."""
    pipeline = seen.plan.pipeline_of(source)
    metrics = seen.now.pipelines.get(pipeline.name)
    rate = None if metrics is None else metrics.arrival_rate or metrics.rate_in
    if not rate:
        raise InvalidInput(
            f"how much comes to '{source}' was not measured, so it cannot be multiplied: "
            "give a load like 5000/s"
        )
    together = sum(name in pipeline.operators for name in (o.name for o in seen.graph.sources))
    return loads.parse(f"{rate / together:.6g}/s")


def _endless(graph: Graph) -> Graph:
    """The dataflow with generators that go on; the engine is told their loads."""
    operators = []
    for operator in graph.operators:
        body = operator.body
        if isinstance(body, Read) and isinstance(body.source, Generator):
            operator = replace(operator, body=Read(replace(body.source, load="1/s", limit=None)))
        operators.append(operator)
    return replace(graph, operators=tuple(operators))


# --- the rules --------------------------------------------------------------------------------


def _rules(asked: Sequence[Terms], plan: Plan, nodes: int, at: float) -> _Rules:
    """What the run was told its policy may do, as it is from today on."""
    if not asked:
        return _Rules(Limits(executors=nodes), Guard())
    own = asked[-1]
    slots = None if own.limits.slots is None else max(own.limits.slots, plan.slots)
    known = {f.name for f in fields(Guard)} - {"quiet"}
    times = {  # one that never ends is not written as a number
        name: math.inf if value is None or math.isnan(value) else value
        for name, value in own.guard.items()
        if name in known
    }
    quiet = tuple(one for text in own.quiet for one in _ahead(Quiet.parse(text), at))
    limits = replace(own.limits, slots=slots, executors=nodes)
    return _Rules(limits, Guard(**times, quiet=quiet), own.backup)


def _ahead(quiet: Quiet, at: float) -> tuple[Quiet, ...]:
    """A quiet period as seen from a time of the run; nothing is left of one that is over."""
    if quiet.daily:
        return (quiet,)
    return (Quiet(max(0.0, quiet.first - at), quiet.last - at),) if quiet.last > at else ()


# --- the simulation ---------------------------------------------------------------------------


def _simulated(
    start: _Start, policy: str | Policy, rules: _Rules, model: Model, asked: Question
) -> Outcome:
    engine = SimulatorEngine(model, load=start.loads, seed=asked.seed, begin=start.begin)
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
            clock=replace(engine.clock, wall=lambda: start.time + engine.now),
        )
        spent = _spent([*history.snapshots(home)], asked.seconds)
    due = sum(load.offered(asked.seconds) for load in start.loads.values())
    return Outcome(
        summary.policy,
        summary.plan,
        due / asked.seconds,
        min(summary.rows_ingested, due + start.begin.owed) / asked.seconds,
        summary.latency,
        spent,
        len(summary.transitions),
    )


def _spent(snapshots: Sequence[Snapshot], seconds: float) -> float:
    """Slot-seconds until the time was up: what is under way then is finished, and not counted."""
    known = [(s.at, s.slot_seconds) for s in snapshots if s.slot_seconds is not None]
    at, spent = zip(*known, strict=True)
    return float(np.interp(seconds, at, spent))
