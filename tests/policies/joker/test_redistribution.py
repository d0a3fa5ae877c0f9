"""A budget dealt out anew."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Pipeline, Plan
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Bounds
from penstock.plan import fusion
from penstock.policies.joker.redistribution import distributed, redistributed
from penstock.policies.joker.sections import sections
from penstock.policies.shared.bottlenecks import PipelineReading, Readings
from tests.engines.spark.flows import source

vertices = st.lists(
    st.tuples(st.floats(0, 10), st.integers(1, 2), st.none() | st.integers(2, 4)),
    min_size=1,
    max_size=4,
)


@given(vertices, st.integers(1, 10))
def test_no_other_deal_makes_the_fullest_emptier(
    found: list[tuple[float, int, int | None]], budget: int
) -> None:
    work = [w for w, _, _ in found]
    bounds = [Bounds(least, most) for _, least, most in found]
    ranges = [range(b.least, (b.most or budget) + 1) for b in bounds]
    levels = [
        max(w / n for w, n in zip(work, sizes, strict=True))
        for sizes in itertools.product(*ranges)
        if sum(sizes) <= budget
    ]
    sizes = distributed(work, bounds, budget)
    if sizes is None:
        assert not levels
        return
    assert sum(sizes) <= budget
    assert all(n in r for n, r in zip(sizes, ranges, strict=True))
    level = max(w / n for w, n in zip(work, sizes, strict=True))
    assert level == pytest.approx(min(levels))


def chain() -> Graph:
    flow = Dataflow("chain")
    stream = source(flow)
    for name in ("a", "b", "c"):
        stream = stream.filter(name, lambda r: True)
    stream.sink("out", Discard())
    return flow.graph


def readings(busy: dict[str, float], costs: bool = False) -> Readings:
    found = {
        name: PipelineReading(busy=share, costs={name: share * 0.9, "out": 0.0} if costs else {})
        for name, share in busy.items()
    }
    return Readings(0.0, 30.0, found, {})


def test_four_that_are_full_share_five_instances_as_one() -> None:
    graph = chain()
    plan = fusion.finest_plan(graph)
    whole = frozenset(graph.topological)
    homes = dict.fromkeys(whole, (whole,))
    parts = sections(graph, plan, [graph.topological])
    busy = dict.fromkeys(("numbers", "a", "b", "c"), 1.0)
    attempts, gain = redistributed(parts, plan, graph, readings(busy), 5, homes)
    assert gain == pytest.approx(0.25)
    assert [p for a in attempts for p in a.after] == [Pipeline(graph.topological, 5)]
    _, saving = redistributed(parts, plan, graph, readings(busy, costs=True), 5, homes)
    assert saving > gain  # three times the overhead of a pipeline


def test_without_homes_instances_only_move() -> None:
    graph = chain()
    plan = fusion.finest_plan(graph).with_pipeline("a", parallelism=4)
    parts = sections(graph, plan, [graph.topological])
    busy = {"numbers": 0.1, "a": 0.4, "b": 1.0, "c": 0.2}
    attempts, gain = redistributed(parts, plan, graph, readings(busy), 7, {})
    sizes = {p.name: p.parallelism for a in attempts for p in a.after}
    assert sizes == {"numbers": 1, "a": 3, "b": 2, "c": 1}
    assert gain == pytest.approx(1 / 0.5333 - 1, abs=0.01)


def test_what_is_not_measured_is_not_dealt_with() -> None:
    graph = chain()
    plan = fusion.finest_plan(graph)
    assert redistributed((), plan, graph, readings({"a": 1.0}), 9, {}) == ((), 0.0)


def test_sections_and_plans_agree() -> None:
    graph = chain()
    plan = Plan((Pipeline(("numbers", "a")), Pipeline(("b",)), Pipeline(("c", "out"))))
    found = sections(graph, plan, [("numbers",), ("a", "b")])
    assert [s.operators for s in found] == [("numbers", "a", "b"), ("c", "out")]
    assert [s.entries for s in found] == [("numbers",), ("c",)]
