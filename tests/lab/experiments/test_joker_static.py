"""Joker's best static plans, draws of a case, and what all experiments have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock_lab import experiments
from penstock_lab.experiments.experiment import Case, Data, Record, Setting
from penstock_lab.experiments.joker import common as joker
from penstock_lab.experiments.joker import figure_5 as joker_5
from penstock_lab.experiments.joker import figure_8 as joker_8
from penstock_lab.experiments.joker import figure_10 as joker_10
from penstock_lab.experiments.joker import figure_11 as joker_11
from penstock_lab.experiments.joker import figure_12 as joker_12
from penstock_lab.experiments.joker import figure_16 as joker_16
from penstock_lab.experiments.joker import figure_18 as joker_18
from penstock_lab.experiments.joker.best_static import BestPlan
from penstock_lab.experiments.joker.common import middle, repeated
from tests.lab.experiments.test_joker import OURS, _changed


def _emitting(case: str, rate: float, changed: float | None = None) -> list[Record]:
    """A minute in which the source emits so much, and a change of the plan."""
    found: list[Record] = [
        {"case": case, "kind": "tick", "at": float(at), "ingested": rate * at} for at in range(61)
    ]
    change = {"case": case, "kind": "change", "at": changed, "reason": "", "actions": []}
    return found if changed is None else [*found, change]


def test_no_plan_that_a_policy_ended_with_is_ahead_of_the_best_static_one() -> None:
    records = [
        *_emitting("best static, 64, draw 2", 100.0),
        *_emitting("seed, 64, draw 2", 102.0, changed=30.0),
        *_emitting("seed, 64", 300.0),  # another draw
        *_emitting("seed, 32, draw 2", 300.0),  # another flow
        *_emitting("restless, 64, draw 2", 300.0, changed=50.0),  # no static plan in the end
    ]
    data = Data(tuple(records))
    assert joker.after(data, "best static, 64, draw 2") == pytest.approx(102)
    assert joker.after(data, "seed, 64, draw 2") == pytest.approx(102)
    without = Data(tuple(r for r in records if r["case"] != "seed, 64, draw 2"))
    assert joker.after(without, "best static, 64, draw 2") == pytest.approx(100)


def test_the_ways_beside_a_best_static_plan_are_those_of_its_flow_and_draw() -> None:
    sizes = {"seconds": 60.0, "profile": 20.0, "draws": 2}
    names = [case.name for case in experiments.get("joker-14").made("simulator", sizes)]
    data = Data(tuple({"case": name, "kind": "tick", "at": 0.0} for name in names))
    found = joker.alike(data, "equal, best static")
    assert set(found) == {"equal, 0.2", "equal, 0.9", "equal, organic"}
    assert joker.alike(data, "equal, 0.2") == ()


def test_draws_are_other_chance_under_the_name_of_the_first(tmp_path: Path) -> None:
    seeds: list[int] = []

    def job(setting: Setting) -> list[Record]:
        seeds.append(setting.seed)
        return [{"kind": "tick", "at": 0.0, "value": [5.0, 1.0, 3.0][setting.seed % 1000]}]

    cases = [*repeated(Case("seed", job), 3), Case("once", job)]
    assert [c.name for c in cases] == ["seed", "seed, draw 2", "seed, draw 3", "once"]
    records = [{"case": c.name, **r} for c in cases[:3] for r in c.job(Setting(7, tmp_path))]
    assert seeds == [7000, 7001, 7002]
    once = {"case": "once", "kind": "tick", "at": 0.0, "value": 10.0}
    data = Data((*records, once), parameters={"draws": 3})

    def value(case: str, data: Data) -> float:
        return float(data.of(case)[-1]["value"])

    assert middle(lambda d: value("seed", d))(data) == 3
    assert middle(lambda d: value("once", d) - value("seed", d))(data) == 7
    assert middle(lambda d: float(len(d.cases)))(data) == 2
    assert middle(lambda d: None if value("seed", d) == 1 else 2.0)(data) is None


def test_ten_replicas_stay_and_eleven_do_not_if_tuples_are_dealt_as_keys_are() -> None:
    """How near the last ones are to the 10 % that are asked for, in figures 9 and 15."""
    for whole in (joker.HOP + joker.FIXED + 4096 * joker.MULTIPLICATION, 1 / joker_12._THREAD):

        def does(n: int, whole: float = whole) -> float:
            return 1 / (joker.KEYS.shares(n).max() * (whole + (n - 1) * joker.CROWDING))

        gains = {n: does(n) / does(n - 1) - 1 for n in range(2, 13)}
        assert all(gains[n] > 0.1 for n in range(2, 11))
        assert gains[10] == pytest.approx(0.106, abs=0.001)
        assert gains[11] < joker.SEED.improvement
        assert gains[12] > joker_8.LOWER


def test_the_cheap_region_of_figure_9_takes_a_quarter_of_the_costly_one() -> None:
    each = [joker.HOP + joker.FIXED + n * joker.MULTIPLICATION for n in (512, 4096)]
    assert each[0] / each[1] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("cost", joker_5.COSTS)
@pytest.mark.parametrize("operators", joker_5.LENGTHS)
def test_the_best_static_plan_of_a_long_region_cuts_nothing(operators: int, cost: int) -> None:
    plan = BestPlan(joker_5.region(operators, cost, 1.0)).plan
    assert len(plan.pipelines) == 2


def test_the_counter_that_is_taken_back_is_told_with_what_it_brought() -> None:
    """Throughput by counters: 100, then 160, then 166, then as before."""
    changes = (
        (10.0, "count is busy; one more instance: 1 -> 2"),
        (20.0, "kept: rose 60 %; one more instance: 2 -> 3"),
        (30.0, "undone: rose 4 %; nothing is left to try"),
    )
    case = "seed, word count"
    ticks = [
        {"case": case, "kind": "tick", "at": float(at),
         "pipelines": {"count": {"rate_in": (100.0, 160.0, 166.4, 160.0)[(at - 1) // 10]}}}
        for at in range(1, 41)
    ]  # fmt: skip
    data = Data((*ticks, *_changed(case, *changes)), parameters={"profile": 10.0})
    assert joker_18._taken_back(data) == pytest.approx(0.04)


def test_a_change_takes_as_long_as_its_threads_take_to_stop(tmp_path: Path) -> None:
    """One thread for each of two cuts, three for the second replica, six for the third."""
    play = {c.name: c.job for c in joker_16.changes(85.0, 20.0)}["long queues"]
    made = [r for r in play(Setting(1, tmp_path)) if r["kind"] == "change"]
    stood = [round(change["interruption"] / joker_16.STOP) for change in made]
    assert stood == [1, 1, 3, 6]
    assert all(change["seconds"] < 1 for change in made)


def test_the_cheap_region_is_looked_at_for_every_cost() -> None:
    records = tuple(
        {"case": f"seed, {cost}", "kind": "tick", "at": 1.0,
         "pipelines": {"multiply-2": {"instances": n}}}
        for cost, n in ((32, 5), (64, 4), (4096, 3))
    )  # fmt: skip
    data = Data(records, parameters={"costs": (32, 64, 4096), "draws": 1})
    assert joker_8._cheap_ones(max)(data) == 5
    assert joker_8._cheap_ones(min)(data) == 3


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
    case = experiments.get("es-stream-18").made(
        "simulator", {"intervals": (2.0,), "parallelism": (2,), "states": ()}
    )[1]
    found = [list(case.job(Setting(seed, tmp_path / str(at)))) for at, seed in enumerate((1, 1, 2))]
    assert found[0] == found[1]
    assert found[0][0]["seconds"] == pytest.approx(found[2][0]["seconds"], rel=0.2)


def test_a_change_in_the_last_seconds_counts_though_no_tick_follows() -> None:
    ticks = [
        {"case": "0.95", "kind": "tick", "at": at, "pipelines": {"multiply-1": {"instances": n}}}
        for at, n in ((88.0, 1), (90.0, 2), (98.033, 2))
    ]
    changes = [
        {"case": "0.95", "kind": "change", "at": at, "actions": [f"multiply-1: parallelism {to}"]}
        for at, to in ((89.0, "1 -> 2"), (98.033, "2 -> 3"))
    ]
    data = Data((*ticks, *changes), "spark", 1, {"step": 20.0})
    assert joker_11.most("0.95", 4)(data) == 3
    assert joker_11.most("0.95", 4, at_end=True)(data) == 3


def test_an_experiment_with_costs_of_its_own_says_so() -> None:
    costs = (joker_10.HOP, joker_10.FIXED, joker.HOP, joker.FIXED)
    assert [round(1000 * one, 2) for one in costs] == [1.64, 0.18, 1.25, 0.21]
    assert any("its own costs" in note for note in joker_10.FIGURE_10.notes)
