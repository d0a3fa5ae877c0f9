"""How Es-Stream's experiments are read, and which faults count."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.engines.simulator.executors import place
from penstock.errors import FlowFailed
from penstock.plan.plan import Plan
from penstock.policies.es_stream.marginal_analysis import best_instances
from penstock.policies.shared import queueing
from penstock_lab import experiments
from penstock_lab.experiments.es_stream import best_static as es_stream_static
from penstock_lab.experiments.es_stream import chain_spark as es_stream_spark
from penstock_lab.experiments.es_stream import common as es_stream
from penstock_lab.experiments.es_stream import figure_9 as es_stream_9
from penstock_lab.experiments.es_stream import figure_13 as es_stream_13
from penstock_lab.experiments.es_stream import figure_15 as es_stream_15
from penstock_lab.experiments.es_stream import figure_18 as es_stream_18
from penstock_lab.experiments.es_stream import recovery_spark as recovery_spark
from penstock_lab.experiments.es_stream.common import COUNT, TOP, Application
from penstock_lab.experiments.es_stream.recovery import Fault, Scaled, recovered
from penstock_lab.experiments.experiment import Data, Job, Record, Setting
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
    assert [(c.seed, c.basis) for c in claims] == [(14 / 16, "given"), (18 / 17, "given")]
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


def late(latencies: Mapping[str, float]) -> Data:
    """Ten seconds of each case, with a mean latency in milliseconds."""
    records = (
        {
            "case": case,
            "kind": "tick",
            "at": at,
            "slots": 9,
            "latency": {"all": {"mean": ms / 1000}},
        }
        for case, ms in latencies.items()
        for at in range(1, 11)
    )
    return Data(tuple(records), parameters={"rates": es_stream_9.RATES, "seconds": 10.0})


def everywhere(own: float, **others: float) -> Data:
    """As long at all rates, for both applications; others: of ways, else they take 5 ms."""
    cases = [c.name for c in es_stream_9.cases(es_stream_9.RATES, 10.0)]
    ways = {case: case.rsplit(", ", 2)[0] for case in cases}
    told = {"es-stream": own, **{name.replace("_", " "): ms for name, ms in others.items()}}
    return late({case: told.get(way, 5.0) for case, way in ways.items()})


def test_who_has_enough_for_the_highest_rate_is_drawn_and_judged() -> None:
    data = everywhere(2.0, drs_fixed=3.0, even_fixed=4.0, even=9.0)
    figure = es_stream_9.picture(data)
    lines = {line.label: line.y for line in figure.panels[-1].lines}
    assert lines["drs"] == pytest.approx((3.0,) * 4)
    assert lines["even"] == pytest.approx((4.0,) * 4)
    assert len(lines) == 6
    rows = {row.claim.what: row.cells["simulator"] for row in tabulate(
        es_stream_9.LATENCY, {"simulator": data}) if "simulator" in row.cells}  # fmt: skip
    what = "the fastest of drs, r-storm and even, with enough for 3,600/s, beside Es-Stream's"
    for rate in ("900", "3,600"):
        cell = rows[f"Top_N at {rate}/s: latency of {what}"]
        assert cell.value == pytest.approx(1.5)
        assert cell.verdict == "same direction"
        assert f"Top_N at {rate}/s: latency of dynamic allocation beside Es-Stream's" in rows
        assert f"Top_N at {rate}/s: latency of best static beside Es-Stream's" in rows


def test_a_rival_that_is_faster_at_one_rate_is_told() -> None:
    data = everywhere(2.0, **{"r-storm_fixed": 1.9})
    found = [row for row in tabulate(es_stream_9.LATENCY, {"simulator": data})
             if "the fastest of" in row.claim.what]  # fmt: skip
    assert len(found) == 8
    assert {row.cells["simulator"].verdict for row in found} == {"differs"}


def test_with_as_many_as_es_stream_no_operator_is_busy_for_much_more_than_half_the_time() -> None:
    for app, rate in ((COUNT, 1800), (TOP, 2700)):
        deal = app.even(es_stream_static.arrived(app, rate))
        busy = [rate * s / deal[n] for n, s in app.services.items()]
        assert max(busy) < 0.55


def test_work_of_5_9_ms_would_need_80_cores() -> None:
    assert sum(TOP.services.values()) == pytest.approx(0.0019, abs=0.00005)
    assert 0.0059 * TOP.bottleneck == pytest.approx(80, abs=0.5)


def test_ways_of_a_millisecond_are_those_of_the_same_plans() -> None:
    jobs = {c.name: c.job for c in es_stream_9.cases((1800,), 60.0)}
    for way in ("es-stream", "even as many", "r-storm as many"):
        near, far = (jobs[f"{way}{more}, COMMCount, 1800"] for more in ("", ", far"))
        assert isinstance(near, Play)
        assert isinstance(far, Play)
        assert far.scenario.model.between == 0.001
        model = replace(far.scenario.model, between=es_stream.BETWEEN)
        assert replace(far, scenario=replace(far.scenario, model=model)) == near


def test_the_best_static_plan_is_no_slower_than_that_of_es_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worse(*_: Any, **__: Any) -> dict[str, int]:
        return {"read": 7, "views": 4}

    monkeypatch.setattr(es_stream_static, "best_static", worse)
    job = es_stream_static.Best(COUNT, 1800, 20.0, 14)
    found = next(r for r in job(Setting(1, tmp_path)) if r["kind"] == "found")
    assert found == {"kind": "found", "read": 3, "views": 6, "count": 5}


def test_the_best_static_plan_on_spark_is_that_of_batches_of_queues_and_of_es_stream() -> None:
    best = es_stream_spark.best(140)
    assert best == es_stream_spark.formula(140) == {"read": 2, "views": 6, "count": 4}
    loads = {n: 140 * s for n, s in es_stream_spark.services().items()}
    servers = [queueing.Server(n, load, 1, 12) for n, load in loads.items()]
    assert queueing.best(servers, 12).instances == best
    assert sum(es_stream_spark.services().values()) == pytest.approx(0.048)


def test_a_pause_on_spark_is_told_beside_the_median() -> None:
    def case(way: str, times: Iterable[float], mean: Callable[[float], float]) -> list[Record]:
        deal = {n: {"instances": 2} for n in COUNT.operators}
        return [{"case": f"{way}, rising", "kind": "tick", "at": at, "pipelines": deal,
                 "latency": {"all": {"mean": mean(at)}}} for at in times]  # fmt: skip

    seconds = range(1, 91)
    records = [*case("es-stream", seconds, lambda at: 3.0),
               *case("best static", [s for s in seconds if not 66 < s < 70],
                     lambda at: 9.0 if at > 69 else 2.4)]  # fmt: skip
    data = Data(tuple(records), "spark")
    rows = {row.claim.what: row.cells["spark"].value for row in tabulate(
        es_stream_9.LATENCY, {"spark": data}) if "spark" in row.cells}  # fmt: skip
    told = "waiting operators, rising rate:"
    assert rows[f"{told} longest time between two measurements at the highest, es-stream"] == 1.0
    assert rows[f"{told} longest time between two measurements at the highest, best static"] == 4.0
    assert rows[f"{told} median latency of the best static plan beside Es-Stream's over all the "
                "time at the highest"] == pytest.approx(0.8)  # fmt: skip
    alike = [value for what, value in rows.items() if "operators, of three, of which" in what]
    assert alike == [3.0]


# --- recovery -----------------------------------------------------------------------------------


def test_a_recovery_ends_when_no_more_waits_than_a_hundredth_of_a_second_of_its_own_rate() -> None:
    class Waiting:
        """A hundred tuples wait, and fifty leave a second."""

        now = 4.0

        def advance(self, seconds: float) -> None:
            self.now += seconds

        def observe(self) -> Any:
            waiting = round(100 - 50 * (self.now - 4.0))
            return SimpleNamespace(pipelines={"count": SimpleNamespace(backlog_rows=waiting)})

    for rate, taken in ((1800, 1.64), (900, 1.82)):
        found = recovered(cast(Any, Waiting()), 4.0, rate)
        assert found == pytest.approx(taken, abs=0.03)


@pytest.mark.extended
def test_who_was_scaled_does_again_what_came_since_its_backup_on_cores_that_others_use_too(
    tmp_path: Path,
) -> None:
    def took(job: Job) -> float:
        scratch = tmp_path / type(job).__name__  # one for each dataflow
        return float(next(iter(job(Setting(1, scratch))))["seconds"])

    short, long = took(Scaled(1.0)), took(Scaled(3.0))
    # 1,800 tuples/s keep five counters busy for 0.21 of the time, which they catch up with too
    busy = 1800 * COUNT.services["count"] / 5
    alone = busy / (1 - busy)
    assert alone < (long - short) / 2 < 2 * alone
    # of one that failed alone there is a core for all that it does again
    assert took(Fault("partial", 3.0)) < long < took(Fault("global", 3.0))
    read = took(Scaled(1.0, 900, 160e6)) - took(Scaled(1.0, 900))
    assert read == pytest.approx(160e6 / (13 * 12.5e6), rel=0.25)


def test_deviations_are_those_of_scaling_where_it_was_tried() -> None:
    def of(**ways: tuple[float, float]) -> Data:
        told = {
            f"{w}, {i} s": s for w, pair in ways.items() for i, s in zip((1, 2), pair, strict=True)
        }
        records = ({"case": c, "kind": "recovery", "seconds": s} for c, s in told.items())
        return Data(tuple(records), parameters={"intervals": (1.0, 2.0)})

    both = of(partial=(1.0, 2.0), **{"global": (2.0, 8.0)})
    assert es_stream_18.over_intervals(both) == pytest.approx(6.0)
    scaled = of(partial=(1.0, 2.0), scaled=(1.0, 3.0), **{"global": (2.0, 8.0)})
    assert es_stream_18.over_intervals(scaled) == pytest.approx(3.0)


def test_more_machines_and_fewer_links_are_tried_and_read_apart() -> None:
    size: dict[str, Any] = {"intervals": (1.0, 2.0), "parallelism": (1,), "states": (10, 20)}
    names = [case.name for case in es_stream_18.cases(**size)]
    slow = {"global on 5 machines, 2 s": 9.0, "partial over 4 links, 20 MB": 3.0}
    usual = {"1 s": 1.0, "2 s": 2.0, "10 MB": 1.0, "20 MB": 2.0}
    took = {name: slow.get(name, usual.get(name.split(", ")[1])) for name in names}
    records = tuple(
        {"case": name, "kind": "recovery", "seconds": some}
        for name, some in took.items()
        if some is not None  # else it is a repartition
    )
    data = Data(records, parameters=size)
    rows = {row.claim.what: row.cells["simulator"].value
            for row in tabulate(es_stream_18.FIGURE_18, {"simulator": data})}  # fmt: skip
    over = "standard deviation of recovery times over"
    both = "global beside partial rollback"
    assert rows[f"{over} intervals, {both}"] == pytest.approx(1.0)
    assert rows[f"{over} intervals, {both}, with 5 machines at work"] == pytest.approx(8.0)
    assert rows[f"{over} intervals, {both}, with 13 machines at work"] == pytest.approx(1.0)
    assert rows[f"{over} sizes of state, {both}, with 8 links"] == pytest.approx(1.0)
    assert rows[f"{over} sizes of state, {both}, with 4 links"] == pytest.approx(0.5)


def test_arithmetic_is_given_and_a_recovery_that_does_not_grow_differs() -> None:
    def took(taken: float) -> Record:
        return {"kind": "recovery", "seconds": taken, "each": [taken]}

    cases = {"partial, 2 s": took(2.0), "partial, 4 s": took(1.7),
             "global, 2 s": took(2.5), "global, 4 s": took(6.5)}  # fmt: skip
    records = tuple(
        {"case": name, "round": number, **record}
        for number in range(3)
        for name, record in cases.items()
    )
    data = Data(records, "spark", 1, {"intervals": (2.0, 4.0), "faults": 1})
    experiment = experiments.get("es-stream-18")
    rows = {row.claim.what: row for row in tabulate(experiment, {"spark": data})}
    grows = "rollback: for each second that the interval is longer, recovery is longer by"
    partial, whole = rows[f"partial {grows}"], rows[f"global {grows}"]
    assert partial.cells["spark"].verdict == "differs"
    assert "one batch of the keyed operator" in partial.why
    assert (whole.cells["spark"].verdict, whole.why) == ("same direction", "")
    simulated = [c for c in experiment.claims if c.only != "spark" and c.basis != "varied"]
    assert all(c.basis == "given" or c.given_on == "simulator" for c in simulated)
    assert partial.claim.basis == "found", "on Spark it is measured"


class Logs:
    """Spark's two logs of a query, written by steps that happen whenever somebody waits."""

    def __init__(self, home: Path) -> None:
        self.home, self.steps = home, iter(())
        for name in ("offsets", "commits"):
            (home / name).mkdir()

    def begin(self, batch: int, row: int) -> None:
        line = f'e1_0:{{"row": {row}, "of": "wait>count"}}'
        (self.home / "offsets" / f"{batch}").write_text(f"v1\n{{}}\n{line}")

    def end(self, batch: int) -> None:
        (self.home / "commits" / f"{batch}").write_text("v1\n{}")

    def sleep(self, seconds: float) -> None:
        for step in next(self.steps):
            step()

    steps: Iterator[Iterable[Callable[[], None]]]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Logs:
    """Batches 0 and 1 are done, with 400 rows each."""
    made = Logs(tmp_path)
    for batch in (0, 1):
        made.begin(batch, 400 * (batch + 1))
        made.end(batch)
    monkeypatch.setattr(time, "sleep", made.sleep)
    return made


