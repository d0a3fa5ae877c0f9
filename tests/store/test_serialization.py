from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataflow import structure
from penstock.dataflow.graph import Graph
from penstock.dataflow.regions import regions
from penstock.errors import InvalidInput, RunDirectoryError
from penstock.metrics.snapshot import (
    PipelineMetrics,
    Snapshot,
)
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store.history import (
    FILE,
    History,
    dataflow,
    keep_dataflow,
    recorded_snapshots,
    snapshots,
    transitions,
)
from penstock.store.serialization import plain, restored
from penstock.store.turn import Tick
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
        assert [
            one.snapshot for one in recorded_snapshots(Path(folder), turns=[len(found)])
        ] == found[-1:]
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
    found = [*recorded_snapshots(tmp_path)]
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
        list(recorded_snapshots(tmp_path))


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
    from tests.control.doubles import flow

    data = structure.to_json(flow().graph)
    data["operators"][1]["form"] = "dance"
    with pytest.raises(InvalidInput, match="no operator is a 'dance'"):
        structure.from_json(data).graph()


def test_the_dataflow_is_kept_with_its_run(tmp_path: Path) -> None:
    from tests.control.doubles import flow

    graph = flow().graph
    keep_dataflow(tmp_path, graph)
    assert structure.to_json(dataflow(tmp_path)) == structure.to_json(graph)
