"""What would become of a flow under another load, another policy or on other machines.

The run's own history tells what things cost (`engines/simulator/calibration.py`); the simulator
then runs the flow twice: under today's plan left alone, and under the policy.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock import policies
from penstock.control import terms
from penstock.control.run import run
from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.operator import Read
from penstock.engines.simulator import modelfile
from penstock.engines.simulator.calibration import Quality, fit
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.modelfile import Fitted
from penstock.engines.simulator.observed import Recording, recording
from penstock.errors import InvalidInput
from penstock.models import load as loads
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.policy import Policy
from penstock.report.summary import LatencySummary, Summary

_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Question:
    """load: `x2` for twice the run's own, or a load profile; nodes: machines there are (None: as
    many as the run has); policy: None for the run's.
    """

    load: str = "x1"
    policy: str | Policy | None = None
    nodes: int | None = None
    seconds: float = 600.0
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What comes of it over the whole time; the plan is the one at the end.

    offered, throughput: rows a second that come to the sources and that are taken from them.
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
    plan = seen.plan
    nodes = question.nodes or plan.executors
    if nodes < plan.executors:
        plan = replace(plan, executors=nodes)
    due = _loads(seen, question.load)
    graph = _under(seen.graph, due)
    outcomes = [
        _simulated(graph, plan, one, fitted, nodes, question)
        for one in dict.fromkeys(("static", policy))
    ]
    shown = {name: str(load) for name, load in due.items()}
    return Answer(
        graph.name, shown, question.seconds, nodes, outcomes[0], outcomes[-1], quality, notes
    )


def _policy(run_dir: Path, wanted: str | Policy | None) -> str | Policy:
    """The policy that was asked for, or the run's own; checked before anything takes time."""
    if wanted is None:
        asked = terms.read(run_dir)
        wanted = asked[-1].policy if asked else "static"
    if isinstance(wanted, str):
        return "static" if wanted == "static" else policies.get(wanted)
    return wanted


def _loads(seen: Recording, text: str) -> dict[str, loads.Load]:
    """The load of each source."""
    names = [o.name for o in seen.graph.sources]
    factor = _FACTOR.fullmatch(text.strip())
    if factor is None:
        return dict.fromkeys(names, loads.parse(text))
    times = float(factor[1])
    asked = terms.read(seen.run_dir)
    own = asked[-1].loads if asked else {}
    found = {}
    for name in names:
        base = loads.parse(own[name]) if name in own else _measured(seen, name)
        found[name] = base.scaled(times)
    return found


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


def _under(graph: Graph, due: Mapping[str, loads.Load]) -> Graph:
    operators = []
    for operator in graph.operators:
        body = operator.body
        if isinstance(body, Read) and isinstance(body.source, Generator):
            source = replace(body.source, load=due[operator.name].portable)
            operator = replace(operator, body=Read(source))
        operators.append(operator)
    return replace(graph, operators=tuple(operators))


def _simulated(
    graph: Graph, plan: Plan, policy: str | Policy, fitted: Fitted, nodes: int, asked: Question
) -> Outcome:
    engine = SimulatorEngine(fitted.model(graph, nodes), seed=asked.seed)
    with tempfile.TemporaryDirectory(prefix="penstock-whatif-") as folder:
        summary = run(
            graph,
            policy=policy,
            plan=plan,
            engine=engine,
            seconds=asked.seconds,
            limits=Limits(executors=nodes),
            run_dir=Path(folder) / "run",
            verify=False,
            clock=engine.clock,
        )
    due = sum(loads.parse(text).offered(asked.seconds) for text in terms.loads(graph).values())
    return _outcome(summary, due, asked.seconds)


def _outcome(summary: Summary, due: int, seconds: float) -> Outcome:
    return Outcome(
        summary.policy,
        summary.plan,
        due / seconds,
        min(summary.rows_ingested, due) / seconds,
        summary.latency,
        summary.slot_seconds,
        len(summary.transitions),
    )