def struck(
    logs: Logs, *steps: Iterable[Callable[[], None]], failure: FlowFailed | None = None
) -> Record | None:
    """A fault, where one step happens each time that somebody waits."""
    logs.steps = iter(steps)
    pipeline: Any = SimpleNamespace(
        checkpoint=logs.home,
        wired=SimpleNamespace(epoch=1),
        query=SimpleNamespace(stop=lambda: None),
    )
    plan = SimpleNamespace(pipeline_of=lambda operator: SimpleNamespace(name=operator))
    engine: Any = SimpleNamespace(plan=plan, pipelines={"count": pipeline}, failure=failure)
    return recovery_spark.recovered(engine, 600)


def test_a_flow_that_was_given_up_is_not_waited_for(logs: Logs) -> None:
    begun = [lambda: logs.begin(2, 1200)]
    with pytest.raises(FlowFailed, match="four times"):
        struck(logs, begun, [], failure=FlowFailed("it failed four times"))


def test_a_batch_that_is_done_when_its_query_comes_back_was_recovered(logs: Logs) -> None:
    found = struck(logs, [lambda: logs.begin(2, 1200)], [], [], [lambda: logs.end(2)])
    assert found is not None
    assert found["rows"] == 400
    assert 0 <= found["seconds"] < 5


def test_a_fault_after_the_commit_does_not_count_though_the_next_batch_is_cut_off(
    logs: Logs,
) -> None:
    quick = [lambda: logs.end(2), lambda: logs.begin(3, 1600)]
    assert struck(logs, [lambda: logs.begin(2, 1200)], quick) is None


def test_a_batch_with_what_was_left_behind_is_not_hit(logs: Logs) -> None:
    usual = [lambda: logs.end(2), lambda: logs.begin(3, 2400)]
    found = struck(logs, [lambda: logs.begin(2, 2000)], usual, [], [lambda: logs.end(3)])
    assert found is not None
    assert found["rows"] == 400


def test_five_faults_at_three_intervals_are_asked_for() -> None:
    size = experiments.get("es-stream-18").spark_size
    assert (len(size["intervals"]), size["faults"]) == (3, 5)
