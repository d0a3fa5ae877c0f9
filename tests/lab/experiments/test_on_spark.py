"""What runs on Spark: that it can be built, and what is read off made-up records of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.dataflow.validation import check
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.policies.base.policy import Context
from penstock.policies.stela import policy as stela
from penstock_lab import experiments
from penstock_lab.experiments import waiting
from penstock_lab.experiments.es_stream import chain_spark as es_stream_spark
from penstock_lab.experiments.es_stream import nodes_spark as nodes_spark
from penstock_lab.experiments.es_stream import recovery_spark as recovery_spark
from penstock_lab.experiments.experiment import Data, Experiment, Record
from penstock_lab.experiments.joker import fission_spark as joker_waiting
from penstock_lab.experiments.nephele import prime_tester_spark as prime_spark
from penstock_lab.experiments.play import SparkPlay
from penstock_lab.experiments.stela import scale_in_spark as removal_spark
from penstock_lab.experiments.stela import scale_out_spark as stela_spark
from penstock_lab.experiments.table import tabulate
from penstock_lab.experiments.verdict import ROUNDS
from penstock_lab.experiments.waiting import Part

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
