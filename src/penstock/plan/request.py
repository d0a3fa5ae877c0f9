"""Requests: changes that a person asks of the plan of a running flow, as values.

A pipeline is named by any of its operators. `apply` is pure: it returns another plan that fits the
dataflow, or raises `Refused` or `InvalidPlan`. `parse` reads what `str` writes.

`ScaleOut` and `ScaleIn` also need measurements; `penstock.control.requests.decide` carries out any
request.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from penstock.dataflow import duration
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.errors import InvalidInput, Refused
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Scale:
    """Give a pipeline another number of instances."""

    operator: str
    parallelism: int

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        pipeline = _pipeline_of(plan, graph, self.operator)
        limits = fusion.bounds(graph, pipeline.operators)
        what = f"'{self.operator}' cannot run with parallelism {self.parallelism}: its pipeline "
        above = limits.most is not None and self.parallelism > limits.most
        if above or self.parallelism < limits.least:
            most = "or more" if limits.most is None else f"to {limits.most}"
            raise Refused(f"{what}({_chain(pipeline.operators)}) allows {limits.least} {most}")
        if pipeline.ceiling is not None and self.parallelism > pipeline.ceiling:
            raise Refused(
                f"{what}has {pipeline.ceiling} state partitions; ask for more of them first, "
                f"{self.operator}.ceiling={self.parallelism}"
            )
        return _with_settings(plan, graph, self.operator, parallelism=self.parallelism)

    def __str__(self) -> str:
        return f"{self.operator}={self.parallelism}"


@dataclass(frozen=True)
class SetCadence:
    """Give a pipeline another time between batches, in seconds."""

    operator: str
    seconds: float

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        return _with_settings(plan, graph, self.operator, cadence=self.seconds)

    def __str__(self) -> str:
        return f"{self.operator}.cadence={duration.text(self.seconds)}"


@dataclass(frozen=True)
class SetAdmission:
    """Give a pipeline another limit on the rows of a batch: None is no limit, 0 takes nothing."""

    operator: str
    rows: int | None

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        return _with_settings(plan, graph, self.operator, admission=self.rows)

    def __str__(self) -> str:
        return f"{self.operator}.admission={'unlimited' if self.rows is None else self.rows}"


@dataclass(frozen=True)
class SetCeiling:
    """Give a pipeline another number of state partitions; None leaves it to the engine."""

    operator: str
    parts: int | None

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        return _with_settings(plan, graph, self.operator, ceiling=self.parts)

    def __str__(self) -> str:
        return f"{self.operator}.ceiling={'automatic' if self.parts is None else self.parts}"


@dataclass(frozen=True)
class SetExecutors:
    """Run with another number of executors."""

    count: int

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        return replace(plan, executors=self.count)

    def __str__(self) -> str:
        return f"executors={self.count}"


@dataclass(frozen=True)
class RemoveExecutor:
    """Remove a certain executor."""

    executor: str

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        if plan.executors == 1:
            raise Refused(f"executor '{self.executor}' is the only one, so it cannot leave")
        leaving = (*plan.leaving, self.executor)
        return replace(plan, executors=plan.executors - 1, leaving=leaving)

    def __str__(self) -> str:
        return f"without={self.executor}"


@dataclass(frozen=True)
class Fuse:
    """Fuse the two neighbouring pipelines that hold these operators.

    The result gets the larger parallelism, the longer cadence and the smaller admission of the two,
    and the ceiling of the one with state. Its parallelism is clipped to its bounds.
    """

    first: str
    second: str

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        one = _pipeline_of(plan, graph, self.first)
        other = _pipeline_of(plan, graph, self.second)
        if one is other:
            return plan
        if not (_reads(graph, one, other) or _reads(graph, other, one)):
            raise Refused(
                f"'{self.first}' and '{self.second}' cannot be fused: their pipelines "
                f"({_chain(one.operators)} and {_chain(other.operators)}) are not adjacent"
            )
        both = (one, other)
        fused = _pipeline(
            graph,
            {*one.operators, *other.operators},
            parallelism=max(p.parallelism for p in both),
            admission=min((p.admission for p in both if p.admission is not None), default=None),
            cadence=max(p.cadence for p in both),
            ceiling=next((p.ceiling for p in both if p.ceiling is not None), None),
        )
        return _with_pipelines(plan, graph, both, [fused])

    def __str__(self) -> str:
        return f"fuse {self.first} {self.second}"


@dataclass(frozen=True)
class Split:
    """Cut a pipeline in front of an operator, so that a pipeline begins there.

    What feeds the operator becomes a pipeline of its own, one for each input inside the pipeline.
    All parts keep cadence, admission and, within their bounds, parallelism; the part with the
    state keeps the ceiling.
    """

    operator: str

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        whole = _pipeline_of(plan, graph, self.operator)
        inside = [name for name in graph[self.operator].inputs if name in whole.operators]
        if not inside:
            raise Refused(
                f"there is nothing to split: '{self.operator}' is already the first operator of "
                f"its pipeline ({_chain(whole.operators)})"
            )
        if graph[self.operator].state is State.SINK:  # other sinks stay where they are
            cut = [{self.operator}]
        else:
            cut = [_upstream(graph, name, whole.operators) for name in inside]
        parts = [
            _pipeline(graph, part, whole.parallelism, whole.admission, whole.cadence, whole.ceiling)
            for part in (*cut, set(whole.operators).difference(*cut))
        ]
        return _with_pipelines(plan, graph, [whole], parts)

    def __str__(self) -> str:
        return f"split {self.operator}"


@dataclass(frozen=True)
class Pause:
    """Stop taking rows from all sources; rows in flight go on to their sinks."""

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        for source in graph.sources:
            plan = plan.with_pipeline(source.name, admission=0)
        return plan

    def __str__(self) -> str:
        return "pause"


@dataclass(frozen=True)
class Resume:
    """Let every paused pipeline take rows again, without a limit: a plan knows no earlier one."""

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        pipelines = (replace(p, admission=None) if p.admission == 0 else p for p in plan.pipelines)
        return replace(plan, pipelines=tuple(pipelines))

    def __str__(self) -> str:
        return "resume"


@dataclass(frozen=True)
class ScaleOut:
    """Add executors, and fill them with instances where these gain most."""

    executors: int

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        raise Refused(f"'{self}' is decided from measurements, and a plan has none")

    def __str__(self) -> str:
        return f"scale-out {self.executors}"


@dataclass(frozen=True)
class ScaleIn:
    """Remove the executors whose loss costs least."""

    executors: int

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        raise Refused(f"'{self}' is decided from measurements, and a plan has none")

    def __str__(self) -> str:
        return f"scale-in {self.executors}"


class Mode(Enum):
    """What the policy of a run may do: change the plan, say what it would change, or nothing."""

    ON = "on"
    ADVISE = "advise"
    OFF = "off"


@dataclass(frozen=True)
class SetPolicyMode:
    """Give the policy another mode; the plan stays as it is."""

    mode: Mode

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        return plan

    def __str__(self) -> str:
        return f"policy {self.mode.value}"


@dataclass(frozen=True)
class RequestList:
    """Several requests as one change, each applied to the result of the one before."""

    requests: tuple[Request, ...]

    def apply(self, plan: Plan, graph: Graph) -> Plan:
        for request in self.requests:
            plan = request.apply(plan, graph)
        return plan

    def __str__(self) -> str:
        return ", ".join(map(str, self.requests))


Request = (
    Scale
    | SetCadence
    | SetAdmission
    | SetCeiling
    | SetExecutors
    | RemoveExecutor
    | Fuse
    | Split
    | Pause
    | Resume
    | ScaleOut
    | ScaleIn
    | SetPolicyMode
    | RequestList
)

FORMS = (
    "count=4, count.cadence=500ms, count.admission=1000 (or unlimited), count.ceiling=16 (or "
    "automatic), executors=2, without=3 (that executor), fuse parse count, split "
    "count, pause, resume, scale-out 2, scale-in 1, policy on (or advise, off), or several with "
    "commas"
)


def parse(text: str) -> Request:
    """Read a request; see `FORMS`. Raises `InvalidInput`."""
    requests = tuple(_one(part.strip(), text) for part in text.split(","))
    return requests[0] if len(requests) == 1 else RequestList(requests)


def check(request: Request, graph: Graph) -> None:
    """Raise `Refused` if a request names an operator that the dataflow does not have."""
    for name in _operators(request):
        _check_operator(graph, name)


# --- reading ------------------------------------------------------------------------------------


def _one(part: str, text: str) -> Request:
    match part.split():
        case ["pause"]:
            return Pause()
        case ["resume"]:
            return Resume()
        case ["fuse", first, second]:
            return Fuse(first, second)
        case ["split", operator]:
            return Split(operator)
        case ["scale-out", number]:
            return ScaleOut(_executors(part, number))
        case ["scale-in", number]:
            return ScaleIn(_executors(part, number))
        case ["policy", mode] if mode in {m.value for m in Mode}:
            return SetPolicyMode(Mode(mode))
    name, _, value = (word.strip() for word in part.partition("="))
    if not name or not value or " " in name:
        raise InvalidInput(f"cannot read the request '{text}': write {FORMS}")
    if name == "executors":
        return SetExecutors(_number(part, value))
    if name == "without":
        return RemoveExecutor(value)
    operator, _, setting = name.rpartition(".")
    match setting if operator else "":
        case "cadence":
            return SetCadence(operator, duration.seconds(value))
        case "admission":
            return SetAdmission(operator, None if value == "unlimited" else _number(part, value))
        case "ceiling":
            return SetCeiling(operator, None if value == "automatic" else _number(part, value))
        case _:  # operators may have dots in their names
            return Scale(name, _number(part, value))


def _number(part: str, value: str) -> int:
    if not value.isdecimal():
        raise InvalidInput(
            f"cannot read the request '{part}': '{value}' is no whole number of 0 or more"
        )
    if len(value) > _MAX_DIGITS:
        raise InvalidInput(f"cannot read the request '{part[:40]}...': the number is too large")
    return int(value)


_MAX_DIGITS = 9


def _executors(part: str, value: str) -> int:
    number = _number(part, value)
    if number < 1:
        raise InvalidInput(f"cannot read the request '{part}': write 1 or more executors")
    if number > _MAX_EXECUTORS:
        raise InvalidInput(
            f"cannot read the request '{part}': write at most {_MAX_EXECUTORS} executors"
        )
    return number


_MAX_EXECUTORS = 10_000


def _operators(request: Request) -> Iterator[str]:
    match request:
        case RequestList(requests):
            for one in requests:
                yield from _operators(one)
        case Fuse(first, second):
            yield from (first, second)
        case Scale() | SetCadence() | SetAdmission() | SetCeiling() | Split():
            yield request.operator


# --- plans --------------------------------------------------------------------------------------


def _check_operator(graph: Graph, operator: str) -> None:
    if operator not in graph:
        close = difflib.get_close_matches(operator, list(graph.by_name), n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(graph.by_name)}"
        raise Refused(f"'{operator}' is no operator of '{graph.name}'; {hint}")


def _pipeline_of(plan: Plan, graph: Graph, operator: str) -> Pipeline:
    _check_operator(graph, operator)
    return plan.pipeline_of(operator)


def _with_settings(plan: Plan, graph: Graph, operator: str, **settings: Any) -> Plan:
    _check_operator(graph, operator)
    return _checked(plan.with_pipeline(operator, **settings), graph)


def _with_pipelines(
    plan: Plan, graph: Graph, old: Sequence[Pipeline], new: Sequence[Pipeline]
) -> Plan:
    kept = (p for p in plan.pipelines if p not in old)
    return _checked(replace(plan, pipelines=(*kept, *new)), graph)


def _checked(plan: Plan, graph: Graph) -> Plan:
    fusion.check(plan, graph)
    return plan


def _pipeline(
    graph: Graph,
    members: Collection[str],
    parallelism: int,
    admission: int | None,
    cadence: float,
    ceiling: int | None,
) -> Pipeline:
    """Make a pipeline of these operators, with parallelism and ceiling cut to what fits."""
    operators = tuple(name for name in graph.topological if name in members)
    if not any(graph[name].stateful for name in operators):
        ceiling = None
    limits = fusion.bounds(graph, operators)
    most = min(n for n in (parallelism, limits.most, ceiling) if n is not None)
    return Pipeline(operators, max(most, limits.least), admission, cadence, ceiling)


def _reads(graph: Graph, reader: Pipeline, writer: Pipeline) -> bool:
    return any(i in writer.operators for name in reader.operators for i in graph[name].inputs)


def _upstream(graph: Graph, operator: str, members: Sequence[str]) -> set[str]:
    """Return an operator and everything upstream of it inside a pipeline."""
    inside = (name for name in graph[operator].inputs if name in members)
    return {operator}.union(*(_upstream(graph, name, members) for name in inside))


def _chain(operators: Sequence[str]) -> str:
    return "+".join(operators)
