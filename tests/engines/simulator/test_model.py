"""Times, keys, costs and places: the values that a simulation is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.engines.simulator import distributions
from penstock.engines.simulator.batch_time import SlotPool
from penstock.engines.simulator.distributions import (
    Chooser,
    Constant,
    Dealer,
    Empirical,
    Exponential,
    Gamma,
    Lognormal,
    Service,
)
from penstock.engines.simulator.executors import Placement, packed, place, slowdown
from penstock.engines.simulator.model import Keys, Machine
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan
from penstock.predict import operator_costs
from penstock.store.history import History
from penstock.store.turn import Tick
from penstock.workloads import build

from .flows import chain


@pytest.mark.parametrize(
    ("drawn", "mean", "cv"),
    [
        (Constant(0.002), 0.002, 0.0),
        (Exponential(0.002), 0.002, 1.0),
        (Gamma(0.002, 0.5), 0.002, 0.5),
        (Lognormal(0.002, 0.7), 0.002, 0.7),
        (Empirical([0.001, 0.003]), 0.002, 0.5),
    ],
)
def test_times_have_the_mean_and_variation_that_is_said(
    drawn: Service, mean: float, cv: float
) -> None:
    times = drawn.draw(np.random.default_rng(0), 200_000)
    assert drawn.mean == pytest.approx(mean)
    assert times.mean() == pytest.approx(mean, rel=0.01)
    assert times.std() / times.mean() == pytest.approx(cv, abs=0.01)


@pytest.mark.parametrize("drawn", [Exponential(1.0), Gamma(1.0, 0.5), Lognormal(1.0, 2.0)])
def test_times_are_the_same_however_they_are_drawn(drawn: Service) -> None:
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    parts = np.concatenate([drawn.draw(other, n) for n in (1, 10, 0, 489)])
    np.testing.assert_array_equal(parts, drawn.draw(one, 500))


def test_times_are_read_from_a_word() -> None:
    assert distributions.parse("2ms") == Constant(0.002)
    assert distributions.parse("2ms~exp") == distributions.parse("2ms~1.0") == Exponential(0.002)
    assert distributions.parse("2ms~0.5") == Gamma(0.002, 0.5)
    assert distributions.parse("1s~lognormal:0.5") == Lognormal(1.0, 0.5)
    for text in ("two", "2ms~", "2ms~x", "2ms~gauss:1"):
        with pytest.raises(InvalidInput):
            distributions.parse(text)


def test_whole_seconds_are_times_too() -> None:
    drawn = Constant(2).draw(np.random.default_rng(0), 3)
    assert drawn.dtype == np.float64
    assert drawn.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0], [0.0, 5.0, 1.0, 0.1], [1e-9, 1.0]])
def test_choices_are_as_frequent_as_their_weights(weights: list[float]) -> None:
    drawn = Chooser(np.array(weights)).draw(np.random.default_rng(0), 400_000)
    found = np.bincount(drawn, minlength=len(weights)) / 400_000
    np.testing.assert_allclose(found, np.array(weights) / sum(weights), atol=0.004)
    dealt = Dealer(np.array(weights), np.random.default_rng(0)).deal(400_000).counts / 400_000
    np.testing.assert_allclose(dealt, np.array(weights) / sum(weights), atol=0.004)


def test_many_places_are_dealt_to_evenly_though_numbers_are_few() -> None:
    counts = Dealer(np.ones(40_000), np.random.default_rng(0)).deal(4_000_000).counts
    spread = ((counts - 100.0) ** 2 / 100).sum()  # chi squared
    assert spread == pytest.approx(40_000, abs=5 * (2 * 40_000) ** 0.5)


@pytest.mark.parametrize("servers", [2, 3, 175])
def test_who_gets_a_record_does_not_depend_on_how_many_are_dealt_at_once(servers: int) -> None:
    def dealt(counts: list[int]) -> list[int]:
        dealer = Dealer(np.arange(1.0, servers + 1), np.random.default_rng(0))
        found = []
        for count in counts:
            found += dealer.deal(count).server.tolist()
        return found

    assert dealt([5, 1, 0, 2, 4000, 3, 989]) == dealt([5000])


def test_keys_are_spread_over_instances() -> None:
    even = Keys(number=100_000).shares(10)
    assert even.sum() == pytest.approx(1.0)
    assert even.max() < 0.11
    skewed = Keys(number=100_000, skew=1.5).shares(10)
    assert skewed.max() > 0.38  # the first key alone has a share of 1 / zeta(1.5)
    assert Keys().moved(4, 4) == 0.0
    assert Keys().moved(4, 8) == pytest.approx(0.5, abs=0.02)
    assert Keys(number=1000).seen(10) == 10
    assert Keys(number=1000).seen(10**6) == 1000


def test_costs_are_said_before_they_are_measured_or_declared(tmp_path: Path) -> None:
    graph = build("linear", tmp_path, cost="wait", wait_ms=7).graph
    assert operator_costs.costs_of(graph)["step-2"].service == Constant(0.007)
    seen = OperatorMetrics("step-1", rows_in=10, rows_out=25, service=0.004, service_cv=1.0)
    snapshot = Snapshot(
        1.0,
        1.0,
        None,
        10,
        25,
        0,
        pipelines={"orders": PipelineMetrics("orders", 1, rows_in=10)},
        operators={"step-1": seen},
    )
    record = History(tmp_path, lambda: 1.0, pytest.fail)
    record.append(Tick(1.0, Plan((Pipeline(("orders",)),)), snapshot))
    record.close()
    found = operator_costs.costs_of(graph, {"step-2": "1ms"}, {"step-2": 3.0}, tmp_path)
    assert found["step-1"].service == Exponential(0.004)
    assert found["step-1"].selectivity == 2.5
    assert (found["step-2"].service, found["step-2"].selectivity) == (Constant(0.001), 3.0)
    assert found["step-3"].service == Constant(0.007)


def test_costs_that_nobody_knows_are_an_error() -> None:
    with pytest.raises(InvalidInput, match="no operator of 'chain' has a known cost"):
        operator_costs.costs_of(chain("a"))
    with pytest.raises(InvalidInput, match="cost of an unknown operator 'b'"):
        operator_costs.costs_of(chain("a"), {"b": "1ms"})


def test_instances_stay_where_they_are_and_new_ones_go_where_there_is_room() -> None:
    first = place(None, Plan((Pipeline(("a",), 4), Pipeline(("b",), 2)), 3))
    assert first.executors == ("0", "1", "2")
    assert first.loads().tolist() == [2, 2, 2]
    more = place(first, Plan((Pipeline(("a",), 7), Pipeline(("b",), 2)), 4))
    assert more.hosts["a"][:4].tolist() == first.hosts["a"].tolist()
    assert sorted(more.loads().tolist()) == [2, 2, 2, 3]
    fewer = place(more, Plan((Pipeline(("a",), 7), Pipeline(("b",), 2)), 3, leaving=("1",)))
    assert fewer.executors == ("0", "2", "3")
    assert fewer.loads().tolist() == [3, 3, 3]
    again = place(fewer, Plan((Pipeline(("a",), 7), Pipeline(("b",), 2)), 4))
    assert again.executors == ("0", "2", "3", "4")  # a name is never given twice


def test_an_executor_that_is_lost_gives_its_instances_to_the_others() -> None:
    plan = Plan((Pipeline(("a",), 4), Pipeline(("b",), 2)), 3)
    first = place(None, plan)
    lost = first.without("1", until=9.0)
    assert (lost.executors, lost.starting, lost.present) == (("0", "3", "2"), {"3": 9.0}, 2)
    assert lost.loads().tolist() == [3, 0, 3]
    stays = first.hosts["a"] != 1
    assert lost.hosts["a"][stays].tolist() == first.hosts["a"][stays].tolist()
    more = place(lost, Plan((Pipeline(("a",), 6), Pipeline(("b",), 2)), 3))
    assert more.loads().tolist() == [4, 0, 4]  # nothing is started on who is not there
    assert more.starting == {"3": 9.0}
    assert place(lost, replace(plan, executors=2)).executors == ("0", "2")
    there = lost.at(9.0)
    assert (there.present, there.starting) == (3, {})
    even = place(there, Plan((Pipeline(("a",), 6), Pipeline(("b",), 2)), 3))
    assert even.loads().tolist() == [3, 2, 3]
    alone = place(None, Plan((Pipeline(("a",), 2),), 1)).without("0", until=9.0)
    assert (alone.present, alone.loads().tolist()) == (0, [2])  # they wait for the other one


def test_slots_that_are_lost_are_those_that_would_be_free_last() -> None:
    pool = SlotPool(4, 2.0, 0.0)
    assert pool.run(1.0, np.array([5.0, 3.0, 1.0])) == 6.0
    pool.resize(2, 1.0, 1.0)
    assert pool.run(1.0, np.array([1.0, 1.0])) == 3.0  # one slot was idle, the other until 2
    pool.resize(3, 1.5, 10.0)
    assert pool.run(4.0, np.array([1.0, 1.0, 1.0])) == 6.0  # the new one is there after 10


def test_all_slow_down_where_more_cores_are_wanted_than_there_are() -> None:
    placement = Placement(("0", "1"), {"a": np.array([0, 0, 0, 1])})
    wanted = {"a": np.array([1.0, 1.0, 1.0, 0.5])}
    factor, memory = slowdown(
        placement, wanted, {"a": 8e9}, Machine(cores=2, memory=4e9, spill=3.0)
    )
    assert factor.tolist() == [4.5, 1.0]  # half as fast again, and 6 GB in 4
    assert memory.tolist() == [1.5, 0.5]


def test_what_instances_take_for_themselves_is_gone_for_all() -> None:
    placement = Placement(("0", "1"), {"a": np.array([0, 0, 0, 0, 1])})
    wanted = {"a": np.array([0.4, 0.4, 0.4, 0.4, 1.0])}
    factor, _ = slowdown(placement, wanted, {}, Machine(cores=2, upkeep=0.1))
    assert factor.tolist() == pytest.approx([1.0, 1.0])  # 1.6 of the 1.6 cores that are left
    factor, _ = slowdown(placement, wanted, {}, Machine(cores=2, upkeep=0.3))
    assert factor.tolist() == pytest.approx([2.0, 1.0])
    with pytest.raises(InvalidInput, match="upkeep"):
        Machine(upkeep=1.5)


def test_a_packed_plan_fills_executor_after_executor() -> None:
    plan = Plan((Pipeline(("a",), 3), Pipeline(("b",), 3)), executors=3)
    found = packed(plan)
    assert found.hosts["a"].tolist() == [0, 0, 1]
    assert found.hosts["b"].tolist() == [1, 2, 2]
    assert found.loads().tolist() == [2, 2, 2]
    assert place(found, replace(plan, executors=4)).executors == ("0", "1", "2", "3")
