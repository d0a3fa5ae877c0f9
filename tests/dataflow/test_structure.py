from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Bounds, State
from penstock.dataflow.schema import Schema
from penstock.dataflow.structure import from_json, to_json
from penstock.errors import InvalidInput
from tests.strategies import dataflows, few, nothing


def small() -> Graph:
    flow = Dataflow("small")
    words = flow.source("in", Generator(nothing, "word string"))
    count = words.frame("parse", nothing).key_by("word").aggregate("count", n="count(*)")
    count.sink("out", Memory(), max_parallelism=2)
    flow.constrain("in", "out", latency="2s")
    return flow.graph


def test_everything_that_can_be_seen_of_an_operator_is_in_it() -> None:
    data = to_json(small())
    count = data["operators"][2]
    assert count.pop("written")["file"] == __file__
    assert count == {
        "name": "count",
        "form": "aggregate",
        "state": "keyed",
        "inputs": ["parse"],
        "keys": ["word"],
        "schema": None,
        "bounds": {"least": 1, "most": None},
        "latency": "read-ready",
        "selectivity": "workload-dependent",
        "on_error": "dead-letter",
    }
    assert data["operators"][0]["schema"] == [{"name": "word", "type": "string"}]
    assert data["constraints"][0]["latency"] == 2.0
    assert data["constraints"][0]["window"] == 10.0


def test_schemas_known_from_elsewhere_are_written_and_passed_on() -> None:
    data = to_json(small(), {"count": Schema.of("word string, n bigint")})
    columns = [{"name": "word", "type": "string"}, {"name": "n", "type": "bigint"}]
    assert data["operators"][2]["schema"] == columns
    assert data["operators"][3]["schema"] == columns


def test_it_is_read_back_as_a_value() -> None:
    graph = small()
    structure = from_json(to_json(graph))
    assert structure.name == "small"
    assert structure.operators[2].state is State.KEYED
    assert structure.operators[3].bounds == Bounds(1, 2)
    assert structure.constraints == graph.constraints


@few
@given(dataflows())
def test_any_dataflow_survives_the_round_trip_through_text(graph: Graph) -> None:
    data = to_json(graph)
    assert from_json(json.loads(json.dumps(data))).to_json() == data


@pytest.mark.parametrize(
    "data", [{}, [], 3, {"name": "x", "operators": [{}], "constraints": []}, {"name": "x"}]
)
def test_something_else_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInput, match="not the structure of a dataflow"):
        from_json(data)


def test_an_unknown_state_is_refused() -> None:
    data = to_json(small())
    data["operators"][0]["state"] = "liquid"
    with pytest.raises(InvalidInput, match="liquid"):
        from_json(data)
