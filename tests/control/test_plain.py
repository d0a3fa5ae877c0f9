from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.control.loop import Tick
from penstock.dataflow import structure
from penstock.dataflow.graph import Graph
from penstock.dataflow.regions import regions
from penstock.errors import InvalidInput, InvalidPlan, RunDirectoryError
from penstock.metrics.snapshot import (
    ChannelMetrics,
    ExecutorMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context
from penstock.store import context_file
from penstock.store.history import (
    FILE,
    History,
    dataflow,
    keep_dataflow,
    seen,
    snapshots,
    transitions,
)
from penstock.store.serialization import plain, restored
from tests.strategies import dataflows, few, plans

SIMPLE: dict[object, st.SearchStrategy[Any]] = {
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(),
    str: st.text(max_size=4),
    bool: st.booleans(),
}
STORED = {**SIMPLE, int: st.integers(-(2**63), 2**63 - 1)}
"""What a column takes; the counts of a run are below that."""


@cache
def values(kind: Any, stored: bool = False) -> st.SearchStrategy[Any]:
    """Anything that a type allows, every field of a dataclass filled."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in SIMPLE:
        return (STORED if stored else SIMPLE)[kind]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{name: values(one, stored) for name, one in hints.items()})  # type: ignore
    if origin is UnionType:
        return st.none() | values(next(one for one in inner if one is not type(None)), stored)
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*(values(one, stored) for one in inner))
    if origin is tuple:
        return st.lists(values(inner[0], stored), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(values(inner[0], stored), max_size=2)
    return st.dictionaries(values(inner[0], stored), values(inner[1], stored), max_size=2)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values(Snapshot))
def test_a_snapshot_is_read_as_it_was_written(snapshot: Snapshot) -> None:
    written = json.loads(json.dumps(plain(snapshot), allow_nan=False))
    assert restored(Snapshot, written) == snapshot


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(values(Snapshot, stored=True), min_size=1, max_size=2), values(Transition, stored=True)
)
def test_a_history_is_read_as_it_was_written(found: list[Snapshot], made: Transition) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), lambda: 1.7e9, pytest.fail)
        for snapshot in found:
            history.append(Tick(1.0, ONE, snapshot, transition=made))
        history.close()
        assert [*snapshots(Path(folder))] == found
        assert [one.snapshot for one in seen(Path(folder), turns=[len(found)])] == found[-1:]
        assert [one.transition for one in transitions(Path(folder))] == [made] * len(found)


def test_what_is_not_finite_is_not_measured() -> None:
    value = PipelineMetrics("a", 1, rate_in=math.inf, busy=math.nan)
    back = restored(PipelineMetrics, plain(value))
    assert back.rate_in is None
    assert back.busy is None


def test_numbers_of_numpy_are_numbers() -> None:
    assert json.dumps(plain({"a": np.int64(3), "b": np.float32(0.5), "c": np.float64("inf")})) == (
        '{"a": 3, "b": 0.5, "c": null}'
    )


def test_what_is_missing_has_its_default_and_what_is_strange_is_left_out() -> None:
    data = {"name": "a", "parallelism": 2, "colour": "blue"}
    assert restored(PipelineMetrics, data) == PipelineMetrics("a", 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "this is no PipelineMetrics: .*missing"),
        ({"name": 3, "parallelism": 1}, "3 where a text has to stand"),
        ({"name": "a", "parallelism": 1.5}, "1.5 where a whole number has to stand"),
        ({"name": "a", "parallelism": 1, "busy": "much"}, "'much' where a number has to stand"),
        ({"name": "a", "parallelism": 1, "parts": [1]}, "this is no PipelineMetrics"),
        (7, "this is no PipelineMetrics"),
    ],
)
def test_what_is_something_else_is_told(data: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        restored(PipelineMetrics, data)


# --- a run directory ----------------------------------------------------------------------------

ONE = Plan((Pipeline(("a", "b"), 3),))
TWO = Plan((Pipeline(("a",)), Pipeline(("b",), cadence=0.5)), 2)


def recorded(run_dir: Path, *turns: tuple[float, Plan]) -> None:
    history = History(run_dir, lambda: 1.7e9)
    for at, plan in turns:
        metrics = {p.name: PipelineMetrics(p.name, p.parallelism) for p in plan.pipelines}
        history.append(Tick(at, plan, Snapshot(at, 5.0, None, 10, 9, 1, metrics)))
    history.close()


def sql(run_dir: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(run_dir / FILE)) as connection, connection:
        return [*connection.execute(statement)]


def test_snapshots_come_back_with_the_plan_they_were_measured_under(tmp_path: Path) -> None:
    recorded(tmp_path, (1.0, ONE), (2.0, ONE), (3.0, TWO))
    recorded(tmp_path, (4.0, TWO), (5.0, ONE))
    found = [*seen(tmp_path)]
    assert [one.plan for one in found] == [ONE, ONE, TWO, TWO, ONE]
    assert [one.first for one in found] == [True, False, False, True, False]
    assert [*snapshots(tmp_path)] == [one.snapshot for one in found]
    assert found[0].snapshot.pipelines == {"a": PipelineMetrics("a", 3)}
    (kept,) = sql(tmp_path, "SELECT count(*) FROM plans")
    assert kept == (2,)


def test_snapshots_without_a_plan_cannot_be_played(tmp_path: Path) -> None:
    recorded(tmp_path, (1.0, ONE))
    sql(tmp_path, "UPDATE snapshots SET plan = NULL")
    assert len([*snapshots(tmp_path)]) == 1
    with pytest.raises(RunDirectoryError, match="do not say under which plan"):
        list(seen(tmp_path))


def test_a_directory_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="holds no run that can be read: dataflow"):
        dataflow(tmp_path)
    (tmp_path / "dataflow.json").write_text("{")
    with pytest.raises(InvalidInput, match="is not JSON"):
        dataflow(tmp_path)
    (tmp_path / "dataflow.json").write_text("[]")
    with pytest.raises(InvalidInput, match="not the structure of a dataflow"):
        dataflow(tmp_path)


# --- a dataflow without its functions -----------------------------------------------------------


@few
@given(dataflows())
def test_a_dataflow_looks_the_same_without_its_functions(graph: Graph) -> None:
    hollow = structure.from_json(json.loads(json.dumps(structure.to_json(graph)))).graph()
    assert structure.to_json(hollow) == structure.to_json(graph)
    assert hollow.topological == graph.topological
    assert [o.state for o in hollow.operators] == [o.state for o in graph.operators]
    assert regions(hollow) == regions(graph)


@few
@given(st.data())
def test_its_plans_are_the_same_too(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    hollow = structure.from_json(structure.to_json(graph)).graph()
    fusion.check(data.draw(plans(graph)), hollow)


def test_a_form_that_is_none_is_told() -> None:
    from .doubles import flow

    data = structure.to_json(flow().graph)
    data["operators"][1]["form"] = "dance"
    with pytest.raises(InvalidInput, match="no operator is a 'dance'"):
        structure.from_json(data).graph()


def test_the_dataflow_is_kept_with_its_run(tmp_path: Path) -> None:
    from .doubles import flow

    graph = flow().graph
    keep_dataflow(tmp_path, graph)
    assert structure.to_json(dataflow(tmp_path)) == structure.to_json(graph)


# --- a case -------------------------------------------------------------------------------------


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
    from .doubles import flow

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
