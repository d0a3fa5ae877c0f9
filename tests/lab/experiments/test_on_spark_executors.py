"""Cases on Spark that change executors or have a load that changes, from made-up records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.dataflow.load_profile import parse
from penstock_lab import experiments
from penstock_lab.experiments import waiting
from penstock_lab.experiments.es_stream import chain_spark as es_stream_spark
from penstock_lab.experiments.es_stream import figure_15 as es_stream_15
from penstock_lab.experiments.es_stream import nodes_spark as nodes_spark
from penstock_lab.experiments.es_stream import recovery_spark as recovery_spark
from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.nephele import prime_tester_spark as prime_spark
from penstock_lab.experiments.nephele import twitter_spark as nephele_spark
from penstock_lab.experiments.play import SparkPlay
from tests.lab.experiments.test_on_spark import (
    STAR,
    change,
    data,
    seconds,
    summary,
    tick,
    value,
)
from tests.views import statuses


def _phases(
    instances: Sequence[int], executors: Sequence[int], mean: float, hours: float
) -> list[Record]:
    """Four phases of 36 s; what is there changes 18 s into each, and plans say nothing of it."""

    def of(at: int) -> Record:
        which = min(3, max(0, (at - 18) // 36))
        latency = {"read->count": {"bound": 1.0, "mean": mean, "p95": mean}} if at > 3 else {}
        found = tick(at, {"clicks": (1, 1.0), "read": (instances[which], 1.0)}, latency=latency)
        return {**found, "cores": nodes_spark.ROOM * executors[which]}

    all_told = {"read->count": {"met": 0.0, "mean_ms": 2000 * mean}}
    rows = {"rows_offered": 1000, "rows_delivered": 990, "latency": all_told}
    return [*seconds(144, of), change(53.0), {**summary(hours), **rows}]


def test_instances_and_executors_are_read_at_the_end_of_each_phase() -> None:
    many = (13,) * 4
    found = data(
        "es-stream-15",
        {
            "es-stream": _phases((6, 12, 9, 3), (2, 4, 3, 1), 2.0, 600.0),
            "even": _phases(many, (4,) * 4, 3.0, 1200.0),
            "best static": _phases(many, (4,) * 4, 1.0, 1200.0),
            "dynamic allocation": _phases(many, (1, 4, 4, 4), 5.0, 1200.0),
        },
    )
    of = "waiting operators:"
    then = "beside the phase before"
    expected = {
        f"{of} instances at the highest rate {then}": (2.0, "same direction"),
        f"{of} instances at three quarters of it {then}": (0.75, "same direction"),
        f"{of} instances at a quarter of it {then}": (1 / 3, ""),
        f"{of} executors at the highest rate {then}": (2.0, "same direction"),
        f"{of} executors at three quarters of it {then}": (0.75, "given"),
        f"{of} executors at a quarter of it {then}": (1 / 3, "same direction"),
        f"{of} instances at a quarter of it": (3.0, ""),
        f"{of} executors at the highest rate": (4.0, ""),
        f"{of} executors that come and go under even": (0.0, "given"),
        f"{of} executors that come and go under dynamic allocation": (3.0, ""),
        f"{of} instance hours of best static beside Es-Stream": (2.0, ""),
        f"{of} latency of even beside Es-Stream": (1.5, ""),
        f"{of} latency at the end of the highest rate of best static beside Es-Stream": (0.5, ""),
        f"{of} rows delivered of each that came, es-stream": (0.99, ""),
    }
    read = {what: value("es-stream-15", found, what) for what in expected}
    assert {w: v for w, (_, v) in read.items()} == {w: v for w, (_, v) in expected.items()}
    assert {w: n for w, (n, _) in read.items()} == pytest.approx(
        {w: n for w, (n, _) in expected.items()}
    )
    # two for a phase and a half, four, three, and one for half a phase
    slots = nodes_spark.ROOM * (2 * 53 + 4 * 36 + 3 * 36 + 19) / 3600
    held = value("es-stream-15", found, f"{of} slot hours of Es-Stream's executors")[0]
    assert held == pytest.approx(slots)
    drawn = experiments.get("es-stream-15").picture(found.rounds[0]).panels
    assert [p.y for p in drawn] == ["instances", "executors", "mean latency (s)"]
    assert [m.label for m in drawn[1].marks] == ["2 → 4"]
    assert [(m.at, m.label) for m in drawn[2].marks] == [(36, "120/s"), (72, "90/s"), (108, "30/s")]


def test_a_phase_of_which_nothing_was_seen_is_not_judged() -> None:
    gone = [r for r in _phases((6, 12, 9, 3), (2, 4, 3, 1), 2.0, 600.0)
            if r["kind"] != "tick" or r["at"] < 110]  # fmt: skip
    found = data("es-stream-15", {"es-stream": gone})
    assert value("es-stream-15", found, "waiting operators: executors at a quarter of it") == (
        None,
        "not measured",
    )


def test_executors_of_a_cluster_have_room_for_what_a_plan_has_and_follow_in_one_case() -> None:
    experiment = experiments.get("es-stream-15")
    size = experiment.parameters("spark", quick=False)
    plays = {c.name: c.job for c in experiment.made("spark", size)}
    assert list(plays) == list(nodes_spark.WAYS)
    for name, play in plays.items():
        assert isinstance(play, SparkPlay)
        assert play.plan is not None
        assert play.master == nodes_spark.CLUSTER
        assert play.drain, "or rows on their way would look like lost ones"
        assert play.plan.slots <= nodes_spark.ROOM * play.plan.executors
        assert (play.policy == "static") == (name != "es-stream")
        assert bool(play.conf) == (name == "dynamic allocation")
    policy = plays["es-stream"].policy
    assert (policy.steady, policy.changing, policy.room) == (9.0, 6.0, nodes_spark.ROOM)
    own, even, best, dynamic = (play.plan for play in plays.values())
    assert own.executors == 2
    assert {p.executors for p in (even, best, dynamic)} == {nodes_spark.EXECUTORS}
    assert best == dynamic != even
    assert best.slots == even.slots
    conf = plays["dynamic allocation"].conf
    assert conf["spark.dynamicAllocation.maxExecutors"] == "4"
    assert conf["spark.dynamicAllocation.executorIdleTimeout"] == "36000ms"


def test_the_rates_are_the_seeds_and_its_formula_asks_for_other_executors_at_each() -> None:
    rates = experiments.get("es-stream-15").spark_size["rates"]
    assert [30 * rate for rate in rates] == list(es_stream_15.RATES)
    plans = [nodes_spark.plan(es_stream_spark.formula(rate)) for rate in rates]
    assert [plan.executors for plan in plans] == [2, 4, 3, 2]
    top = max(rates)
    assert sum(es_stream_spark.even(top).values()) == sum(es_stream_spark.formula(top).values())


def _tweets(topics: float, mood: float, hours: float) -> list[Record]:
    def of(at: int) -> Record:
        latency = {
            nephele_spark.TOPICS: {"bound": 5.0, "mean": topics if at > 10 else 9.0, "p95": 9.0},
            nephele_spark.MOOD: {"bound": 5.0, "mean": mood, "p95": 9.0},
        }
        return tick(at, dict.fromkeys(nephele_spark.ELASTIC, (3, 1.0)), latency=latency)

    return [*seconds(100, of), summary(hours, hot_topics_to_filter=0.9, filter_to_sentiment=1.0)]


def test_the_best_static_plan_is_the_smallest_that_meets_both_bounds_often_enough() -> None:
    cases = {
        "latency": _tweets(4.0, 4.0, 600.0),
        "static, 3 of each": _tweets(4.0, 9.0, 1000.0),
        "static, 4 of each": _tweets(4.0, 4.0, 1200.0),
        "static, 5 of each": _tweets(4.0, 4.0, 1500.0),
    }
    found = data("nephele-8", cases)
    assert nephele_spark.both(found, "latency") == pytest.approx(0.9)
    assert nephele_spark.both(found, "static, 3 of each") == 0.0
    # none meets them in 91 %, so the one that does most often, and of these the first
    assert nephele_spark.best(found) == "static, 4 of each"
    hours = value("nephele-8", found, "waiting tasks: task hours beside the best static plan")
    assert hours[0] == pytest.approx(0.5)
    what = "waiting tasks: share of intervals that meet the bound of the topics"
    assert value("nephele-8", found, what) == (0.9, "differs"), "10 % are missed, 7 % there"


def test_the_burst_lasts_ten_seconds() -> None:
    load = parse(nephele_spark.load(240, 100.0))
    assert [round(load.rate(at)) for at in (0, 20, 55, 65, 75, 99)] == [60, 60, 160, 240, 120, 120]


def _testers(cores: Callable[[int], int], met: float) -> list[Record]:
    def of(at: int) -> Record:
        latency = {"test->sink": {"bound": 2.0, "mean": 1.0, "p95": 1.5}}
        found = tick(at, {"source": (1, 1.0), "test": (5, 1.0)}, latency=latency)
        return {**found, "cores": cores(at)}

    rows = {"rows_offered": 1000, "rows_delivered": 1000}
    return [*seconds(100, of), {**summary(600.0, test_to_sink=met), **rows}]


def test_dynamic_allocation_is_held_to_the_executors_that_were_there() -> None:
    cases = {"latency": _testers(lambda at: 12, 0.9), "static": _testers(lambda at: 12, 0.8),
             "dynamic allocation": _testers(lambda at: 4 if at <= 50 else 12, 0.7)}  # fmt: skip
    found = data("nephele-6", cases)
    expected = {
        "share of intervals that meet the bound": 0.9,
        "share that meets the bound under Spark's dynamic allocation": 0.7,
        "slot hours of the executors that Spark had, dynamic allocation": 800 / 3600,
        "most executors under dynamic allocation": 3,
        "executors under dynamic allocation at the end": 3,
        "rows delivered of each that came, dynamic allocation": 1,
    }
    read = {what: value("nephele-6", found, what)[0] for what in expected}
    assert read == pytest.approx(expected)
    drawn = experiments.get("nephele-6").picture(found.rounds[0]).panels[-1]
    assert drawn.y == "executors"
    assert [line.y[0] for line in drawn.lines] == [1]


class Tried(SparkPlay):
    """A plan that met its bound at some of the looks of a trial."""

    def __call__(self, setting: Setting) -> Sequence[Record]:
        assert self.plan is not None
        assert setting.scratch.is_dir()
        mean = 1.9 if self.plan.pipeline_of("test").parallelism > 6 else 2.1
        return [
            tick(at, {"test": (6, 1.0)}, latency={"test->sink": {"bound": 2.0, "mean": late}})
            for at in range(1, 21)
            for late in [mean if at >= 10 else 9.0]
        ] + [summary(100.0, test_to_sink=0.5)]


def test_testers_are_added_until_the_bound_is_met_at_the_peak(tmp_path: Path) -> None:
    experiment = experiments.get("nephele-6")
    cases = experiment.made("spark", experiment.parameters("spark", quick=False))
    job = next(case.job for case in cases if case.name == "best static")
    assert isinstance(job, prime_spark.Fewest)
    assert [*job.plays] == [6, 7, 8, 9, 10, 11]
    for count, play in job.plays.items():
        assert play.plan is not None
        assert play.plan.pipeline_of("test").parallelism == count
        assert {parse(play.build(tmp_path).graph["source"].body.source.load).rate(at)
                for at in (0, 19)} == {900}  # fmt: skip
    fake = {n: Tried(play.build, play.seconds, plan=play.plan) for n, play in job.plays.items()}
    records = prime_spark.Fewest(fake)(Setting(1, tmp_path))
    assert records[0] == {"kind": "found", "test": 7}
    assert {r["testers"] for r in records[1:]} == {6, 7}
    static = _testers(lambda at: 6, 0.8)
    found = data("nephele-6", {"latency": _testers(lambda at: 6, 0.9), "static": static,
                               "best static": records})  # fmt: skip
    what = "testers of the best static plan that meets the bound in 91 %"
    assert value("nephele-6", found, what)[0] == 7
    # eight tasks for as long as the static plan had six
    beside = value("nephele-6", found, "task hours beside the best static plan")[0]
    assert beside == pytest.approx(600 / (600 * 8 / 6))
    nobody = data("nephele-6", {"latency": static, "static": static, "best static": records[1:]})
    assert value("nephele-6", nobody, what)[1] == "not measured"
    enough = data("nephele-6", {"latency": static, "static": _testers(lambda at: 6, 0.95),
                                "best static": records})  # fmt: skip
    assert value("nephele-6", enough, what)[0] == 5


def test_hours_under_a_longer_bound_are_fewer() -> None:
    cases = {
        name: [{**r, "slot_seconds": hours} if r["kind"] == "summary" else r
               for r in _testers(lambda at: 12, met)]
        for name, hours, met in (("1s", 1000.0, 0.95), ("4s", 800.0, 0.85), ("static", 640.0, 0.6))
    }  # fmt: skip
    late = {"test->sink": {"bound": 1.0, "mean": 2.0}}
    cases["static"] = [
        {**r, "latency": late} if r["kind"] == "tick" and r["at"] > 75 else r
        for r in cases["static"]
    ]
    found = data("nephele-hours", cases)
    what = "waiting testers: share of the hours at the shorter bound that the longer saves"
    assert value("nephele-hours", found, what) == (pytest.approx(0.2), "same direction")
    met = "waiting testers: share of intervals that meet the"
    assert value("nephele-hours", found, f"{met} shorter bound") == (0.95, "same direction")
    assert value("nephele-hours", found, f"{met} longer bound") == (0.85, "differs")
    still = "waiting testers: share of looks at which static ones meet the"
    assert value("nephele-hours", found, f"{still} shorter bound")[0] == 0.75
    assert value("nephele-hours", found, f"{still} longer bound")[0] == 1.0
    hours = "waiting testers: task hours at the longer bound beside static testers"
    assert value("nephele-hours", found, hours)[0] == pytest.approx(1.25)
    bars = experiments.get("nephele-hours").picture(found.rounds[0]).panels[0].bars[0]
    assert bars.values == pytest.approx((1000 / 3600, 800 / 3600, 640 / 3600))


def test_one_case_leaves_executors_to_spark_on_a_cluster_with_the_static_testers() -> None:
    experiment = experiments.get("nephele-6")
    cases = experiment.made("spark", experiment.parameters("spark", quick=False))
    plays = {c.name: c.job for c in cases if isinstance(c.job, SparkPlay)}
    dynamic = plays.pop("dynamic allocation")
    assert dynamic.master == prime_spark.CLUSTER
    assert {p.master for p in plays.values()} == {None}
    assert dynamic.plan is not None
    assert plays["static"].plan is not None
    assert dynamic.plan.pipelines == plays["static"].plan.pipelines
    assert dynamic.conf["spark.dynamicAllocation.enabled"] == "true"
    assert dynamic.conf["spark.dynamicAllocation.executorIdleTimeout"] == "30000ms"
    assert not plays["static"].conf


def test_a_case_on_a_cluster_has_a_session_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []

    def run(*_: Any, **given: Any) -> Any:
        told.append(given["engine"]._master)
        raise InterruptedError

    monkeypatch.setattr("penstock_lab.experiments.play.run", run)
    monkeypatch.setattr(
        "penstock.engines.spark.session.flow_session.end", lambda: told.append("end")
    )
    for master in (None, "local-cluster[2,2,1024]"):
        job = SparkPlay(lambda out: waiting.flow("star", STAR, "5/s"), 1.0, master=master)
        with pytest.raises(InterruptedError):
            job(Setting(1, tmp_path))
    assert told == ["local[16]", "end", "local-cluster[2,2,1024]", "end"]


def test_every_case_finds_spark_as_warm_as_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[dict[str, Any]] = []

    def run(*_: Any, **given: Any) -> Any:
        told.append(given)
        return statuses.summary()

    monkeypatch.setattr("penstock_lab.experiments.play.run", run)
    plan = waiting.plan(STAR)
    job = SparkPlay(lambda out: waiting.flow("star", STAR, "5/s"), 60.0, "latency", plan)
    kept = list(job(Setting(1, tmp_path)))
    before, real = told
    assert (before["policy"], before["seconds"], before["drain"]) == ("static", 20.0, False)
    assert (real["policy"], real["seconds"], real["drain"]) == ("latency", 60.0, True)
    assert before["plan"] == real["plan"] == plan
    assert before["run_dir"] != real["run_dir"]
    assert [one["kind"] for one in kept] == ["summary"]
