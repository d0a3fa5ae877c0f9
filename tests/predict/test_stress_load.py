from __future__ import annotations

import pytest

from penstock.dataflow.connectors import Discard, Files, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Read
from penstock.errors import InvalidInput
from penstock.predict import stress_load


def graph(*loads: str | None) -> Graph:
    """A source for each load, a file for none, all joined."""
    flow = Dataflow("some")
    streams = []
    for number, load in enumerate(loads):
        made = (
            Files("in", "n bigint")
            if load is None
            else Generator(lambda rng, index, at: {"n": index}, "n bigint", load, limit=7)
        )
        streams.append(flow.source(f"s{number}", made))
    first, *others = streams
    (first.union("all", *others) if others else first).sink("out", Discard())
    return flow.graph


def sources(graph: Graph) -> list[Generator]:
    bodies = [o.body for o in graph.sources]
    return [b.source for b in bodies if isinstance(b, Read) and isinstance(b.source, Generator)]


def test_each_generator_goes_on_at_ten_times_the_highest_rate_of_its_own() -> None:
    found = stress_load.stressed(graph("100/s", "sine:10-50@60s"))
    assert [(s.load, s.limit) for s in sources(found)] == [("1000.0/s", None), ("500.0/s", None)]
    assert stress_load.offered(found) == 1500


def test_a_load_that_is_given_is_that_of_all() -> None:
    found = stress_load.stressed(graph("100/s", "50/s"), "ramp:0-70@10s")
    assert [(s.load, s.limit) for s in sources(found)] == 2 * [("ramp:0-70@10s", None)]
    assert stress_load.offered(found) == 140


def test_the_rest_of_the_world_is_taken_as_it_comes() -> None:
    found = stress_load.stressed(graph("100/s", None))
    assert [s.load for s in sources(found)] == ["1000.0/s"]
    assert stress_load.offered(found) is None
    assert stress_load.channel_rows(graph(None)) is None


def test_a_source_that_gives_nothing_needs_a_load() -> None:
    with pytest.raises(InvalidInput, match="the source 's0' generates no rows: give a load"):
        stress_load.stressed(graph("0/s"))
    assert stress_load.offered(stress_load.stressed(graph("0/s"), "5/s")) == 5


def test_no_rate_is_beyond_what_can_be_told_apart() -> None:
    assert stress_load.offered(stress_load.stressed(graph("500000000/s"))) == 1e9


def test_the_first_plan_is_the_finest_with_batches_that_do_not_grow() -> None:
    found = graph("10000/s", "10/s", None)
    plan = stress_load.first_plan(found, executors=3)
    assert [p.operators for p in plan.pipelines] == [("s0",), ("s1",), ("s2",), ("all", "out")]
    assert [p.admission for p in plan.pipelines] == [5000, 100, None, None]
    assert {p.parallelism for p in plan.pipelines} == {1}
    assert plan.executors == 3
    assert stress_load.channel_rows(found) == 5100
    assert [p.admission for p in stress_load.relieved(plan, found).pipelines] == 4 * [None]
