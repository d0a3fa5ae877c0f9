"""How Es-Stream's experiments are read, and which faults count."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.engines.simulator.executors import place
from penstock.plan.plan import Plan
from penstock.policies.es_stream.marginal_analysis import best_instances
from penstock_lab import experiments
from penstock_lab.experiments.es_stream import common as es_stream
from penstock_lab.experiments.es_stream import figure_9 as es_stream_9
from penstock_lab.experiments.es_stream import figure_13 as es_stream_13
from penstock_lab.experiments.es_stream import figure_15 as es_stream_15
from penstock_lab.experiments.es_stream import recovery_spark as recovery_spark
from penstock_lab.experiments.es_stream.common import COUNT, TOP, Application
from penstock_lab.experiments.experiment import Data, Record, Setting
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import scaled
from penstock_lab.experiments.table import tabulate

# --- figure 13 ----------------------------------------------------------------------------------


def rising(left: Mapping[int, float], rates: tuple[int, ...]) -> Data:
    """Ten seconds at each rate; left: how many tuples a second leave at it."""
    records: list[Record] = []
    offered = delivered = 0.0
    for number, rate in enumerate(rates):
        for second in range(10):
            at = 10 * number + second + 1
            offered, delivered = offered + rate, delivered + left[rate]
            records.append({"case": "one", "kind": "tick", "at": at, "offered": int(offered),
                            "delivered": int(delivered)})  # fmt: skip
    return Data(tuple(records), parameters={"rates": rates, "step": 10.0})


def test_a_backlog_that_is_worked_off_is_no_capacity() -> None:
    rates = (1000, 2000, 3000, 4000, 5000)
    data = rising({1000: 1000, 2000: 2000, 3000: 2500, 4000: 4500, 5000: 5000}, rates)
    assert es_stream_13.bottleneck(data, "one") == 2000


def test_a_backlog_that_grows_slowly_is_seen() -> None:
    rates = (1000, 2000)
    assert es_stream_13.bottleneck(rising({1000: 1000, 2000: 1970}, rates), "one") == 1000
    assert es_stream_13.bottleneck(rising({1000: 1000, 2000: 1995}, rates), "one") == 2000


def test_who_carries_nothing_has_no_highest_rate() -> None:
    data = rising({1000: 500, 2000: 2000}, (1000, 2000))
    assert es_stream_13.bottleneck(data, "one") == 0.0


def test_a_case_ends_with_the_first_rate_that_is_not_carried() -> None:
    rates = (1000, 2000, 3000, 4000)
    data = rising({1000: 1000, 2000: 2000, 3000: 2500, 4000: 4500}, rates)
    beyond = es_stream_13.Beyond(rates, 10.0)
    ticks = data.of("one")
    ends = [n for n in range(len(ticks) + 1) if beyond(ticks[:n])]
    assert [ticks[n - 1]["at"] for n in ends[:1]] == [30]
    cut = replace(data, records=ticks[: ends[0]])
    assert es_stream_13.bottleneck(cut, "one") == 2000 == es_stream_13.bottleneck(data, "one")


def test_all_have_room_for_as_many_and_what_fewer_carry_is_not_counted_as_found() -> None:
    room = {case.name: case.job for case in es_stream_13.rising((4000,), 10.0)}
    for app in (COUNT, TOP):
        for way in ("drs", "even", "best static"):
            job = room[f"{way}, {app.name}"]
            assert isinstance(job, Play)
            assert job.scenario.plan.slots - 1 == 52
            assert job.scenario.plan.executors == 13
    compared = [c for c in es_stream_13.FIGURE_13.claims if "beside" in c.what]
    assert all((c.basis == "varied") == ("of 2" in c.what) for c in compared)


def test_the_rate_that_all_cores_carry_is_given_and_two_steps_less_differ() -> None:
    experiment = experiments.get("es-stream-13")
    records = [
        {"case": f"es-stream, {app.name}", "kind": "tick", "at": 10.0 * number + 10.0,
         "offered": 0, "delivered": 0 if rate <= most else -rate}
        for app, most in ((COUNT, 14_500), (TOP, 12_500))
        for number, rate in enumerate((12_500, 14_500, 15_000))
    ]  # fmt: skip
    data = Data(tuple(records), parameters={"rates": (12_500, 14_500, 15_000), "step": 10.0})
    rows = {row.claim.what: row for row in tabulate(experiment, {"simulator": data})}
    cells = [rows[f"{app.name}: highest rate that Es-Stream carries"].cells for app in (COUNT, TOP)]
    found = [(cell["simulator"].value, cell["simulator"].verdict) for cell in cells]
    assert found == [(14_500, "given"), (12_500, "differs")]


def test_the_instances_that_a_policy_ends_with_are_put_anew(tmp_path: Path) -> None:
    job = {case.name: case.job for case in es_stream_13.rising((4000, 8000), 20.0)}
    told: list[float] = []
    setting = Setting(1, tmp_path, tell=told.append)
    ways = ("es-stream", es_stream_13.ANEW)
    own, anew = (list(job[f"{way}, COMMCount"](setting)) for way in ways)
    ends, ticks = ([r for r in some if r["kind"] == "tick"] for some in (own, anew))
    assert es_stream.instances(ends[0]) < es_stream.instances(ends[-1])
    deals = [{n: p["instances"] for n, p in t["pipelines"].items()} for t in ticks]
    assert all(
        deal == {n: p["instances"] for n, p in ends[-1]["pipelines"].items()} for deal in deals
    )
    assert not [r for r in anew if r["kind"] == "change"]
    assert max(told) == 1.0


@pytest.mark.parametrize("app", [COUNT, TOP], ids=lambda app: app.name)
def test_no_deal_carries_more_than_the_best_static_plan(app: Application) -> None:
    even = es_stream.scenario(app, "1/s", 1.0, app.even(52), es_stream.NODES)

    def carries(plan: Plan) -> float:
        each = [plan.pipeline_of(n).parallelism / s for n, s in app.services.items()]
        return min(*each, es_stream_13.on_machines(plan, app))

    best = carries(es_stream_13.dealt(even, app))
    assert best <= app.bottleneck * (1 + 1e-9)
    rng = random.Random(1)
    for _ in range(200):
        cuts = sorted(rng.sample(range(1, 52), len(app.operators) - 1))
        deal = [b - a for a, b in pairwise((0, *cuts, 52))]
        some = scaled(even.plan, dict(zip(app.operators, deal, strict=True)))
        assert carries(some) <= best
    assert carries(even.plan) <= best


def test_instances_of_a_machine_share_its_cores() -> None:
    packed = es_stream.scenario(COUNT, "1/s", 1.0, COUNT.even(3), 1).plan
    assert es_stream_13.on_machines(packed, COUNT) == pytest.approx(15_000 / 13)


def test_no_rate_that_is_tried_is_far_above_what_all_cores_carry() -> None:
    for quick in (True, False):
        rates = es_stream_13.FIGURE_13.parameters("simulator", quick)["rates"]
        assert min(rates) < 6000
        assert max(a.bottleneck for a in (COUNT, TOP)) < max(rates) < 17_000


# --- R-Storm, and figures 14 to 17 --------------------------------------------------------------


def test_r_storm_takes_the_fewest_machines_with_room_and_cores() -> None:
    assert COUNT.packed(24) == 6
    # 3.1 cores at work are two machines, though eight instances would fit on them
    assert COUNT.packed(6, 1800) == 2
    # twelve instances fit on three machines, whose six cores are too few for 6.2 at work
    assert COUNT.packed(12, 3600) == 4
    assert COUNT.packed(52, 15_000) == es_stream.NODES


def test_r_storm_has_shorter_ways_than_an_even_plan_and_the_same_queues() -> None:
    cases = {c.name: c.job for c in es_stream_9.cases((1800,), 60.0)}
    r_storm, even = (cases[f"{way}, COMMCount, 1800"] for way in ("r-storm", "even"))
    assert isinstance(r_storm, Play)
    assert isinstance(even, Play)
    assert r_storm.scenario.plan.pipelines == even.scenario.plan.pipelines
    assert r_storm.scenario.model == even.scenario.model
    ways = []
    for play in (r_storm, even):
        placed, plan = place(None, play.scenario.plan), play.scenario.plan
        ways.append(sum(placed.apart(a.name, b.name) for a, b in pairwise(plan.pipelines)))
    assert ways == [1.5, 3.0]
    assert even.scenario.model.between == 0.0001


def test_what_the_beginning_of_figure_14_follows_from_is_not_counted_as_found() -> None:
    claims = [c for c in es_stream_15.FIGURE_15.claims if "of all operators" in c.what]
    assert [(c.paper, c.basis) for c in claims] == [(14 / 16, "given"), (18 / 17, "given")]
    first = [c for c in es_stream_15.FIGURE_15.claims if "of the first operator" in c.what]
    assert len(first) == 2
    assert [c.basis for c in first] == ["given", "given"], "beginnings are chosen so"


def test_figure_14_begins_as_its_text_allows() -> None:
    def allowed(app: es_stream.Application, start: int) -> bool:
        """Fewer of the first operator, more of the second, and all together as the seed says."""
        then = [best_instances(1800 * s, es_stream.SEED.share) for s in app.services.values()]
        at_first = list(app.even(start).values())
        all_told = sum(then) < start if app is COUNT else sum(then) > start
        return then[0] < at_first[0] and then[1] > at_first[1] and all_told

    def starts(app: es_stream.Application) -> list[int]:
        return [start for start in range(6, 40) if allowed(app, start)]

    assert es_stream_15.START["COMMCount"] in starts(COUNT) == [15, 16]
    assert starts(TOP) == [es_stream_15.START["Top_N"]]


def test_machines_of_the_peak_are_loaded_between_both_zetas_at_2_700() -> None:
    for app in (COUNT, TOP):
        at_peak = sum(best_instances(3600 * s, es_stream.SEED.share) for s in app.services.values())
        machines = app.packed(at_peak, 3600)
        load = 2700 * sum(app.services.values()) / (es_stream.CORES * machines)
        assert es_stream_15.SLOW.zeta < load < es_stream.SEED.zeta


@pytest.mark.extended
def test_machines_hold_no_more_instances_than_they_have_room_for(tmp_path: Path) -> None:
    cases = {c.name: c.job for c in es_stream_15.changing(240.0)}
    for app in (COUNT, TOP):
        ticks = [r for r in cases[f"es-stream, {app.name}"](Setting(1, tmp_path / app.name))
                 if r["kind"] == "tick" and r["at"] > 10]  # fmt: skip
        assert all(es_stream.instances(t) <= es_stream.INSTANCES * t["executors"] for t in ticks)
        assert min(t["executors"] for t in ticks) < max(t["executors"] for t in ticks)


def test_a_change_is_marked_with_what_there_was_and_what_there_is() -> None:
    def tick(at: float, slots: int, executors: int) -> Record:
        return {"case": "one", "kind": "tick", "at": at, "slots": slots, "executors": executors}

    data = Data((tick(1, 17, 4), tick(2, 17, 4), {"case": "one", "kind": "change", "at": 2.0},
                 tick(3, 15, 4), tick(4, 15, 4)))  # fmt: skip
    assert [(m.at, m.label) for m in es_stream.marks(data, "one")] == [(2.0, "16 → 14")]
    machines = es_stream.marks(data, "one", es_stream_15.machines)
    assert [(m.at, m.label) for m in machines] == [(2.0, "")]


def test_what_runs_stays_where_it_is_when_machines_come(tmp_path: Path) -> None:
    scenario = es_stream.scenario(COUNT, "1800/s", 0.0, {"read": 4, "views": 6, "count": 4}, 4)
    engine = scenario.engine(1)
    engine.start(scenario.graph, scenario.plan, tmp_path)
    engine.advance(5.0)
    more = replace(scaled(scenario.plan, {"views": 8}), executors=6)
    assert engine.apply(more).interruption == 0.0


def test_drs_keeps_all_machines_whatever_it_deals(tmp_path: Path) -> None:
    for cases in (es_stream_9.cases((1800,), 30.0), es_stream_15.changing(240.0)):
        drs = next(c.job for c in cases if c.name.startswith("drs, COMMCount"))
        assert isinstance(drs, Play)
        short = replace(drs, scenario=replace(drs.scenario, seconds=30.0))
        ticks = [r for r in short(Setting(1, tmp_path)) if r["kind"] == "tick"]
        assert {t["executors"] for t in ticks} == {es_stream.NODES}


# --- figures 9 to 12 ----------------------------------------------------------------------------
