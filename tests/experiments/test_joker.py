"""What Joker's and Es-Stream's experiments are made of, and how they are read."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import experiments
from penstock.experiments import es_stream, joker, joker_10
from penstock.experiments.experiment import Data
from penstock.models import instances

OURS = [e for e in experiments.every() if e.name.startswith(("joker", "es-stream"))]


def test_what_a_tuple_costs_gives_the_rates_that_the_seed_prints() -> None:
    m = joker.MULTIPLICATION
    assert 1 / (joker.HOP + joker.FIXED + 256 * m) == pytest.approx(500)
    assert 1 / (joker.HOP + 12.5 * joker.FIXED + 4096 * m) == pytest.approx(80)
    hop, fixed = joker_10.HOP, joker_10.FIXED
    assert 1 / (hop + 12.5 * fixed + 4096 * m) == pytest.approx(80)
    assert 1 / (4 * hop + 6.5 * fixed + 2048 * m) == pytest.approx(1.04 * 80)


def test_the_selectivity_region_sees_twelve_and_a_half_tuples_for_one() -> None:
    scenario = joker_10.selective(1.0)
    visits, rows = 0.0, 1.0
    work = 0.0
    for name in scenario.graph.topological:
        if name.startswith(("multiply", "select")):
            step = scenario.model.step(name)
            visits, work = visits + rows, work + rows * step.service.mean
            rows *= step.selectivity
    assert visits == 12.5
    assert 1 / (work + scenario.model.hop) == pytest.approx(80)


def test_beta_is_the_one_of_fourteen_instances_at_1800() -> None:
    share = es_stream.SEED.share

    def total(app: es_stream.Application, rate: float) -> int:
        return sum(instances.best(rate * s, share) for s in app.services.values())

    assert total(es_stream.COUNT, 1800) == 14
    for app, seed in ((es_stream.COUNT, (24, 19)), (es_stream.TOP, (27, 23))):
        for rate, n in zip((3600, 2700), seed, strict=True):
            assert total(app, rate) == pytest.approx(n, rel=0.25)


def test_all_cores_carry_the_highest_rate() -> None:
    for app in (es_stream.COUNT, es_stream.TOP):
        cores = es_stream.NODES * es_stream.CORES
        assert cores / sum(app.services.values()) == pytest.approx(app.bottleneck)
    assert es_stream.TOP.even(18) == {"read": 5, "sold": 5, "count": 4, "rank": 4}


def _data(changes: list[tuple[float, str]], rates: list[float]) -> Data:
    """Ten seconds under each plan, at a rate."""
    records: list[dict[str, Any]] = []
    for number, rate in enumerate(rates):
        for second in range(10):
            at = 10.0 * number + second + 1
            pipelines = {"multiply-1": {"rate_in": rate, "instances": 1}}
            records.append({"case": "seed", "kind": "tick", "at": at, "pipelines": pipelines})
    records += [
        {"case": "seed", "kind": "change", "at": at, "reason": reason} for at, reason in changes
    ]
    return Data(tuple(records), parameters={"profile": 10.0})


def test_attempts_are_measured_against_what_was_before_the_first_of_them() -> None:
    changes = [
        (10.0, "m is busy; split into a | b"),
        (20.0, "undone: rose 5 %; one more instance: 1 -> 2"),
        (30.0, "kept: rose 60 %; split into a | b"),
        (40.0, "undone: rose 0 %; nothing is left to try"),
    ]
    data = _data(changes, [100.0, 105.0, 160.0, 160.0, 160.0])
    assert joker_10.attempts(data) == pytest.approx([0.05, 0.6, 0.0])


@pytest.mark.parametrize("one", OURS, ids=lambda e: e.name)
def test_every_experiment_can_be_made_and_says_each_thing_once(one: Any) -> None:
    for quick in (True, False):
        cases = one.made("simulator", one.parameters("simulator", quick))
        assert len({c.name for c in cases}) == len(cases) > 1
    whats = [claim.what for claim in one.claims]
    assert len(set(whats)) == len(whats)
    if one.spark is not None:
        assert one.made("spark", one.parameters("spark", False))


def test_the_same_seed_gives_the_same_records_and_another_one_others(tmp_path: Any) -> None:
    from penstock.experiments.experiment import Setting

    case = experiments.get("es-stream-18").made(
        "simulator", {"intervals": (2.0,), "parallelism": (2,)}
    )[1]
    found = [list(case.job(Setting(seed, tmp_path / str(at)))) for at, seed in enumerate((1, 1, 2))]
    assert found[0] == found[1]
    assert found[0][0]["seconds"] == pytest.approx(found[2][0]["seconds"], rel=0.2)
