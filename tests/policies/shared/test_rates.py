from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plan.plan import Pipeline, Plan
from penstock.policies.shared import rates
from penstock.policies.shared.rates import NotMeasured, PipelineRate
from penstock.policies.shared.topology import Topology
from tests.policies import dags
from tests.strategies import few

DIAMOND = {"s": (), "a": ("s",), "b": ("s",), "c": ("a", "b")}


def test_every_reader_gets_all_and_what_meets_adds_up() -> None:
    found = rates.steady_state(dags.topology(DIAMOND), {"s": 100.0}, {"a": 0.5}, {})
    assert [found[n].arrival for n in "sabc"] == [100, 100, 100, 150]
    assert found["a"].output == 50


def test_a_slow_pipeline_passes_on_what_it_can() -> None:
    found = rates.steady_state(dags.topology(DIAMOND), {"s": 100.0}, {"b": 2.0}, {"b": 30.0})
    assert found["b"] == PipelineRate(100.0, 30.0, 30.0, 2.0)
    assert found["c"].arrival == 160
    assert found["b"].congestion == pytest.approx(100 / 30)
    assert rates.throughput(dags.topology(DIAMOND), found) == 160


def test_two_operators_of_one_pipeline_that_read_the_same_get_it_twice() -> None:
    dag = dags.graph(DIAMOND)
    pair = Topology(dag, Plan((Pipeline(("s",)), Pipeline(("a", "b", "c", "c-out")))))
    now = rates.steady_state(pair, {"s": 100.0}, {}, {"s": 50.0})
    assert now["a"].arrival == 100
    assert rates.scaled(pair, now, "s", 2)["a"].arrival == 200


def test_a_source_beside_other_inputs_adds_what_it_is_offered() -> None:
    dag = dags.graph({"s": (), "t": (), "u": ("s", "t")})
    pair = Topology(dag, Plan((Pipeline(("s",)), Pipeline(("t", "u", "u-out")))))
    assert rates.steady_state(pair, {"s": 10.0, "t": 7.0}, {}, {})["t"].arrival == 17


def test_fused_sinks_deliver_the_output_and_lone_sinks_what_they_take() -> None:
    dag = dags.graph({"s": (), "a": ("s",)}, sinks=["s"])
    apart = Plan((Pipeline(("s", "s-out")), Pipeline(("a",)), Pipeline(("a-out",))))
    found = Topology(dag, apart)
    given_rates = rates.steady_state(found, {"s": 10.0}, {"s": 3.0, "a": 0.5}, {"a-out": 4.0})
    assert rates.delivered(found, given_rates) == {"s": 30.0, "a-out": 4.0}


def test_one_more_instance_is_projected_and_its_readers_get_more() -> None:
    chain = dags.topology({"s": (), "a": ("s",), "b": ("a",), "c": ("b",)})
    now = rates.steady_state(chain, {"s": 100.0}, {}, {"a": 30.0, "b": 50.0})
    then = rates.scaled(chain, now, "a", 2 / 1)
    assert [then[n].processed for n in "sabc"] == [100, 60, 50, 50]
    assert then["b"].arrival == 60
    assert rates.scaled(chain, then, "a", 3 / 2)["a"].processed == 90
    assert rates.scaled(chain, now, "a", 5)["a"].processed == 100  # no more than comes


def test_a_source_can_be_projected_to_bring_in_more() -> None:
    chain = dags.topology({"s": (), "a": ("s",)})
    now = rates.steady_state(chain, {"s": 100.0}, {}, {"s": 100.0, "a": 150.0})
    then = rates.grown(chain, now, "s", 2)
    assert then["s"].processed == 200
    assert then["a"].congestion == pytest.approx(200 / 150)


@few
@given(dags.flows(), st.data(), st.sampled_from((1.25, 2.0, 3.0)))
def test_a_projection_is_what_settles_in_with_that_capacity(
    flow: tuple[Topology, rates.Rates], data: st.DataObject, factor: float
) -> None:
    found, now = flow
    name = data.draw(st.sampled_from(sorted(now)))
    offered = {s: now[s].arrival for s in found.sources}
    capacity = {n: r.capacity for n, r in now.items()}
    after = {**capacity, name: capacity[name] * factor}
    expected = rates.steady_state(found, offered, {n: r.selectivity for n, r in now.items()}, after)
    projected = rates.scaled(found, now, name, factor)
    for n, rate in expected.items():
        assert projected[n].arrival == pytest.approx(rate.arrival, abs=1e-6)
        assert projected[n].processed == pytest.approx(rate.processed, abs=1e-6)


@few
@given(dags.flows(), st.floats(0.1, 10))
def test_rates_follow_the_unit_of_time(flow: tuple[Topology, rates.Rates], c: float) -> None:
    found, now = flow
    again = rates.steady_state(
        found,
        {s: c * now[s].arrival for s in found.sources},
        {n: r.selectivity for n, r in now.items()},
        {n: c * r.capacity for n, r in now.items()},
    )
    for n, rate in now.items():
        assert again[n].processed == pytest.approx(c * rate.processed)


