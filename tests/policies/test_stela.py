from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidInput
from penstock.metrics.snapshot import ExecutorMetrics
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates
from penstock.policies.shared.rates import PipelineRate
from penstock.policies.shared.topology import Topology
from penstock.policies.stela import strategies
from penstock.policies.stela.policy import Stela, scale_in, scale_out
from penstock.policies.stela.strategies import RoundRobin
from tests.models import dags
from tests.models.test_etp import figure
from tests.policies.closed import DIAMOND, LINEAR, STAR, Loop
from tests.strategies import few


def parallelism(plan: Plan | None) -> dict[str, int]:
    assert plan is not None
    return {p.name: p.parallelism for p in plan.pipelines}


def chain(capacity: dict[str, float], offered: float = 100.0, executors: int = 2) -> Context:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)})
    found = Topology(dag, dags.plan(dag, executors=executors))
    return dags.context(found, rates.steady_state(found, {"s": offered}, {}, capacity))


# --- scale-out ----------------------------------------------------------------------------------


def test_slots_are_the_average_rounded_for_each_new_executor() -> None:
    for executors, each in ((1, 3), (2, 2), (3, 1), (9, 1)):
        decision = scale_out(chain({"b": 1.0}, executors=executors), 2)
        assert decision.plan is not None
        assert decision.plan.slots == 3 + 2 * each
        assert decision.plan.executors == executors + 2


def test_each_slot_goes_to_the_congested_one_with_the_highest_etp() -> None:
    # b comes first because everything behind a waits for it; then a has the higher share
    decision = scale_out(chain({"s": 200.0, "a": 40.0, "b": 20.0}, executors=1), 1)
    assert parallelism(decision.plan) == {"s": 1, "a": 2, "b": 3}
    assert decision.reason == (
        "1 more executor with 3 slots: b 1 -> 3 (congestion 2.00 > 1.20, ETP 100%), "
        "a 1 -> 2 (congestion 2.50 > 1.20, ETP 0%)"
    )
    assert decision.numbers["throughput"] == 20
    assert decision.numbers["throughput.expected"] == 60


def test_the_printed_example_gives_slots_in_its_order() -> None:
    found, speeds = figure()
    first = scale_out(_asking(found, speeds, executors=10), 1, congested=1.0)
    assert first.plan is not None
    assert parallelism(first.plan)["3"] == 2
    assert first.numbers["3.etp"] == pytest.approx(4 / 9)


def _asking(found: Topology, speeds: rates.Rates, executors: int) -> Context:
    wide = Topology(found.graph, replace(found.plan, executors=executors))
    return dags.context(wide, speeds)


def test_where_nothing_is_congested_sources_grow_and_then_what_they_would_congest() -> None:
    decision = scale_out(chain({"s": 100.0, "a": 130.0, "b": 900.0}, executors=1), 1)
    # s with 2 brings in 200, which congests a; a with 2 can take 260, so s is next again
    assert parallelism(decision.plan) == {"s": 3, "a": 2, "b": 1}
    assert "nothing is congested" in decision.reason


def test_by_gain_prefers_what_one_instance_speeds_up_most() -> None:
    # 60 % depends on x, but its 13th instance adds 5 rows a second and the second of y adds 40
    dag = dags.graph({"s": (), "x": ("s",), "y": ("s",)})
    found = Topology(dag, dags.plan(dag, {"x": 12}, executors=14))
    now = rates.steady_state(found, {"s": 200.0}, {}, {"x": 60.0, "y": 40.0})
    assert parallelism(scale_out(dags.context(found, now), 1).plan)["x"] == 13
    assert parallelism(scale_out(dags.context(found, now), 1, by="gain").plan)["y"] == 2
    decision, _ = Stela(automatic=True, by="gain").decide(dags.context(found, now), None)
    assert "y has the highest expected gain: y 1 -> 2" in decision.reason


