"""A context as a file: written and read back, and what is wrong in one that a person wrote."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput, InvalidPlan
from penstock.metrics.snapshot import (
    ChannelMetrics,
    ExecutorMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline
from penstock.policies.base.policy import Context
from penstock.store import context_file
from penstock.store.serialization import plain
from tests.store.test_serialization import values
from tests.strategies import dataflows, few, plans


@few
@given(st.data())
def test_a_case_is_read_as_it_was_written(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    plan = data.draw(plans(graph))
    drawn = {p: data.draw(values(PipelineMetrics)) for p in plan.pipelines}
    measured = {p.name: possible(m, p) for p, m in drawn.items()}
    shot = Snapshot(3.0, 1.0, None, 0, 0, 0, measured)
    context = Context(graph, plan, (shot,), 3.5, Limits(slots=9))
    written = json.loads(json.dumps(context_file.to_json(context)))
    back = context_file.from_json(written)
    assert context_file.to_json(back) == written
    assert (back.plan, back.snapshots, back.now, back.limits) == (plan, (shot,), 3.5, Limits(9))


def possible(drawn: PipelineMetrics, pipeline: Pipeline) -> PipelineMetrics:
    """The same numbers, but none that cannot be."""
    found = positive(drawn)
    assert isinstance(found, PipelineMetrics)
    return replace(found, name=pipeline.name, parallelism=pipeline.parallelism)


def positive(value: Any) -> Any:
    """The same without what is below 0, or beyond measure."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: positive(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, dict):
        return {name: positive(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(map(positive, value))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return min(abs(value), 10**100) if number else value


def example() -> dict[str, Any]:
    from tests.control.doubles import flow

    graph = flow().graph
    shot = Snapshot(3.0, 1.0, None, 0, 0, 0, {"numbers": PipelineMetrics("numbers", 1)})
    return context_file.to_json(Context(graph, fusion.default_plan(graph, 1), (shot,), 3.5))


def test_a_case_needs_neither_limits_nor_a_time() -> None:
    data = {k: v for k, v in example().items() if k not in ("limits", "now")}
    assert (context_file.from_json(data).now, context_file.from_json(data).limits) == (
        3.0,
        Limits(),
    )


@pytest.mark.parametrize(
    ("part", "value", "error", "message"),
    [
        ("plan", {"pipelines": [{"operators": ["numbers"]}]}, InvalidPlan, "is in no pipeline"),
        ("plan", None, InvalidPlan, "plan: a plan is written as"),
        ("plan", {"pipelines": [], "executor": 2}, InvalidInput, "plan: nothing is called 'execut"),
        ("dataflow", {}, InvalidInput, "dataflow: 'operators' cannot be left out"),
        ("dataflow", 3, InvalidInput, "dataflow: 3 where an object has to stand"),
        ("snapshots", 3, InvalidInput, "'snapshots' is a list"),
        ("snapshots", [3], InvalidInput, r"snapshots\[0\]: 3 where an object has to stand"),
        ("snapshots", [{}], InvalidInput, r"snapshots\[0\]: 'at' and 'window' cannot be left out"),
        ("limits", {"slots": 0}, InvalidInput, "limits: a budget of 0 slots runs nothing"),
        ("limits", {"slot": 3}, InvalidInput, "limits: nothing is called 'slot' here; did you m"),
        ("limits", [1], InvalidInput, r"limits: \[1\] where an object has to stand"),
        ("now", "late", InvalidInput, "'now' is a number of seconds"),
        ("now", math.nan, InvalidInput, "'now' is a number of seconds, found nan"),
        ("now", 2, InvalidInput, "'now' is 2 s, before the last snapshot, which is at 3 s"),
        ("snapshot", {}, InvalidInput, "the case: nothing is called 'snapshot' here; did you mean"),
    ],
)
def test_a_bad_case_is_one_clear_message(
    part: str, value: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        context_file.from_json({**example(), part: value})
    with pytest.raises(InvalidInput, match="a case is written as"):
        context_file.from_json({k: v for k, v in example().items() if k != "snapshots"})


@pytest.mark.parametrize(
    ("at", "changes", "message"),
    [
        (1, {"inputs": ["gone"]}, "[1]: 'double': reads 'gone', which is no operator"),
        (1, {"inputs": ["double"]}, "[1]: it is part of the cycle double -> double"),
        (2, {"name": "double"}, "[2]: the name 'double' is taken by operators[1]"),
        (1, {"bounds": {"least": 5, "most": 2}}, "[1].bounds: least 5 is above most 2"),
        (1, {"bounds": {"least": 0}}, "[1].bounds: least is 0, it must be at least 1"),
        (1, {"bounds": {"max": 2}}, "[1].bounds: nothing is called 'max' here; known are least"),
        (1, {"form": "dance"}, "[1].form: no operator is a 'dance'; known are read, write, "),
        (1, {"state": "keyed"}, "[1].state: a map operator without keys is stateless, not keyed"),
        (1, {"state": "liquid"}, "[1].state: 'liquid' is none of source, stateless, keyed"),
        (1, {"form": None, "state": None}, "[1]: it says neither its 'form' nor its 'state'"),
        (1, {"colour": "blue"}, "[1]: nothing is called 'colour' here; known are name, form"),
        (1, {"inputs": "numbers"}, "[1].inputs: 'numbers' where a list has to stand"),
        (0, {"form": "map", "state": "stateless"}, ": none of them is a source"),
        (2, {"inputs": []}, "[0]: 'numbers': its records reach no sink"),
    ],
)
def test_a_dataflow_that_is_none_is_told(at: int, changes: dict[str, object], message: str) -> None:
    data = example()
    data["dataflow"]["operators"][at].update(changes)
    with pytest.raises(InvalidInput) as told:
        context_file.from_json(data)
    assert f"dataflow.operators{message}" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"last": "zz"}, "[0]: 'numbers->zz' names 'zz', which is no operator of this dataflow"),
        ({"first": "out"}, "[0]: 'out->double' spans operators that are not connected"),
        ({"latency": -1}, "[0]: 'numbers->double' has a latency of -1 s: it must be positive"),
        ({"latency": "1s"}, "[0].latency: '1s' where a number has to stand"),
        ({"latency": math.nan}, "[0].latency: nan where a number has to stand"),
        ({"laten": 1}, "[0]: nothing is called 'laten' here; did you mean 'latency'?"),
    ],
)
def test_constraints_that_cannot_be_are_told(changes: dict[str, object], message: str) -> None:
    data = example()
    data["dataflow"]["constraints"][0].update(changes)
    with pytest.raises(InvalidInput) as told:
        context_file.from_json(data)
    assert f"dataflow.constraints{message}" in str(told.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate_inn": 5}, ": nothing is called 'rate_inn' here; did you mean 'rate_in'?"),
        ({"rate_in": "x"}, ".rate_in: 'x' where a number has to stand"),
        ({"rate_in": -5}, ".rate_in: -5 is below 0"),
        ({"wait": -0.5}, ".wait: -0.5 is below 0"),
        ({"rows_in": -1}, ".rows_in: -1 is below 0"),
        ({"arrival_cv": -2}, ".arrival_cv: -2 is below 0"),
        ({"parts": {"work": -1}}, ".parts.work: -1 is below 0"),
        ({"instances": [{"index": 0, "rows": -3}]}, ".instances[0].rows: -3 is below 0"),
        ({"busy": math.nan}, ".busy: nan where a finite number has to stand"),
        ({"parallelism": 0}, ".parallelism: 0 is below 1"),
        ({"parallelism": True}, ".parallelism: True where a whole number has to stand"),
        ({"name": "double"}, ".name: it is called 'double'"),
        ({"instances": "abc"}, ".instances: 'abc' where a list has to stand"),
        ({"instances": [{}]}, ".instances[0]: 'index' cannot be left out"),
        ({"parts": 3}, ".parts: 3 where an object has to stand"),
    ],
)
def test_measurements_that_cannot_be_are_told(changes: dict[str, object], message: str) -> None:
    data = example()
    data["snapshots"][0]["pipelines"]["numbers"].update(changes)
    with pytest.raises(InvalidInput) as told:
        context_file.from_json(data)
    assert f"snapshots[0].pipelines.numbers{message}" in str(told.value)


