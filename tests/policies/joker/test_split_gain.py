"""Where a pipeline is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Pipeline, Plan
from penstock.dataflow.graph import Graph
from penstock.plan import fusion
from penstock.policies.joker import split_gain
from penstock.policies.joker.split_gain import best_cut, cut, split_gains, utility
from tests.engines.spark.flows import source
from tests.speed import within
from tests.strategies import dataflows, few, plans


def chain(*names: str) -> Graph:
    flow = Dataflow("chain")
    stream = source(flow)
    for name in names:
        stream = stream.filter(name, lambda r: True)
    stream.sink("out", Discard())
    return flow.graph


def test_the_printed_example_is_cut_before_the_third_operator() -> None:
    graph = chain("a", "b", "c")
    costs = {"a": 0.2, "b": 0.1, "c": 0.4}
    found = split_gains(graph, ("a", "b", "c"), costs)
    assert found["b"] == pytest.approx(1 / (0.3 + 0.5) - 1)
    assert found["c"] == pytest.approx(1 / (0.3 + 0.4) - 1)
    best = best_cut(graph, ("a", "b", "c"), costs)
    assert best is not None
    assert best[0].before == "c"
    assert best[0].parts == (("a", "b"), ("c",))
    assert best[1] == found["c"]


@pytest.mark.parametrize(
    ("costs", "gain"), [((0.75, 0.10), 0.11), ((0.45, 0.40), 0.67)], ids=["uneven", "even"]
)
def test_the_printed_thresholds(costs: tuple[float, float], gain: float) -> None:
    assert utility([*costs]) - 1 == pytest.approx(gain, abs=0.005)


def test_costs_above_one_are_taken_in_proportion() -> None:
    assert utility([1.2, 0.8]) == pytest.approx(1 / 0.6)
    assert utility([0.0, 0.0]) == 1.0


def test_a_sink_can_be_cut_off_and_the_others_stay() -> None:
    flow = Dataflow("sinks")
    stream = source(flow).filter("a", lambda r: True)
    stream.sink("x", Discard())
    stream.sink("y", Discard())
    whole = ("a", "x", "y")
    assert cut(flow.graph, whole, "x").parts == (("a", "y"), ("x",))
    assert cut(flow.graph, whole, "y").parts == (("a", "x"), ("y",))
    costs = {"a": 0.3, "x": 0.5, "y": 0.1}
    assert split_gains(flow.graph, whole, costs)["x"] == pytest.approx(1 / (0.1 + 0.5) - 1)


def test_a_union_is_cut_from_all_that_feeds_it() -> None:
    flow = Dataflow("union")
    left, right = source(flow, "left"), source(flow, "right")
    left.union("both", right).filter("a", lambda r: True).sink("out", Discard())
    whole = ("left", "right", "both", "a")
    assert cut(flow.graph, whole, "both").parts == (("left",), ("right",), ("both", "a"))
    assert cut(flow.graph, whole, "a").parts == (("left", "right", "both"), ("a",))


def test_one_operator_cannot_be_cut() -> None:
    assert best_cut(chain("a"), ("a",), {"a": 0.9}) is None


def test_the_state_keeps_its_ceiling() -> None:
    flow = Dataflow("keyed")
    rows = source(flow).filter("a", lambda r: True)
    rows.key_by("key").aggregate("count", n="count(*)").sink("out", Discard())
    whole = Pipeline(("a", "count", "out"), 2, 100, 0.5, 8)
    made = cut(flow.graph, whole.operators, "count")
    head, tail = split_gain.apply(flow.graph, whole, made)
    assert head == Pipeline(("a",), 2, 100, 0.5)
    assert tail == Pipeline(("count", "out"), 2, 100, 0.5, 8)


@few
@given(st.data())
def test_every_cut_of_a_valid_plan_gives_a_valid_plan_and_its_gain(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    plan = data.draw(plans(graph))
    costs = {name: data.draw(st.floats(0, 0.2)) for name in graph.topological}
    for pipeline in plan.pipelines:
        others = [p for p in plan.pipelines if p is not pipeline]
        for before, gain in split_gains(graph, pipeline.operators, costs).items():
            made = split_gain.apply(graph, pipeline, cut(graph, pipeline.operators, before))
            assert sorted(n for p in made for n in p.operators) == sorted(pipeline.operators)
            fusion.check(Plan((*others, *made), plan.executors), graph)
            shares = [sum(costs[n] for n in p.operators) for p in made]
            assert gain == pytest.approx(utility(shares) - 1)


shares = st.lists(st.floats(0.001, 1.0), min_size=2, max_size=6)


@few
@given(shares, st.floats(0.0, 0.9))
def test_no_other_cut_balances_better(parts: list[float], overhead: float) -> None:
    """The cut that gains most is the one with the smallest difference of its two sides."""
    costs = [share * (1 - overhead) / sum(parts) for share in parts]
    names = [f"o{at}" for at in range(len(costs))]
    graph = chain(*names)
    best = best_cut(graph, tuple(names), dict(zip(names, costs, strict=True)))
    assert best is not None
    at = names.index(best[0].before)
    uneven = [abs(sum(costs[:k]) - sum(costs[k:])) for k in range(1, len(costs))]
    assert uneven[at - 1] == pytest.approx(min(uneven), abs=1e-9)
    assert best[1] > -1e-9


def test_a_chain_of_ten_thousand_is_cut_at_once() -> None:
    names = [f"o{at}" for at in range(10_000)]
    graph = chain(*names)
    costs = dict.fromkeys(names, 1e-4)
    best = best_cut(graph, names, costs)
    assert best is not None
    assert within(1, lambda: best_cut(graph, names, costs))
    assert best[0].before == "o5000"