def test_bounds_are_kept_and_said() -> None:
    dag = dags.graph({"s": (), "a": ("s",)}, most={"a": 2})
    found = Topology(dag, dags.plan(dag))
    decision = scale_out(
        dags.context(found, rates.steady_state(found, {"s": 100.0}, {}, {"a": 1.0})), 2
    )
    assert parallelism(decision.plan) == {"s": 1, "a": 2}
    assert "3 of the slots stay empty: who could use them is at its bounds" in decision.reason


def test_a_ceiling_of_state_partitions_is_a_bound() -> None:
    flow = dags.graph({"s": (), "a": ("s",)})
    plan = dags.plan(flow)
    found = Topology(flow, plan.with_pipeline("a", ceiling=1))
    decision = scale_out(
        dags.context(found, rates.steady_state(found, {"s": 100.0}, {}, {"a": 1.0})), 1
    )
    assert parallelism(decision.plan) == {"s": 1, "a": 1}


def test_the_budget_is_kept_and_said() -> None:
    asked = chain({"b": 1.0}, executors=1)
    cut = scale_out(replace(asked, limits=Limits(slots=4, executors=2)), 3)
    assert cut.plan is not None
    assert (cut.plan.slots, cut.plan.executors) == (4, 2)
    assert "the budget of 2 executors leaves 1" in cut.reason
    assert "the budget of 4 instances leaves 1" in cut.reason
    none = scale_out(replace(asked, limits=Limits(executors=1)), 1)
    assert none.plan is None
    assert none.reason == "no scale-out by 1: the budget of 1 executors leaves 0"
    assert scale_out(replace(asked, limits=Limits(slots=3)), 1).plan is None


def test_what_is_missing_is_said() -> None:
    asked = chain({})
    assert scale_out(replace(asked, snapshots=()), 1).reason == (
        "no scale-out: nothing has been measured yet"
    )
    shown = asked.snapshots[0]
    blind = replace(
        shown, pipelines={**shown.pipelines, "a": replace(shown.pipelines["a"], arrival_rate=None)}
    )
    assert scale_out(replace(asked, snapshots=(blind,)), 1).reason == (
        "no scale-out: not measured: arrival rate of a"
    )
    assert scale_in(replace(asked, snapshots=(blind,)), 1).plan is None
    with pytest.raises(InvalidInput, match="at least 1"):
        scale_out(asked, 0)
    with pytest.raises(InvalidInput, match="at least 1"):
        scale_in(asked, -1)


def test_no_load_at_all_is_no_trouble() -> None:
    decision = scale_out(chain({"a": 10.0}, offered=0.0, executors=1), 1)
    assert parallelism(decision.plan) == {"s": 4, "a": 1, "b": 1}


@few
@given(dags.flows(), st.integers(1, 3), st.integers(1, 4))
def test_any_scale_out_is_valid_repeatable_free_of_units_and_never_slower(
    flow: tuple[Topology, rates.Rates], more: int, executors: int
) -> None:
    found, now = flow
    asked = _asking(found, now, executors)
    decision = scale_out(asked, more)
    assert decision.plan is not None
    fusion.check(decision.plan, found.graph)
    assert decision == scale_out(asked, more)
    assert decision.numbers["throughput.expected"] >= decision.numbers["throughput"] - 1e-6
    faster = {
        n: PipelineRate(r.arrival * 8, r.processed * 8, r.capacity * 8, r.selectivity)
        for n, r in now.items()
    }
    assert scale_out(_asking(found, faster, executors), more).plan == decision.plan


def test_who_is_at_its_bounds_is_told_with_them() -> None:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)}, most={"s": 1, "a": 4, "b": 1})
    found = Topology(dag, dags.plan(dag, {"a": 4}))
    seen = dags.context(found, rates.steady_state(found, {"s": 100.0}, {}, {"a": 50.0}))
    decision, _ = Stela(automatic=True).decide(seen, None)
    assert decision.plan is None
    assert decision.reason == "at their bounds: a (congestion 2.00) has 4 of 4 instances"
    assert decision.numbers == {"a.congestion": 2.0}
    decision, _ = RoundRobin().decide(seen, None)
    assert decision.plan is None
    assert "at their bounds: s (congestion 1.00) has 1 of 1 instances, a (cong" in decision.reason


