"""Organic adaptation in closed loops comes to good plans."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Pipeline, Plan
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.policies.joker.policy import Organic
from tests.engines.spark.flows import source
from tests.policies.joker.adapting import COSTS, region, shape, word_count
from tests.policies.plant import Plant, best_capacity


@pytest.mark.large
@settings(max_examples=15, deadline=None)
@given(
    costs=st.lists(st.floats(0.001, 0.01), min_size=4, max_size=4),
    hop=st.sampled_from((0.0, 0.0002, 0.001)),
    cores=st.sampled_from((3.0, 5.0, 1e9)),
    slots=st.integers(4, 8),
    order=st.sampled_from(("fusion-first", "fission-first")),
    step=st.sampled_from(("one", "double")),
    improvement=st.sampled_from((0.03, 0.1)),
)
def test_it_comes_close_to_the_best_of_all_plans(
    costs: list[float],
    hop: float,
    cores: float,
    slots: int,
    order: str,
    step: str,
    improvement: float,
) -> None:
    graph = word_count()
    named = dict(zip(COSTS, costs, strict=True))
    start = fusion.default_plan(graph, 1)
    plant = Plant(graph, named, start, hop=hop, cores=cores, limits=Limits(slots=slots))
    plant.run(Organic(order=order, step=step, improvement=improvement), 1500)
    best = best_capacity(plant, slots)
    # a change that gains no more than the threshold is not worth it
    assert plant.capacity(plant.plan) >= best / (1.02 + improvement)
    assert plant.plan.slots <= slots


def test_a_region_with_a_key_is_copied_whole_also_where_its_first_part_has_no_key() -> None:
    """Two pipelines of one region, of which only the second holds the keyed operator."""
    flow = Dataflow("late key")
    rows = source(flow).filter("a", lambda r: True)
    rows.key_by("key").deduplicate("b").sink("out", Discard())
    graph = flow.graph
    start = fusion.finest_plan(graph)
    plant = Plant(graph, {"a": 0.01, "b": 0.01}, start, cores=4.0)
    policy = Organic(replicas="region", stateless=False, sources=False, step="one")
    plant.run(policy, 400)
    assert shape(plant.plan) == {"numbers": 1, "a": 2, "b+out": 2}


@pytest.mark.parametrize("order", ["fusion", "fission"])
def test_both_together_are_better_than_either_alone(order: str) -> None:
    """A chain cut everywhere, or copied whole, where one operator stands no copies."""
    flow = Dataflow("mixed")
    rows = source(flow).filter("a", lambda r: True).filter("b", lambda r: True)
    rows.filter("c", lambda r: True, max_parallelism=1).sink("out", Discard())
    graph = flow.graph
    costs = {"a": 0.01, "b": 0.01, "c": 0.002}
    found = {}
    for which in (order, "fusion-first", "fission-first"):
        plant = Plant(graph, costs, fusion.region_plan(graph), limits=Limits(slots=12))
        plant.run(Organic(order=which), 2000)
        found[which] = plant.capacity(plant.plan)
    assert found["fusion-first"] > 1.5 * found[order]
    assert found["fission-first"] > 1.5 * found[order]


def test_whole_regions_scale_together_if_asked_to() -> None:
    plant = Plant(region(2), {"o1": 0.01, "o2": 0.002}, fusion.region_plan(region(2)))
    plant.plan = Plan((Pipeline(("numbers",)), Pipeline(("o1",)), Pipeline(("o2", "out"))))
    done = plant.run(Organic(replicas="region", step="one", order="fission"), 40)
    assert done[0].plan is not None
    assert shape(done[0].plan) == {"numbers": 1, "o1": 2, "o2+out": 2}
