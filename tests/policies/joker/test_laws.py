"""Laws of organic adaptation, and flows of ten thousand operators."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Pipeline, Plan
from penstock.control.loop import control
from penstock.dataflow.graph import Graph
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.joker.policy import Organic
from penstock.store.turn import Tick
from penstock.testing import MemoryEngine
from tests.engines.spark.flows import source
from tests.policies.joker.adapting import COSTS, shape, snapshot, turn, word_count
from tests.policies.plant import Plant
from tests.speed import within
from tests.strategies import dataflows, few, plans

shares = st.sampled_from((None, 0.0, 0.3, 0.7, 0.85, 1.0))


@few
@given(st.data())
def test_every_plan_it_wants_is_valid_in_bounds_and_affordable(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    plan = data.draw(plans(graph))
    slots = data.draw(st.none() | st.integers(plan.slots, plan.slots + 6))
    policy = Organic(
        order=data.draw(st.sampled_from(("fusion-first", "fission-first", "fusion", "fission"))),
        replicas=data.draw(st.sampled_from(("pipeline", "region"))),
        calm=1,
    )
    memory: Any = None
    for at in range(1, 8):
        busy = {p.name: data.draw(shares) for p in plan.pipelines}
        costs = {n: data.draw(st.floats(0, 0.3)) for n in graph.topological}
        waiting = data.draw(st.sampled_from((0.0, 10.0)))
        rate = data.draw(st.sampled_from((0.0, 100.0, 150.0)))
        seen = snapshot(plan, 40.0 * at, rate, busy, costs, backlog_seconds=waiting)
        context = Context(graph, plan, (seen,), seen.at, Limits(slots=slots))
        decision, later = policy.decide(context, memory)
        assert (decision, later) == policy.decide(context, memory)
        memory = later
        if decision.plan is not None:
            fusion.check(decision.plan, graph)
            assert slots is None or decision.plan.slots <= slots
            assert decision.plan.executors == plan.executors
            plan = decision.plan


@settings(max_examples=6, deadline=None)
@given(st.floats(0.001, 1000), st.booleans())
def test_another_unit_of_time_changes_nothing(factor: float, fall: bool) -> None:
    graph = word_count()

    def result(scale: float) -> dict[str, int]:
        costs = {name: cost / scale for name, cost in COSTS.items()}
        plant = Plant(graph, costs, fusion.region_plan(graph), hop=0.0002 / scale)
        plant.offered = lambda at: scale * (40.0 if fall and at > 600 else 400.0)
        plant.run(Organic(), 1200)
        return shape(plant.plan)

    assert result(1.0) == result(factor)


def wide() -> tuple[Graph, Plan]:
    """Five thousand branches, each with a sink, of many sources."""
    flow = Dataflow("wide")
    rows = source(flow)
    for at in range(4_000):
        stream = source(flow, f"s{at}") if at % 2 else rows
        stream.filter(f"o{at}", lambda r: True).sink(f"out{at}", Discard())
    return flow.graph, fusion.finest_plan(flow.graph)


def long() -> tuple[Graph, Plan]:
    """A chain of ten thousand in one pipeline."""
    flow = Dataflow("long")
    stream = source(flow)
    for at in range(9_998):
        stream = stream.filter(f"o{at}", lambda r: True)
    stream.sink("out", Discard())
    return flow.graph, Plan((Pipeline(flow.graph.topological),))


def separate() -> tuple[Graph, Plan]:
    """The same chain, all apart."""
    graph, _ = long()
    return graph, Plan(tuple(Pipeline((name,)) for name in graph.topological))


@pytest.mark.large
@pytest.mark.parametrize("build", [wide, long, separate])
def test_ten_thousand_operators_are_decided_on_at_once(build: Any) -> None:
    graph, plan = build()
    costs = dict.fromkeys(graph.topological, 1e-4)
    memory: Any = None
    for at in (40.0, 80.0):
        busy: dict[str, float | None] = {p.name: 1.0 for p in plan.pipelines}
        seen = snapshot(plan, at, 100.0, busy, costs)
        before = memory
        decision, memory = turn(Organic(), graph, plan, seen, before)
        assert within(2, partial(turn, Organic(), graph, plan, seen, before))
        assert len(decision.reason) < 3000
        plan = decision.plan or plan


@pytest.mark.large
def test_the_engine_in_memory_is_brought_up_and_down(tmp_path: Path) -> None:
    graph = word_count()
    engine = MemoryEngine(COSTS, rate=lambda at: 100.0 if at < 500 else 10.0)
    engine.start(graph, fusion.region_plan(graph), tmp_path)
    slots: dict[float, int] = {}

    def wait() -> bool:
        engine.advance(10.0)
        slots[engine.observe().at] = engine.plan.slots
        return engine.observe().at < 1600

    said: list[Tick] = []
    control(
        engine, graph, Organic(), now=lambda: engine.observe().at, wait=wait, record=said.append
    )
    assert max(slots.values()) >= 4  # the work is for 2.1 instances
    assert slots[1600.0] <= 3
    assert engine.observe().pipelines["parse"].backlog_rows == 0
    assert [tick.at for tick in said if tick.transition is not None][-1] < 1200