# --- scale-in -----------------------------------------------------------------------------------


def placed(
    found: Topology, where: dict[str, dict[str, int]], slots: int = 4
) -> dict[str, ExecutorMetrics]:
    return {n: ExecutorMetrics(n, slots, instances=i) for n, i in where.items()}


def star_on(where: dict[str, dict[str, int]], slots: int = 4, **many: int) -> Context:
    """s feeds a slow x and a fast y; the share of y is 0.8, that of x 0.2, that of s 0.8."""
    dag = dags.graph({"s": (), "x": ("s",), "y": ("s",)})
    found = Topology(dag, dags.plan(dag, many, executors=len(where)))
    now = rates.steady_state(found, {"s": 80.0}, {}, {"x": 20.0, "y": 90.0})
    return dags.context(found, now, executors=placed(found, where, slots))


def test_the_executor_that_least_depends_on_goes() -> None:
    where = {"e1": {"s": 1}, "e2": {"x": 2}, "e3": {"y": 1}}
    decision = scale_in(star_on(where, x=2), 1)
    assert decision.plan is not None
    assert decision.plan.leaving == ("e2",)
    assert decision.plan.executors == 2
    assert parallelism(decision.plan) == {"s": 1, "x": 2, "y": 1}
    assert decision.numbers == pytest.approx(
        {"e1.etp_sum": 0.8, "e2.etp_sum": 0.4, "e3.etp_sum": 0.8}
    )
    assert decision.reason == (
        "e2 goes, ETP sum 0.40 is the lowest; 2 of its instances move to e1, e3"
    )


def test_what_moved_counts_where_it_went() -> None:
    # e4 has 0.2 and what it had goes to e2, which has 0.6 then, so e3 with 0.4 is the next
    where = {"e1": {"s": 1}, "e2": {"x": 2}, "e3": {"x": 2}, "e4": {"x": 1}, "e5": {"y": 1}}
    decision = scale_in(star_on(where, x=5), 2)
    assert decision.plan is not None
    assert decision.plan.leaving == ("e4", "e3")
    assert decision.plan.executors == 3


def test_instances_without_a_slot_go_too_those_that_matter_least_first() -> None:
    where = {"e1": {"s": 1, "x": 1}, "e2": {"x": 1, "y": 1}, "e3": {"x": 2}}
    decision = scale_in(star_on(where, slots=2, x=4), 1)
    assert parallelism(decision.plan) == {"s": 1, "x": 2, "y": 1}
    assert "no slot left: x 4 -> 2" in decision.reason
    where = {"e1": {"s": 1, "y": 1}, "e2": {"s": 1, "x": 1, "y": 1}, "e3": {"x": 1, "y": 1}}
    one_slot = scale_in(star_on(where, slots=3, s=2, x=2, y=3), 1)
    assert parallelism(one_slot.plan) == {"s": 2, "x": 1, "y": 3}


def test_as_long_as_there_are_slots_all_instances_stay() -> None:
    where = {"e1": {"s": 1, "x": 1}, "e2": {"x": 1, "y": 1}, "e3": {"x": 2}}
    roomy = scale_in(star_on(where, slots=3, x=4), 1)
    assert parallelism(roomy.plan) == {"s": 1, "x": 4, "y": 1}


def test_the_last_instance_of_a_pipeline_stays_even_without_a_slot() -> None:
    where = {"e1": {"s": 1}, "e2": {"x": 1}, "e3": {"y": 1}}
    decision = scale_in(star_on(where, slots=1), 2)
    assert parallelism(decision.plan) == {"s": 1, "x": 1, "y": 1}


