"""Stela's experiments: which machines go, where instances go, and what published times give."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.stela import policy as stela
from penstock_lab.experiments.experiment import Data, Record, Setting
from penstock_lab.experiments.stela.common import (
    AT,
    AT_ONCE,
    Dealt,
    ScaleOut,
    best,
    chanced,
    least_links,
    starting,
    taken,
)
from penstock_lab.experiments.stela.figure_8 import FIGURE_8, RANDOM, STELA, ScaleInDraw, down, kept
from penstock_lab.experiments.stela.layout import Layout, slots
from penstock_lab.experiments.stela.topologies import (
    LINEAR,
    NETWORK,
    PAGE_LOAD,
    SCALING,
    STAR,
    WAITING,
)
from penstock_lab.experiments.table import tabulate
from penstock_lab.experiments.verdict import GIVEN


def test_the_machines_of_the_source_go_first_and_the_rest_end_up_even(tmp_path: Path) -> None:
    scenario = SCALING.scenario(SCALING.times, 100.0, cores=1, packed=True, cpu=0.0)
    engine = scenario.engine(3, step=5.0)
    engine.start(scenario.graph, scenario.plan, tmp_path)
    engine.advance(60.0)
    seen = engine.observe()
    assert [dict(e.instances) for e in seen.executors.values()] == [
        {name: 15} for name in ("views", *SCALING.inputs)
    ]
    limits = Limits(executor_slots=64)
    context = Context(scenario.graph, scenario.plan, (seen,), 60.0, limits=limits)
    decision = stela.scale_in(context, 4)
    assert decision.plan is not None
    # all sinks are behind the congested transform: what only feeds it counts for nothing
    assert [decision.numbers[f"{n}.etp_sum"] for n in range(8)] == [0, 0] + [15] * 6
    assert decision.plan.leaving[:2] == ("0", "1")
    assert [p.parallelism for p in decision.plan.pipelines] == list(SCALING.first.values())
    engine.apply(decision.plan)
    engine.advance(20.0)
    left = [sum(e.instances.values()) for e in engine.observe().executors.values()]
    assert left == [30] * 4  # as Stela deals them out in turn


@pytest.mark.parametrize(
    ("layout", "before", "after"),
    [(PAGE_LOAD, 51.2, 2.0), (WAITING[0], 63.6, 1.585), (WAITING[1], 178.9, 1.5)],
)
def test_four_more_executors_at_the_best_places(
    layout: Layout, before: float, after: float
) -> None:
    carried = layout.throughput(layout.times, layout.first)
    assert carried == pytest.approx(before, rel=1e-3)
    plan = best(layout, layout.times, layout.scenario(layout.times, 10.0))
    more = {p.name: p.parallelism for p in plan.pipelines}
    assert sum(more.values()) <= sum(layout.first.values()) + slots(layout)
    assert layout.throughput(layout.times, more) / carried == pytest.approx(after, rel=1e-3)


def test_components_that_work_carry_no_more_than_the_processors(tmp_path: Path) -> None:
    layout = WAITING[0]
    found = Dealt(layout, 7, 0)(Setting(1, tmp_path))
    ticks = [r for r in found if r["kind"] == "tick"]
    carried = ticks[-1]["delivered"] / ticks[-1]["at"]
    assert 0 < carried < layout.throughput(layout.times, layout.first)
    assert all(a["delivered"] <= b["delivered"] for a, b in pairwise(ticks))


def test_least_link_load_takes_components_that_talk_to_each_other() -> None:
    assert least_links(PAGE_LOAD, PAGE_LOAD.times)[:3] == ("loads", "aggregate", "filter-2")
    assert PAGE_LOAD.traffic(PAGE_LOAD.times)["loads"] == pytest.approx(51.2, rel=1e-3)


def test_workers_start_as_fast_as_the_processors_of_their_machines_let_them() -> None:
    assert starting(PAGE_LOAD, PAGE_LOAD.workers) == 40.0
    assert starting(STAR, STAR.workers) == 30.0
    assert starting(NETWORK, NETWORK.workers) == 10.0  # four processors a machine


def test_stela_stops_what_it_gives_executors_and_a_rebalance_stops_all(tmp_path: Path) -> None:
    def seen(policy: str) -> tuple[Record, float]:
        found = ScaleOut(PAGE_LOAD, policy, 0)(Setting(1, tmp_path / policy))
        (change,) = [r for r in found if r["kind"] == "change"]
        ticks = [r for r in found if r["kind"] == "tick" and r["at"] >= AT]
        still = (b["at"] - a["at"] for a, b in pairwise(ticks) if a["delivered"] == b["delivered"])
        return change, sum(still)

    ours, stood = seen("stela")
    assert ours["actions"] == ["views: parallelism 4 -> 8", "executors 7 -> 8"]
    assert ours["interruption"] == pytest.approx(4 * 10 / 7)  # four workers on seven machines
    theirs, stopped = seen("default")
    assert theirs["actions"] == ["executors 7 -> 8"]
    assert seen(AT_ONCE)[1] == pytest.approx(stopped - 30, abs=5)  # which Storm waits
    assert stood < 10 < 50 <= stopped <= 70  # of 71 s the first ten are in one tick


def test_least_link_load_moves_executors_and_adds_none(tmp_path: Path) -> None:
    found = ScaleOut(PAGE_LOAD, "least link load", 0)(Setting(1, tmp_path))
    (change,) = [r for r in found if r["kind"] == "change"]
    assert change["actions"] == ["executors 7 -> 8"]
    assert change["interruption"] > 0
    assert {r["slots"] for r in found if r["kind"] == "tick"} == {28}


def test_repetitions_have_chances_of_their_own(tmp_path: Path) -> None:
    seeds = {chanced(Setting(s, tmp_path), n).seed for s in range(3) for n in range(10)}
    assert len(seeds) == 30


def test_times_are_drawn_between_bounds_and_in_the_same_order() -> None:
    usual, apart = taken(LINEAR, 1, 0), taken(LINEAR, 1, 0, (0.01, 0.1))
    assert all(0.02 <= t <= 0.06 for t in usual.values())
    assert all(0.01 <= t <= 0.1 for t in apart.values())
    assert max(apart.values()) - min(apart.values()) > max(usual.values()) - min(usual.values())
    assert sorted(usual, key=lambda n: usual[n]) == sorted(apart, key=lambda n: apart[n])


def test_workers_without_a_place_take_their_share_of_the_executors_along(tmp_path: Path) -> None:
    scenario = SCALING.scenario(SCALING.times, 10.0, cores=1, packed=True, cpu=0.0)
    draw = ScaleInDraw(RANDOM, 0)
    # the first of the components behind the source is on the third machine, in four workers
    one = [*draw._homeless(Setting(1, tmp_path), scenario.plan, ("2",), 0.5)]
    assert {name for name, _ in one} == {"transform"}
    assert len(one) in (7, 8)
    everybody = [*draw._homeless(Setting(1, tmp_path), scenario.plan, ("2", "3"), 0.0)]
    assert everybody == [(name, n) for name in ("transform", "filter") for n in range(15)]


def test_the_fewer_workers_find_a_place_the_less_is_kept(tmp_path: Path) -> None:
    ways = (STELA, "random, 3/4 placed", "random, 1/4 placed")
    records = []
    for way in ways:
        found = ScaleInDraw(way, 0)(Setting(1, tmp_path / way))
        records += [{"case": f"page-load, {way}, 0", **r} for r in found]
    told = Data(tuple(records), parameters={"draws": 1})
    stela, many, few = (kept(way)(told) for way in ways)
    assert stela == pytest.approx(1.0, abs=0.05)
    assert many is not None
    assert few is not None
    assert 0.9 > many > few
    assert down(told, STELA) == 0.0


def test_seconds_without_throughput_are_told_as_they_are() -> None:
    def ticks(policy: str, still: float) -> list[Record]:
        times = [AT + 5.0 * n for n in range(12)]
        moved = [0 if t < AT + still else int(t) for t in times]
        named = f"page-load, {policy}, 0"
        return [{"case": named, "kind": "tick", "at": t, "delivered": d}
                for t, d in zip(times, moved, strict=True)]  # fmt: skip

    told = Data((*ticks(STELA, 0.0), *ticks(RANDOM, 30.0)), parameters={"draws": 1})
    assert (down(told, STELA), down(told, RANDOM)) == (0.0, 25.0)
    table = tabulate(FIGURE_8, {"simulator": told})
    rows = {r.claim.what: r.cells["simulator"] for r in table if r.claim.only == "simulator"}
    beside = rows["seconds without throughput, Stela beside random groups"]
    assert (beside.value, beside.verdict) == (0.0, GIVEN)
