"""What runs on Spark: that it can be built, and what is read off made-up records of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.dataflow.load_profile import parse
from penstock.dataflow.validation import check
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.policies.base.policy import Context
from penstock.policies.stela import policy as stela
from penstock_lab import experiments
from penstock_lab.experiments import waiting
from penstock_lab.experiments.es_stream import chain_spark as es_stream_spark
from penstock_lab.experiments.es_stream import figure_15 as es_stream_15
from penstock_lab.experiments.es_stream import nodes_spark as nodes_spark
from penstock_lab.experiments.es_stream import recovery_spark as recovery_spark
from penstock_lab.experiments.experiment import Data, Experiment, Record, Setting
from penstock_lab.experiments.joker import fission_spark as joker_waiting
from penstock_lab.experiments.joker import load_spark as joker_spark
from penstock_lab.experiments.nephele import prime_tester_spark as prime_spark
from penstock_lab.experiments.nephele import twitter_spark as nephele_spark
from penstock_lab.experiments.play import SparkPlay
from penstock_lab.experiments.stela import scale_in_spark as removal_spark
from penstock_lab.experiments.stela import scale_out_spark as stela_spark
from penstock_lab.experiments.table import tabulate
from penstock_lab.experiments.verdict import ROUNDS
from penstock_lab.experiments.waiting import Part
from tests.views import statuses

SHOWN = [e for e in experiments.every() if e.spark is not None]


def played(job: Any) -> tuple[SparkPlay, ...]:
    """What a case plays; nothing where it does something else."""
    if isinstance(job, stela_spark.Draw | removal_spark.Removal):
        return (job.play(1),)
    if isinstance(job, joker_waiting.BestOf):
        return job.plays
    if isinstance(job, prime_spark.Fewest):
        return tuple(job.plays.values())
    return (job,) if isinstance(job, SparkPlay) else ()


def test_most_papers_are_shown_on_spark() -> None:
    papers = {e.paper.split(":")[0] for e in SHOWN}
    assert len(papers) == 5
    assert len(SHOWN) >= 8


@pytest.mark.parametrize("experiment", SHOWN, ids=lambda e: e.name)
def test_cases_for_spark_are_few_and_short_and_fit_the_slots(
    experiment: Experiment, tmp_path: Path
) -> None:
    cases = experiment.made("spark", experiment.parameters("spark", quick=False))
    assert len({case.name for case in cases}) == len(cases) <= 6
    for play in (play for case in cases for play in played(case.job)):
        graph = play.build(tmp_path).graph
        check(graph)
        assert play.seconds <= 240
        if play.plan is not None:
            fusion.check(play.plan, graph)
            assert play.plan.slots <= play.slots


# --- flows that wait ----------------------------------------------------------------------------

STAR = (Part("a"), Part("b"), Part("c", ("a", "b"), 0.01), Part("d", ("c",), 0.01, one_of=2))


def test_streams_meet_before_they_are_waited_for_and_end_in_a_sink() -> None:
    plan = waiting.plan(STAR, {"c": 3})
    assert [(p.operators, p.parallelism) for p in plan.pipelines] == [
        (("a",), 1),
        (("b",), 1),
        (("c", "c-wait"), 3),
        (("d", "d-end"), 1),
    ]
    graph = waiting.flow("star", STAR, "5/s", most=4).graph
    fusion.check(plan, graph)
    assert graph["c"].bounds.most == 4
    assert graph["a"].bounds.most == 1


def test_a_chain_is_read_in_its_order() -> None:
    parts = waiting.chain("s", {"x": 0.1, "y": 0.2})
    assert [(p.name, p.inputs, p.seconds) for p in parts] == [
        ("s", (), 0.0),
        ("x", ("s",), 0.1),
        ("y", ("x",), 0.2),
    ]


def test_who_waits_takes_its_time_and_passes_some_on() -> None:
    began = time.perf_counter()
    passed = [row["n"] for n in range(6) for row in waiting.Some(0.002, 3)({"n": n})]
    assert time.perf_counter() - began >= 0.012
    assert passed == [0, 3]
    assert waiting.Waits(0.0)({"n": 7}) == {"n": 7}


# --- made-up records ----------------------------------------------------------------------------


def data(experiment: str, cases: Mapping[str, Sequence[Record]]) -> Data:
    parameters = experiments.get(experiment).parameters("spark", quick=False)
    records = tuple(
        {"case": name, "round": number, **r}  # as often as it takes to be judged
        for number in range(ROUNDS)
        for name, some in cases.items()
        for r in some
    )
    return Data(records, "spark", 1, parameters)


def tick(at: float, pipelines: Mapping[str, tuple[int, float]], **more: Any) -> Record:
    found = {
        name: {"instances": n, "cadence": 0.0, "busy": 1.0, "backlog": 0, "rate_in": rate}
        for name, (n, rate) in pipelines.items()
    }
    usual = {"offered": int(100 * at), "ingested": int(100 * at), "delivered": int(90 * at)}
    slots = sum(n for n, _ in pipelines.values())
    extra = {"throughput": 100.0, "load": 0.5, "executors": 1, "slots": slots, "latency": {}}
    return {"kind": "tick", "at": at, "pipelines": found, **usual, **extra, **more}


def change(at: float) -> Record:
    return {"kind": "change", "at": at, "actions": ["x: parallelism 1 -> 2"], "seconds": 1.0,
            "interruption": 0.5, "reason": ""}  # fmt: skip


def summary(slot_seconds: float, **met: float) -> Record:
    latency = {name.replace("_to_", "->").replace("_", "-"): {"met": share, "mean_ms": 1.0}
               for name, share in met.items()}  # fmt: skip
    return {"kind": "summary", "slot_seconds": slot_seconds, "latency": latency}


def seconds(end: int, of: Callable[[int], Record]) -> list[Record]:
    return [of(at) for at in range(1, end + 1)]


def value(experiment: str, found: Data, what: str) -> tuple[float | None, str]:
    assert experiments.get(experiment).picture(found.rounds[0]).panels
    rows = tabulate(experiments.get(experiment), {"spark": found})
    cell = next(row.cells["spark"] for row in rows if row.claim.what == what)
    return cell.value, cell.verdict


def _scaled(sinks: Sequence[str], after: float) -> list[Record]:
    def of(at: int) -> Record:
        return tick(at, dict.fromkeys(sinks, (1, after if at > 60 else 10.0)))

    return [*seconds(100, of), change(46.0)]


def test_what_stela_brings_is_read_over_whole_batches_after_and_before() -> None:
    star = {w: _scaled(("east", "west"), r)
            for w, r in zip(stela_spark.WAYS, (17.0, 11.0, 18.0), strict=True)}  # fmt: skip
    found = data("stela-4", {f"star, {way}": records for way, records in star.items()})
    name = "star of waiting components: Stela beside"
    assert value("stela-4", found, f"{name} the default scheduler") == (
        pytest.approx(1.7),
        "same direction",
    )
    assert value("stela-4", found, f"{name} best static")[0] == pytest.approx(17 / 18)
    rows = tabulate(experiments.get("stela-4"), {"spark": found})
    assert not [r for r in rows if "linear" in r.claim.what and r.cells], "not tried, so no cell"


def test_who_was_never_scaled_is_not_judged() -> None:
    still = [tick(at, {"east": (1, 10.0), "west": (1, 10.0)}) for at in range(100)]
    found = data("stela-4", {"star, stela": still})
    what = "star of waiting components: Stela beside the default scheduler"
    assert value("stela-4", found, what) == (None, "not measured")


def test_instances_are_given_to_the_slow_component_without_executors() -> None:
    draw = stela_spark.Draw(stela_spark.LAYOUTS[1], "stela", 0.0, 10.0, 2)
    play = draw.play(1)
    assert play.plan is not None
    times = {"first": 0.02, "second": 0.06, "third": 0.02, "sink": 0.02}
    rates = {"source": 100.0, "first": 50.0, "second": 16.7, "third": 16.7, "sink": 16.7}
    arrivals = {"source": 100.0, "first": 100.0, "second": 50.0, "third": 16.7, "sink": 16.7}
    seen = {
        n: PipelineMetrics(n, 1, rate_in=r, rate_out=r, arrival_rate=arrivals[n],
                           service=times.get(n, 0.001))
        for n, r in rates.items()
    }  # fmt: skip
    snapshot = Snapshot(
        30.0, 5.0, 0, 0, 0, 0, pipelines=seen, source_pipelines=frozenset({"source"})
    )
    context = Context(play.build(Path()).graph, play.plan, (snapshot,), 30.0)
    decision = stela_spark.given(context, 2, stela.by_etp)
    assert decision.plan is not None
    assert decision.plan.executors == 1
    assert decision.plan.pipeline_of("second").parallelism >= 2
    assert decision.plan.slots == play.plan.slots + 2
    assert draw.best(times) == {"first": 1, "second": 3, "third": 1, "sink": 1}
    assert (
        stela_spark.given(Context(context.graph, context.plan, (), 1.0), 2, stela.by_etp).plan
        is None
    )


def test_draws_on_spark_have_one_slow_component_that_the_seed_chooses() -> None:
    for layout in stela_spark.LAYOUTS:
        drawn = [stela_spark.drawn(layout, seed) for seed in range(20)]
        assert all(max(d.values()) == stela_spark.SLOW for d in drawn)
        assert len({max(d, key=lambda n: d[n]) for d in drawn}) > 1


def _late(mean: Callable[[int], float]) -> list[Record]:
    def of(at: int) -> Record:
        latency = {"read->count": {"bound": 1.0, "mean": mean(at), "p95": mean(at)}}
        return tick(
            at,
            {"clicks": (1, 1.0), "read": (2 + 2 * (at > 60), 1.0)},
            latency=latency if at > 3 else {},
        )

    return [*seconds(90, of), summary(100.0)]


def test_latency_at_a_steady_and_at_a_rising_rate() -> None:
    found = data(
        "es-stream-9",
        {
            "es-stream, steady": _late(lambda at: 2.0),
            "even, steady": _late(lambda at: 5.0),
            "es-stream, rising": _late(lambda at: 1.0 + (at > 60)),
            "even, rising": _late(lambda at: 1.0 + 3 * (at > 60)),
        },
    )
    steady = value("es-stream-9", found, "waiting operators, steady rate: even beside Es-Stream")
    assert steady == (pytest.approx(2.5), "same direction")
    what = "waiting operators, rising rate: latency of even rises more (1: it does)"
    assert value("es-stream-9", found, what) == (1.0, "agrees")
    assert es_stream_spark.rise(found, "even") == pytest.approx(3000)
    what = "waiting operators, rising rate: Es-Stream's instances at twice the rate beside before"
    assert value("es-stream-9", found, what) == (pytest.approx(2.0), "same direction")


def test_an_even_plan_has_as_many_instances_as_the_formula_at_the_highest_rate() -> None:
    top = max(experiments.get("es-stream-9").spark_size["rates"])
    even, formula = es_stream_spark.even(top), es_stream_spark.formula(top)
    best = es_stream_spark.best(top)
    assert sum(even.values()) == sum(formula.values()) == sum(best.values())
    assert even != formula
    assert all(k > top * es_stream_spark.services()[n] for n, k in even.items())


# --- executors under a changing rate ------------------------------------------------------------


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


def test_instances_come_and_go_with_the_load() -> None:
    def of(at: int) -> Record:
        many = 4 if 30 < at < 75 else 1
        return tick(at, {"numbers": (1, 1.0), "multiply-1": (many, 1.0)})

    cases = {"up and down, organic": [*seconds(96, of), summary(300.0)],
             "up and down, best static": [*seconds(96, of), summary(600.0)]}  # fmt: skip
    found = data("joker-11", cases)
    up = "up and down:"
    assert value("joker-11", found, f"{up} most instances beside those of the first rate")[0] == 4
    assert value("joker-11", found, f"{up} instances at the end beside the most")[0] == 0.25
    assert (
        value("joker-11", found, f"{up} share of the rows that has come through at the end")[0]
        == 0.9
    )
    assert value("joker-11", found, f"{up} thread hours beside the best static plan")[0] == 0.5
    assert joker_spark.threads(found.of("up and down, organic")[-1]) == 1


def _waiting(rate: float, pipelines: Sequence[str] = ("step-1",)) -> list[Record]:
    """A region that carries 60 rows a second up to the change at 20 s, then this."""

    def of(at: int) -> Record:
        ahead = dict.fromkeys(("orders", *pipelines[:-1]), (1, 2000.0))
        return tick(at, {**ahead, pipelines[-1]: (1, rate if at > 20 else 60.0)})

    return [*seconds(60, of), change(20.0), summary(100.0)]


def test_what_the_last_pipeline_takes_is_carried_whatever_the_source_takes() -> None:
    cases = {
        "fusion only": _waiting(150.0, ("step-1", "step-3")),
        "fission only": _waiting(300.0),
        "fusion first": _waiting(600.0, ("step-1", "step-2", "step-3")),
        "best static": _waiting(900.0),
    }
    found = data("joker-5", {f"{name}, 5 ms": records for name, records in cases.items()})
    for what, expected in (
        ("speed-up by fusion only, costly operators", 2.5),
        ("both beside fission only, costly operators", 2.0),
        ("speed-up of the best static plan, costly operators", 15.0),
        ("both beside the best static plan", 2 / 3),
    ):
        cell = next(
            row.cells["spark"]
            for row in tabulate(experiments.get("joker-5"), {"spark": found})
            if row.claim.what == what
        )
        assert cell.value == pytest.approx(expected), what


def test_of_several_static_plans_the_one_that_carries_most_is_kept(tmp_path: Path) -> None:
    tried: list[Path] = []

    def play(rate: float) -> Any:
        def carry_out(setting: Setting) -> list[Record]:
            tried.append(setting.scratch)
            setting.tell(0.5)
            return _waiting(rate)

        return carry_out

    told: list[float] = []
    best = joker_waiting.BestOf((play(300.0), play(900.0), play(600.0)))
    kept = best(Setting(1, tmp_path, told.append))
    assert joker_waiting.rate([r for r in kept if r["kind"] == "tick"]) == 900
    assert len(set(tried)) == 3
    assert told == pytest.approx([1 / 6, 3 / 6, 5 / 6])


def test_the_static_plans_take_the_slots_that_there_are() -> None:
    plays = joker_waiting.best(10.0, "5/s").plays
    plans = [p.plan for p in plays if p.plan is not None]
    assert max(plan.slots for plan in plans) == joker_waiting.SLOTS
    assert {len(plan.pipelines) for plan in plans} == {2, 4}


def test_a_partial_rollback_is_compared_by_direction() -> None:
    def took(taken: float) -> list[Record]:
        return [{"kind": "recovery", "seconds": taken, "each": [taken]}]

    taken = {"partial": (1.0, 1.5, 1.6), "global": (8.0, 9.0, 12.0)}
    cases = {
        f"{way}, {interval} s": took(one)
        for way, some in taken.items()
        for interval, one in zip((2, 4, 6), some, strict=True)
    }
    found = data("es-stream-18", cases)
    what = "recovery with an interval of 2 s, global beside partial rollback"
    assert value("es-stream-18", found, what) == (8.0, "same direction")
    rows = tabulate(experiments.get("es-stream-18"), {"spark": found})
    assert not [r for r in rows if "repartition" in r.claim.what and r.cells]


def test_only_the_keyed_pipeline_fails_in_a_partial_rollback() -> None:
    partial, whole = (recovery_spark.Fault(w, 2.0, 1).plan() for w in ("partial", "global"))
    assert {p.name: p.cadence for p in partial.pipelines} == {"rows": 0.0, "count": 2.0}
    assert {p.name: p.cadence for p in whole.pipelines} == {"rows": 2.0}


@pytest.mark.parametrize("experiment", SHOWN, ids=lambda e: e.name)
def test_a_table_of_nothing_tried_has_no_verdict_on_spark(experiment: Experiment) -> None:
    nothing = Data(({"case": "nobody", "kind": "tick", "at": 0.0},), "spark", 1,
                   experiment.parameters("spark", quick=False))  # fmt: skip
    rows = tabulate(experiment, {"spark": nothing})
    assert {cell.verdict for row in rows for cell in row.cells.values()} <= {"not measured"}
