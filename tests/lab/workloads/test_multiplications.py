"""Multiplication operators with state: what is foreseen is what they do, whatever the batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import workloads
from penstock.dataflow.generator import records
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import FlatMap, Map, Process, Read, Union, Write
from penstock.errors import InvalidInput
from penstock_lab.workloads import multiply
from tests.lab.workloads.doubles import flat_mapped, mapped, processed

SMALL: dict[str, dict[str, Any]] = {
    "region-4": {"multiplications": "7,5,3,2"},
    "region-5": {"multiplications": "7,5,3,2,9"},
    "regions-7": {"scale": 0.02},
    "tree": {"multiplications": 5},
    "reverse-tree": {"multiplications": 5},
    "chain-2": {"multiplications": 16, "ratio": 8},
    "chain-4": {"multiplications": 5},
    "selectivity": {"multiplications": "7,5,3,2"},
}


def interpret(
    graph: Graph, given: dict[str, pa.Table], size: int
) -> dict[str, list[dict[str, Any]]]:
    """Run a dataflow in Python, in batches of so many records at every keyed operator."""
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
            case Process(make):
                batches = [rows[i : i + size] for i in range(0, len(rows), size)]
                assert operator.schema is not None
                streams[name] = [
                    dict(zip(operator.schema.names, values, strict=True))
                    for values in processed(make, operator.keys, batches)
                ]
            case Union() | Write():
                streams[name] = rows
    return streams


def last(rows: list[dict[str, Any]], key: str) -> Iterator[tuple[Any, ...]]:
    return (tuple(row.values()) for row in {row[key]: row for row in rows}.values())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_expected_sums_are_those_the_operators_make(name: str, size: int) -> None:
    graph = workloads.build(name, "out", keys=9, malformed=0.05, **SMALL[name]).graph
    given = {
        source.name: pa.Table.from_batches(records(source.body.source, 0, 300))  # type: ignore
        for source in graph.sources
    }
    streams = interpret(graph, given, size)
    for expectation in graph.expectations:
        found = Counter(last(streams[expectation.sink], expectation.keys[0]))
        assert Counter(expectation.oracle(given)) == found
        assert found


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(12)))
def test_a_sum_does_not_depend_on_the_order(order: list[int]) -> None:
    tally = multiply.Tally(multiply.step("m", 3, ("b",)), "b")
    rows = [{"id": i, "b": i % 2, "result": i * 2**59 % 2**63} for i in range(12)]
    found = {
        key: (n, total)
        for key, n, total in processed(_only(tally), ("b",), [[rows[i]] for i in order])
    }
    assert {(key, *entry) for key, entry in found.items()} == set(
        tally.rows(pa.Table.from_pylist(rows))
    )


def _only(tally: multiply.Tally) -> Any:
    return lambda: multiply._Tallying(tally)


def test_records_of_the_selectivity_experiment_grow_and_shrink() -> None:
    graph = workloads.build("selectivity", "out").graph
    source: Any = graph["numbers"].body
    given = {"numbers": pa.Table.from_batches(records(source.source, 0, 8000))}
    rows = list(graph.expectations[0].oracle(given))
    assert sum(n for _, n, _ in rows) / 8000 == pytest.approx(4 * 0.25 * 0.5, abs=0.03)


def test_the_second_region_of_a_chain_may_be_cheap() -> None:
    graph = workloads.build("chain-2", "out", multiplications=32, ratio=8).graph
    costs = [graph[f"multiply-{i}"].estimate for i in (1, 2)]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0].seconds - costs[1].seconds == pytest.approx(28 * 1e-7)


def test_keys_are_skewed_as_told() -> None:
    def top(exponent: float) -> float:
        made = multiply.Numbers(("a",), 100, exponent)
        rng = np.random.Generator(np.random.PCG64(0))
        keys = made(rng, np.arange(20_000), np.zeros(20_000))["a"]
        return float(np.bincount(keys).max() / len(keys))

    assert top(0.0) == pytest.approx(0.01, abs=0.005)
    assert top(1.0) == pytest.approx(0.19, abs=0.02)


def test_half_of_a_burst_has_one_key() -> None:
    made = multiply.Numbers(("a", "b"), 100, 0.0, burst=10.0)
    rng = np.random.Generator(np.random.PCG64(0))
    found = made(rng, np.arange(20_000), np.repeat([10.5, 15.0], 10_000))
    for column in ("a", "b"):
        hot, usual = np.split(found[column] == 20, 2)
        assert hot.mean() == pytest.approx(0.5, abs=0.02)
        assert usual.mean() == pytest.approx(0.01, abs=0.005)


def test_what_cannot_be_multiplied_is_refused() -> None:
    with pytest.raises(InvalidInput, match="write 1024,32,1024"):
        workloads.build("region-4", "out", multiplications="many")
    with pytest.raises(InvalidInput, match="below zero"):
        workloads.build("region-4", "out", multiplications="-1")
    with pytest.raises(InvalidInput, match="2 or 4 operators"):
        workloads.build("chain-2", "out", operators=3)
    with pytest.raises(InvalidInput, match=r"write 4,0\.25"):
        workloads.build("selectivity", "out", selectivities="half")
    with pytest.raises(InvalidInput, match="0 different ones"):
        workloads.build("tree", "out", keys=0)
    with pytest.raises(InvalidInput, match="exponent of -1"):
        workloads.build("finance", "out", exponent=-1)
    with pytest.raises(InvalidInput, match="factor"):
        workloads.build("regions-7", "out", factor=2)