@few
@given(dags.flows())
def test_what_a_window_shows_is_read_back(flow: tuple[Topology, rates.Rates]) -> None:
    found, now = flow
    read = rates.measured(found, dags.snapshot(found, now))
    for name, rate in now.items():
        assert read[name].arrival == pytest.approx(rate.arrival)
        assert read[name].processed == pytest.approx(rate.processed)
        if rate.processed:
            assert read[name].capacity == pytest.approx(rate.capacity)
            assert read[name].output == pytest.approx(rate.output)


def _window(**changed: object) -> tuple[Topology, object]:
    chain = dags.topology({"s": (), "a": ("s",)})
    shown = dags.snapshot(chain, rates.steady_state(chain, {"s": 10.0}, {}, {"s": 20.0, "a": 5.0}))
    metrics = replace(shown.pipelines["s"], **changed)  # type: ignore[arg-type]
    return chain, replace(shown, pipelines={**shown.pipelines, "s": metrics})


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"arrival_rate": None}, "not measured: arrival rate of s"),
        ({"rate_out": None}, "not measured: output rate of s"),
        ({"parallelism": 3}, r"s with 1 instances \(measured with 3\)"),
    ],
)
def test_what_is_missing_is_named(changed: dict[str, object], missing: str) -> None:
    with pytest.raises(NotMeasured, match=missing):
        rates.measured(*_window(**changed))  # type: ignore[arg-type]


def test_a_pipeline_that_is_not_there_and_an_unsettled_window_are_refused() -> None:
    chain, shown = _window()
    assert isinstance(shown, type(dags.snapshot(chain, {})))
    with pytest.raises(NotMeasured, match="pipeline s, pipeline a"):
        rates.measured(chain, replace(shown, pipelines={}))
    with pytest.raises(NotMeasured, match="the plan changed"):
        rates.measured(chain, replace(shown, settled=False))


def test_without_a_service_time_what_is_processed_is_what_can_be() -> None:
    chain, shown = _window(service=None)
    assert rates.measured(chain, shown)["s"].capacity == 10  # type: ignore[arg-type]
    chain, shown = _window(service=0.0)
    assert rates.measured(chain, shown)["s"].capacity == math.inf  # type: ignore[arg-type]


def test_back_pressure_is_seen_through() -> None:
    """s could take all 100, but the channel to a is full, so s takes what a takes."""
    chain = dags.topology({"s": (), "a": ("s",), "b": ("a",)})
    held = {
        "s": PipelineRate(100.0, 20.0, 500.0),
        "a": PipelineRate(20.0, 20.0, 20.0),
        "b": PipelineRate(20.0, 20.0, 300.0),
    }
    read = rates.measured(chain, dags.snapshot(chain, held))
    assert read["s"].congestion == 1
    assert read["a"] == PipelineRate(100.0, 20.0, 20.0)
    assert read["b"].processed == 20
    slow = {**held, "s": PipelineRate(100.0, 20.0, 20.0)}  # here s itself is too slow
    assert rates.measured(chain, dags.snapshot(chain, slow))["s"].congestion == 5


@pytest.mark.parametrize(
    ("arrival", "batches", "congestion"),
    [(24.0, 8, 1.0), (24.0, 0, 1.2), (120.0, 8, 6.0)],
    ids=["little", "little, no batches", "much"],
)
def test_a_window_that_a_batch_did_not_end_in_is_no_congestion(
    arrival: float, batches: int, congestion: float
) -> None:
    topology = dags.topology({"s": (), "a": ("s",)})
    flows = {"s": PipelineRate(arrival, arrival, arrival), "a": PipelineRate(arrival, 20.0, 20.0)}
    seen = dags.snapshot(topology, flows)
    a = replace(seen.pipelines["a"], batches=batches, service=0.01)  # 100 rows/s if it has to
    seen = replace(seen, pipelines={**seen.pipelines, "a": a})
    assert rates.measured(topology, seen)["a"].congestion == pytest.approx(congestion)


@pytest.mark.parametrize(
    ("rows", "busy", "behind"),
    [
        (1_000_000, 1.0, True),
        (501, 1.0, True),
        (500, 1.0, False),  # no more than a window of 5 s
        (None, 1.0, False),
        (1_000_000, 0.8, False),  # it has time, and does not take it: something holds it back
    ],
)
def test_what_is_at_work_all_the_time_and_falls_behind_is_congested(
    rows: int | None, busy: float, behind: bool
) -> None:
    found = dags.topology({"s": (), "x": ("s",)})
    now = rates.steady_state(found, {"s": 118.0 * busy}, {}, {"s": 1000.0})
    now = {**now, "x": rates.PipelineRate(118.0 * busy, 100.0 * busy, 100.0)}
    shot = dags.snapshot(found, now)
    late = replace(shot.pipelines["x"], backlog_rows=rows)
    seen = rates.measured(found, replace(shot, pipelines={**shot.pipelines, "x": late}))
    assert seen["x"].congestion == pytest.approx(1.18)
    assert seen["x"].congested() == behind
    assert not rates.scaled(found, seen, "x", 2.0)["x"].congested()
