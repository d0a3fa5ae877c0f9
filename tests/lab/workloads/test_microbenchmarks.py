"""Linear, diamond and star: what is foreseen is what the operators do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock import workloads
from penstock.dataflow.generator import records
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import FlatMap, Map, Read, Union, Write
from penstock.errors import InvalidInput
from penstock_lab.workloads import costs
from tests.lab.workloads.doubles import flat_mapped, mapped


def inputs(graph: Graph, count: int) -> dict[str, pa.Table]:
    return {
        source.name: pa.Table.from_batches(records(source.body.source, 0, count))  # type: ignore[union-attr, arg-type]
        for source in graph.sources
    }


def interpret(graph: Graph, given: dict[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    """Run a dataflow of records record by record, in Python, paying every cost."""
    streams: dict[str, list[dict[str, Any]]] = {}
    for name in graph.topological:
        operator = graph[name]
        rows = [row for i in operator.inputs for row in streams[i]]
        match operator.body:
            case Read():
                streams[name] = given[name].to_pylist()
            case Map(function):
                streams[name] = [*mapped(function, rows)]
            case FlatMap(function):
                streams[name] = [*flat_mapped(function, rows)]
            case Union() | Write():
                streams[name] = rows
    return streams


@pytest.mark.parametrize("name", ["linear", "diamond", "star"])
@pytest.mark.parametrize("cost", ["cpu", "parse", "wait"])
@pytest.mark.parametrize("selectivity", [1.0, 0.5, 2.5])
def test_the_expected_rows_are_those_the_operators_make(
    name: str, cost: str, selectivity: float
) -> None:
    options = {"cost": cost, "selectivity": selectivity, "numbers": 137, "wait_ms": 0}
    options |= {"malformed": 0.1}
    graph = workloads.build(name, "out", **options).graph
    given = inputs(graph, 40)
    streams = interpret(graph, given)
    assert graph.expectations
    for expectation in graph.expectations:
        rows = [(row["id"], row["result"]) for row in streams[expectation.sink]]
        assert Counter(expectation.oracle(given)) == Counter(rows)
        assert rows
        assert set(streams[expectation.sink][0]) == {"id", "result"}


def test_a_selectivity_is_met_on_average() -> None:
    graph = workloads.build("linear", "out", selectivity=0.8).graph
    given = inputs(graph, 20_000)
    rows = list(graph.expectations[0].oracle(given))
    assert len(rows) / 20_000 == pytest.approx(0.8**3, abs=0.02)


def test_a_diamond_mixes_its_costs() -> None:
    graph = workloads.build("diamond", "out", numbers=5, wait_ms=0, malformed=0).graph
    steps = [graph[f"branch-{i}"].body.function.__self__ for i in (1, 2, 3, 4)]  # type: ignore[union-attr]
    assert [type(step.cost).__name__ for step in steps] == ["Cpu", "Parse", "Wait", "Wait"]
    given = inputs(graph, 10)
    assert Counter(i for i, _ in graph.expectations[0].oracle(given)) == dict.fromkeys(range(10), 4)


def test_the_sources_of_a_star_share_no_id() -> None:
    given = inputs(workloads.build("star", "out", malformed=0).graph, 50)
    ids = [i for table in given.values() for i in table["id"].to_pylist()]
    assert sorted(ids) == list(range(100))


def test_ten_thousand_random_numbers_can_be_foreseen() -> None:
    given = inputs(workloads.build("linear", "out", malformed=0).graph, 5)["orders"]
    step = costs.Step("s", costs.cpu())
    assert step.foresee(given).to_pylist() == [step.single(row) for row in given.to_pylist()]


def test_steps_can_be_shipped() -> None:
    step = costs.Step("s", costs.parse(), 1.5)
    row = inputs(workloads.build("linear", "out", malformed=0).graph, 1)["orders"].to_pylist()[0]
    several = cloudpickle.loads(cloudpickle.dumps(step.several))
    assert list(several(row)) == list(step.several(row))


def test_an_unknown_workload_gets_a_suggestion() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'wordcount'"):
        workloads.build("wordcout", "out")
    with pytest.raises(InvalidInput, match="known workloads: wordcount, synthetic-wordcount, "):
        workloads.describe("x")


def test_bad_options_are_refused() -> None:
    with pytest.raises(InvalidInput, match="has no option 'speed'"):
        workloads.build("linear", "out", speed=3)
    for name in ("linear", "diamond", "star"):
        with pytest.raises(InvalidInput, match="no cost 'gpu'"):
            workloads.build(name, "out", cost="gpu")
    with pytest.raises(InvalidInput, match="selectivity"):
        workloads.build("linear", "out", selectivity=-1)
