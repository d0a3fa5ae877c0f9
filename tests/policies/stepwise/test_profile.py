"""Features and the ratios that follow from them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Pipeline, Plan
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.policies.stepwise.profile import (
    Feature,
    Profile,
    ProfilingRound,
    Ratios,
    best_round,
    dominated,
    features,
    ratios,
    was_kept,
)
from tests.engines.spark.flows import source


def words() -> dict[str, Feature]:
    """Word count: parsing and splitting cost alike, counting twelve times as many words more."""
    flow = {"parse": 1.0, "split": 1.0, "count": 12.0}
    times = {"parse": 0.6, "split": 0.7, "count": 1.0 / 12}
    total = sum(flow.values())
    found = {name: Feature(times[name], flow[name] / total) for name in flow}
    return {"tweets": Feature(0.1, 0.0, source=True), **found}


def test_the_word_count_relates_as_2_to_2_to_3() -> None:
    found = ratios(words())
    assert found.scaled == pytest.approx({"parse": 0.6, "split": 0.7, "count": 1.0})
    assert found.instances(0.4) == {"parse": 2, "split": 2, "count": 3}
    assert found.instances(0.3) == {"parse": 2, "split": 3, "count": 4}


@pytest.mark.parametrize("unit", [0.1, 0.3, 0.5, 1.0])
def test_equal_loads_are_reduced_to_one_each(unit: float) -> None:
    found = ratios({name: Feature(0.002, 1 / 3) for name in "abc"})
    assert found.instances(unit) == {"a": 1, "b": 1, "c": 1}


def test_what_stands_one_instance_bounds_the_flow() -> None:
    found = ratios(
        {
            "a": Feature(0.01, 0.5),
            "one": Feature(0.02, 0.3, parallel=False),
            "b": Feature(0.03, 0.2, dominated=True),
        }
    )
    assert found.fixed == {"one": 1, "b": 1}
    assert found.total_flow == pytest.approx(1 / 0.006)
    assert found.scaled == {"a": pytest.approx(0.005 / 0.006)}


def test_a_dominated_vertex_gets_what_the_flow_needs() -> None:
    found = ratios(
        {
            "one": Feature(0.001, 0.5, parallel=False),
            "top": Feature(0.01, 0.125, dominated=True),
        }
    )
    assert found.total_flow == pytest.approx(2000)
    assert found.fixed == {"one": 1, "top": 3}


def test_without_a_bound_a_dominated_vertex_gets_one() -> None:
    """Printed is the smallest load in the denominator; the largest of all is meant."""
    found = ratios({"a": Feature(0.001, 0.5), "top": Feature(0.1, 0.5, dominated=True)})
    assert found.fixed == {"top": 1}
    assert found.total_flow == math.inf
    assert found.scaled == {"a": pytest.approx(0.01)}


def test_nothing_that_flows_is_no_reason_to_fail() -> None:
    found = ratios({"a": Feature(0.0, 0.0), "b": Feature(0.0, 0.0)})
    assert found.instances(0.3) == {"a": 1, "b": 1}
    assert ratios({}).instances(0.3) == {}


loads = st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-6, 10), min_size=1)


@given(loads, st.floats(1e-3, 1e3), st.sampled_from((0.1, 0.3, 0.4, 1.0)))
def test_ratios_are_free_of_units_and_keep_their_order(
    times: dict[str, float], factor: float, unit: float
) -> None:
    found = ratios({name: Feature(time, 0.5) for name, time in times.items()})
    scaled = ratios({name: Feature(time * factor, 0.5) for name, time in times.items()})
    assert max(found.scaled.values()) == 1
    assert found.scaled == pytest.approx(scaled.scaled)
    sizes = found.instances(unit)
    assert all(sizes[a] <= sizes[b] for a in times for b in times if times[a] < times[b])
    assert math.gcd(*sizes.values()) == 1


def test_dominance_needs_a_logic_dependent_operator_on_every_path() -> None:
    flow = Dataflow("dominance")
    rows = source(flow)
    top = rows.frame("top", lambda df: df, selectivity="logic-dependent", schema="id bigint")
    after = top.frame("after", lambda df: df, schema="id bigint")
    plain = rows.frame("plain", lambda df: df, schema="id bigint")
    both = after.union("both", plain)
    both.sink("out", Discard())
    last = after.frame("last", lambda df: df, schema="id bigint")
    last.sink("end", Discard())
    assert dominated(flow.graph) == {"after", "last", "end"}
    plan = fusion.finest_plan(flow.graph)
    rates = {p.name: 10.0 for p in plan.pipelines}
    found = features(flow.graph, plan, dict.fromkeys(rates, 0.1), rates)
    assert {name for name, f in found.items() if f.dominated} == {"after", "last"}
    assert {name for name, f in found.items() if f.source} == {"numbers"}
    assert sum(f.share for f in found.values() if not f.source) == pytest.approx(1)


def a_round(slots: int, mean: float, latency: float | None = 0.5) -> ProfilingRound:
    return ProfilingRound(
        Plan((Pipeline(("a",), slots),)), "x", (mean - 1, mean, mean + 1), latency
    )


def test_a_round_of_which_nothing_is_certain_is_not_as_good_as_the_best() -> None:
    """A test cannot tell what varies so much from the best, which has more instances."""
    noisy = ProfilingRound(Plan((Pipeline(("a",), 1),)), "start", (40.0, 90.0, 120.0))
    steady = ProfilingRound(Plan((Pipeline(("a",), 2),)), "sinks", (99.0, 100.0, 101.0))
    near = ProfilingRound(Plan((Pipeline(("a",), 1),)), "start", (88.0, 98.0, 108.0))
    assert best_round((noisy, steady)) is steady
    assert best_round((near, steady)) is near


def test_the_best_round_meets_its_latency_and_uses_no_more_than_it_must() -> None:
    rounds = (a_round(1, 100), a_round(4, 200), a_round(9, 200.5), a_round(20, 500, latency=1.2))
    assert best_round(rounds).plan.slots == 4
    assert best_round((a_round(1, 100, 2.0), a_round(4, 200, 3.0))).plan.slots == 4


def around(kind: str, a: int, b: int, rate: float, throttle: float = 0.0) -> ProfilingRound:
    return ProfilingRound(
        Plan((Pipeline(("a",), a), Pipeline(("b",), b))), kind, (rate, rate), 0.5, throttle
    )


def test_a_round_is_kept_if_the_next_one_builds_on_it() -> None:
    rounds = (
        around("start", 1, 1, 100.0),
        around("sinks", 1, 2, 200.0),
        around("source", 2, 2, 150.0),
        around("throttle", 1, 2, 180.0, 0.2),
        around("throttle", 1, 2, 190.0, 0.1),
        around("operator b", 1, 3, 190.0, 0.1),
    )
    assert was_kept(rounds, rounds[1]) == (True, True, False, False, True, False)
    assert was_kept(rounds, rounds[5]) == (True, True, False, False, True, True)
    assert was_kept((), rounds[0]) == ()


@pytest.mark.parametrize("flow", [math.inf, 12.5])
def test_a_profile_is_read_as_it_was_written(flow: float) -> None:
    rounds = (around("start", 1, 1, 100.0), around("sinks", 1, 2, 200.0, 0.1))
    made = {"a": Feature(0.002, 0.25, source=True), "b": Feature(0.001, 0.75, dominated=True)}
    found = Profile(made, Ratios({"a": 1.0}, {"b": 2}, flow), {"a": 3}, rounds, rounds[1])
    again = Profile.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    assert again == found


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"rounds": []}, "out of range"),
        ({"rounds": [{"kind": "start"}]}, "'plan' is missing"),
        ({"rounds": [{"plan": {}, "kind": "start", "throughputs": []}]}, "a plan is written as"),
        ({"features": []}, "attribute"),
        ({"features": {"a": {}}}, "'service_ms' is missing"),
        ({"final": "last"}, "must be integers"),
    ],
)
def test_what_is_no_profile_says_why(change: dict[str, object], wrong: str) -> None:
    rounds = (around("start", 1, 1, 100.0),)
    found = Profile({}, Ratios({}, {}, 1.0), {}, rounds, rounds[0]).to_json()
    with pytest.raises(InvalidInput, match=wrong):
        Profile.from_json({**found, **change})