def test_snapshots_are_listed_oldest_first() -> None:
    data = example()
    data["snapshots"].append({**data["snapshots"][0], "at": 1.0})
    with pytest.raises(InvalidInput, match=r"snapshots\[1\].at: 1 s is before the 3 s of the one"):
        context_file.from_json(data)
    data["snapshots"] = [{"at": -1, "window": 1}]
    with pytest.raises(InvalidInput, match=r"snapshots\[0\].at: -1 is no time of 0 s or more"):
        context_file.from_json(data)


def test_what_follows_from_the_rest_of_a_case_need_not_be_written() -> None:
    steps = [
        {"name": "in", "state": "source"},
        {"name": "count", "form": "aggregate", "keys": ["word"], "inputs": ["in"]},
        {"name": "all", "state": "global", "inputs": ["count"]},
        {"name": "out", "state": "sink", "inputs": ["all"]},
    ]
    pipelines = [{"operators": ["in"]}, {"operators": ["count"], "parallelism": 3}]
    found = context_file.from_json(
        {
            "dataflow": {
                "name": "words",
                "operators": steps,
                "constraints": [{"first": "in", "last": "out", "latency": 2}],
            },
            "plan": {"pipelines": [*pipelines, {"operators": ["all", "out"]}]},
            "snapshots": [
                {
                    "at": 10,
                    "window": 5,
                    "pipelines": {"in": {"rate_in": 7}, "count": {}},
                    "operators": {"count": {"rate_in": 7}},
                    "channels": {"in>count": {"backlog_rows": 3}},
                    "executors": {"1": {"slots": 4}},
                    "latency": {"in->out": {"mean": 1.5}},
                }
            ],
        }
    )
    (shot,) = found.snapshots
    assert found.graph["all"].bounds.most == 1
    assert found.graph["count"].state.value == "keyed"
    assert (found.now, shot.throughput, shot.rows_ingested) == (10, 7, 0)
    assert shot.pipelines["count"] == PipelineMetrics("count", 3)
    assert shot.operators["count"] == OperatorMetrics("count", rate_in=7)
    assert shot.channels["in>count"] == ChannelMetrics("in", "count", 3)
    assert shot.executors["1"] == ExecutorMetrics("1", 4)
    assert (shot.latency["in->out"].bound, shot.latency["in->out"].met) == (2, True)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("pipelines", {"tweets": plain(PipelineMetrics("tweets", 1))}),
        ("operators", {"tweets": plain(OperatorMetrics("tweets"))}),
        ("executors", {"1": plain(ExecutorMetrics("1", 2, instances={"tweets": 1}))}),
        ("channels", {"numbers>tweets": plain(ChannelMetrics("numbers", "tweets"))}),
        ("sinks", {"tweets": 7}),
    ],
)
def test_snapshots_of_another_flow_are_told(part: str, value: object) -> None:
    data = example()
    data["snapshots"][0][part] = value
    with pytest.raises(
        InvalidInput, match="snapshots are of another dataflow: 'tweets' is no operator of 'number"
    ):
        context_file.from_json(data)