def test_an_idle_executor_goes_first() -> None:
    decision = scale_in(star_on({"e1": {"s": 1, "x": 1, "y": 1}, "e2": {}}), 1)
    assert decision.plan is not None
    assert decision.plan.leaving == ("e2",)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"e1": {"s": 1, "x": 1}, "e2": {}}, "it is not known on which executors y runs"),
        ({"e1": {"s": 1, "x": 1, "y": 1}, "e2": {"q": 1}}, "executors run q, which is no pipeline"),
    ],
)
def test_an_unknown_placement_is_refused(where: dict[str, dict[str, int]], reason: str) -> None:
    decision = scale_in(star_on(where), 1)
    assert decision.plan is None
    assert reason in decision.reason


def test_unknown_executors_and_too_many_are_refused() -> None:
    asked = star_on({"e1": {"s": 1, "x": 1, "y": 1}, "e2": {}})
    blind = replace(asked, snapshots=(replace(asked.snapshots[0], executors={}),))
    assert scale_in(blind, 1).reason == "no scale-in: no executor was measured"
    assert scale_in(asked, 2).plan is None
    assert "2 of 2 executors" in scale_in(asked, 2).reason


@few
@given(dags.flows(), st.data())
def test_any_scale_in_is_valid_and_names_who_leaves(
    flow: tuple[Topology, rates.Rates], data: st.DataObject
) -> None:
    found, now = flow
    names = [f"e{i}" for i in range(data.draw(st.integers(2, 4)))]
    where: dict[str, dict[str, int]] = {n: {} for n in names}
    for name, p in found.pipelines.items():
        for _ in range(p.parallelism):
            spot = where[data.draw(st.sampled_from(names))]
            spot[name] = spot.get(name, 0) + 1
    wide = Topology(found.graph, replace(found.plan, executors=len(names)))
    shown = placed(wide, where, data.draw(st.integers(1, 8)))
    asked = dags.context(wide, now, executors=shown)
    fewer = data.draw(st.integers(1, len(names) - 1))
    decision = scale_in(asked, fewer)
    assert decision.plan is not None
    fusion.check(decision.plan, found.graph)
    assert len(set(decision.plan.leaving)) == fewer
    assert decision.plan.executors == len(names) - fewer
    assert all(p <= found.pipelines[n].parallelism for n, p in parallelism(decision.plan).items())
    assert decision.numbers[f"{decision.plan.leaving[0]}.etp_sum"] == min(decision.numbers.values())


# --- by itself ----------------------------------------------------------------------------------


def test_by_itself_it_waits_to_be_asked() -> None:
    decision, memory = Stela().decide(chain({"b": 1.0}), None)
    assert (decision.plan, memory) == (None, None)
    assert decision.reason == "stela waits to be asked for a scale-out or a scale-in"


def test_automatic_gives_one_instance_at_a_time_to_the_highest_etp() -> None:
    decision, _ = Stela(automatic=True).decide(chain({"a": 40.0, "b": 20.0}), None)
    assert parallelism(decision.plan) == {"s": 1, "a": 1, "b": 2}
    assert decision.reason == (
        "a, b are congested; b has the highest ETP: b 1 -> 2 (congestion 2.00 > 1.20, ETP 100%)"
    )
    calm, _ = Stela(automatic=True).decide(chain({}), None)
    assert calm.plan is None
    assert "nothing is congested" in calm.reason
    with pytest.raises(InvalidInput):
        Stela(congested=0.5)


COSTS = {
    "linear": (LINEAR, {"a": 0.02, "b": 0.05, "c": 0.03}),
    "diamond": (DIAMOND, {"a": 0.02, "b": 0.04, "c": 0.03, "d": 0.01}),
    "star": (STAR, {"m": 0.01, "x": 0.02, "y": 0.015}),
}


@pytest.mark.large
@pytest.mark.parametrize("shape", sorted(COSTS))
def test_automatic_brings_a_flow_to_its_load_within_the_budget(shape: str, tmp_path: Path) -> None:
    inputs, costs = COSTS[shape]
    dag = dags.graph(inputs)
    loop = Loop(dag, dags.plan(dag), tmp_path, costs, limits=Limits(slots=30))
    before = loop.throughput()
    loop.run(Stela(automatic=True), 30)
    best = {"linear": 100, "diamond": 300, "star": 400}[shape]
    after = loop.throughput()
    assert after > before
    assert after >= 0.83 * best  # congested begins at 1.2
    assert "nothing is congested" in loop.reasons[-1]
    small = Loop(dag, dags.plan(dag), tmp_path / "small", costs, limits=Limits(slots=7))
    assert small.run(Stela(automatic=True), 10).slots == 7
    assert "budget of 7 instances is used" in small.reasons[-1]


@pytest.mark.parametrize("shape", sorted(COSTS))
def test_scale_out_raises_throughput_as_projected(shape: str, tmp_path: Path) -> None:
    inputs, costs = COSTS[shape]
    dag = dags.graph(inputs)
    loop = Loop(dag, dags.plan(dag), tmp_path, costs)
    before = loop.throughput()
    decision = scale_out(loop.measure(), 1)
    loop.apply(decision.plan)
    assert loop.throughput() > 1.3 * before
    assert decision.numbers["throughput"] == pytest.approx(before, rel=0.05)


# --- against the other strategies ---------------------------------------------------------------


def run_on_the_engine(seed: int, run_dir: Path) -> dict[str, float]:
    """The same on the in-memory engine, with what it measures itself."""
    rng = random.Random(seed)
    inputs = dags.random_dag(rng, 4, 7)
    dag = dags.graph(inputs)
    costs = {n: rng.choice((0.002, 0.01, 0.02, 0.05)) for n in inputs}
    found: dict[str, float] = {}
    for name, ranking in {"stela": None, **strategies.RANKINGS}.items():
        plan = dags.plan(dag, executors=2)
        loop = Loop(dag, plan, run_dir / f"{seed}-{name}", costs, 60.0, window=2.0)
        before = loop.throughput()
        asked = loop.measure()
        decision = strategies.scale_out(asked, 1, ranking) if ranking else scale_out(asked, 1)
        loop.apply(decision.plan)
        found[name] = loop.throughput() / before
    return found


@pytest.mark.large
def test_on_the_engine_too(tmp_path: Path) -> None:
    runs = [run_on_the_engine(seed, tmp_path) for seed in range(6)]
    mean = {name: fmean(run[name] for run in runs) for name in runs[0]}
    for name in strategies.RANKINGS:
        assert mean["stela"] >= mean[name], mean


def compared(seed: int) -> dict[str, float]:
    """Throughput after a scale-out by each strategy over that before, in a random flow."""
    rng = random.Random(seed)
    inputs = dags.random_dag(rng)
    dag = dags.graph(inputs)
    found = Topology(dag, dags.plan(dag, executors=rng.randint(1, 3)))
    offered = dict.fromkeys(found.sources, 100.0)
    capacity = {n: rng.choice((10.0, 20.0, 40.0, 80.0, 400.0, 1000.0)) for n in found.pipelines}
    selectivity = {n: rng.choice((0.5, 1.0, 1.0, 1.5)) for n in found.pipelines}
    now = rates.steady_state(found, offered, selectivity, capacity)
    asked = dags.context(found, now)

    def settled(plan: Plan | None) -> float:
        many = parallelism(plan)
        more = {n: many[n] * c for n, c in capacity.items()}
        return rates.throughput(found, rates.steady_state(found, offered, selectivity, more))

    before = rates.throughput(found, now)
    after = {n: strategies.scale_out(asked, 1, r).plan for n, r in strategies.RANKINGS.items()}
    after["stela"] = scale_out(asked, 1).plan
    after["stela by gain"] = scale_out(asked, 1, by="gain").plan
    return {name: settled(plan) / before for name, plan in after.items()}


@pytest.mark.large
def test_on_average_it_beats_every_comparison_strategy() -> None:
    runs = [compared(seed) for seed in range(150)]
    mean = {name: fmean(run[name] for run in runs) for name in runs[0]}
    for name in strategies.RANKINGS:
        assert mean["stela"] > mean[name], mean
    assert mean["stela by gain"] > mean["stela"], mean
