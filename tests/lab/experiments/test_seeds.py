"""The seeds' experiments themselves: that they can be made, drawn, and say what they ought to."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.dataflow.load_profile import parse
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.policies.base.policy import Context
from penstock_lab import experiments
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Data, Experiment, Setting
from penstock_lab.experiments.nephele import figure_8 as nephele_8
from penstock_lab.experiments.nephele.common import PRINTED, Buffers, FewestInstances
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.runner import Order, carry_out
from penstock_lab.experiments.scenario import (
    TWEETS_PEAK,
    prime_tester,
    twitter_sentiment,
)
from penstock_lab.experiments.stela.common import best, taken
from penstock_lab.experiments.stela.topologies import LINEAR
from penstock_lab.experiments.verdict import DIFFERS

EVERY = experiments.every()

WITHOUT_NUMBERS = {"joker-6", "joker-8"}
"""Figures of which the seed says nothing that can be counted."""


@pytest.mark.parametrize("experiment", EVERY, ids=lambda e: e.name)
def test_every_experiment_can_be_made_in_both_sizes(experiment: Experiment) -> None:
    for quick in (True, False):
        cases = experiment.made("simulator", experiment.parameters("simulator", quick))
        assert len({case.name for case in cases}) == len(cases) > 0
    assert len({claim.what for claim in experiment.claims}) == len(experiment.claims)
    numbered = any(claim.paper is not None for claim in experiment.claims)
    assert numbered == (experiment.name not in WITHOUT_NUMBERS)
    assert (experiment.spark is None) == bool(experiment.no_spark)


def test_names_are_different_and_looked_up() -> None:
    assert len({e.name for e in EVERY}) == len(EVERY)
    assert experiments.get("nephele-6").figure == "figure 6"


def test_the_latency_policy_needs_less_than_static_testers_and_meets_its_bound(
    tmp_path: Path,
) -> None:
    experiment = experiments.get("nephele-6")
    brief = replace(
        experiment,
        cases=lambda step: [c for c in experiment.cases(step) if c.name in ("latency", "static")],
        size=experiment.quick,
    )
    carry_out(brief, Order(tmp_path, seed=7))
    rows = json.loads((tmp_path / "nephele-6" / "table.json").read_text())["rows"]
    rows = [row for row in rows if "simulator" in row]
    found = {row["what"]: row["simulator"] for row in rows}
    assert found["share of intervals that meet the bound"]["value"] > 0.9
    assert found["task hours beside static testers"]["value"] < 0.95
    assert found["testers at the end of the warm-up"]["value"] == pytest.approx(38, abs=3)
    assert not [row for row in rows if row["simulator"]["verdict"] == DIFFERS and not row["why"]]


def test_stela_gains_in_a_chain_and_costs_differ_by_seed(tmp_path: Path) -> None:
    experiment = experiments.get("stela-4")
    linear = re.compile(r"linear, [^,]+, \d+$")
    brief = replace(
        experiment,
        cases=lambda draws: [c for c in experiment.cases(draws) if linear.match(c.name)],
        claims=tuple(c for c in experiment.claims if c.what.startswith("linear:")),
        size={"draws": 1},
    )
    carry_out(brief, Order(tmp_path, seed=5, pictures=False))
    rows = json.loads((tmp_path / "stela-4" / "table.json").read_text())["rows"]
    found = {row["what"]: row["simulator"]["value"] for row in rows}
    assert found["linear: gain of Stela over the default scheduler"] > 0.1
    assert found["linear: Stela beside best static"] < 1.03
    assert taken(LINEAR, 5, 0) != taken(LINEAR, 6, 0)


def test_the_best_static_plan_gives_the_slots_to_the_slowest() -> None:
    times = {"first": 0.02, "second": 0.06, "sink": 0.02}
    plan = best(LINEAR, times, LINEAR.scenario(times, 10.0))
    assert [p.parallelism for p in plan.pipelines] == [6, 6, 10, 6]
    assert plan.executors == 7


def test_buffers_are_filled_more_slowly_the_more_channels_there_are() -> None:
    scenario = prime_tester(100)
    seen = {"source": PipelineMetrics("source", 32, rate_in=10_000.0)}
    sources = frozenset({"source"})
    snapshot = Snapshot(5.0, 5.0, 0, 0, 0, 0, pipelines=seen, source_pipelines=sources)
    context = Context(scenario.graph, scenario.plan, (snapshot,), 5.0)
    decision, _ = Buffers(3).decide(context, None)
    assert decision.plan is not None
    # 3 rows on each of 3,200 channels, at 10,000 rows a second
    cadences = {p.name: p.cadence for p in decision.plan.pipelines}
    assert cadences == pytest.approx({"source": 0.0, "test": 0.96, "sink": 0.96})


def test_buffers_are_there_from_the_start() -> None:
    scenario = Buffers(3).on(prime_tester(100), 10_000)
    assert [p.cadence for p in scenario.plan.pipelines] == pytest.approx([0.0, 0.96, 0.96])


def test_rows_wait_as_long_as_it_takes_to_fill_two_halves_of_a_buffer(tmp_path: Path) -> None:
    """Half a buffer's time before the testers, half behind, and the work that comes at once."""
    scenario = prime_tester(100, rates=(10_000,), step=12.0, service=0.0001)
    records = Play(Buffers(3).on(scenario, 10_000), Buffers(3))(Setting(1, tmp_path))
    last = [r for r in records if r["kind"] == "tick"][-1]
    assert last["latency"]["test->sink"]["mean"] == pytest.approx(0.96, rel=0.05)
    assert last["ingested"] == last["offered"], "buffers hold nobody back"


@pytest.mark.parametrize(("bound", "testers"), [("20ms", 39), ("30ms", 35), ("100ms", 30)])
def test_a_longer_bound_takes_fewer_testers(bound: str, testers: int, tmp_path: Path) -> None:
    """As many as Rebalance has by Kingman's formula: 27 are busy, the others keep waits short."""
    scenario = prime_tester(latency=bound, rates=(10_000,), step=15.0)
    records = Play(scenario, PRINTED)(Setting(1, tmp_path))
    ticks = [r for r in records if r["kind"] == "tick"]
    assert ticks[-1]["pipelines"]["test"]["instances"] == pytest.approx(testers, abs=1)
    settled = [r["latency"]["test->sink"] for r in ticks if r["at"] > 10]
    assert all(one["mean"] <= one["bound"] for one in settled)


def test_the_peak_of_the_tweets_is_a_case_of_its_own() -> None:
    load = parse(nephele_8.around_the_peak().load)
    assert max(load.rate(at) for at in range(160)) == load.rate(nephele_8.JUMP) == 6734
    assert load.rate(nephele_8.JUMP - 5) < 6000


def test_what_comes_on_top_of_the_usual_tweets_passes_and_a_fifth_of_the_others() -> None:
    passed = parse(nephele_8.rise_of_one_topic().load)
    whole = parse(nephele_8.around_the_peak().load)
    before, peak = nephele_8.JUMP - 5, nephele_8.JUMP
    assert passed.rate(before) == pytest.approx(whole.rate(before) / 5, abs=1)
    usual = (whole.rate(peak) - passed.rate(peak)) / 0.8
    assert 5000 < usual < 5200
    assert passed.rate(peak) < parse(nephele_8.one_topic().load).rate(peak + 1) == 6734


def test_the_best_static_plan_meets_the_bound_in_the_whole_run_too(tmp_path: Path) -> None:
    whole = replace(prime_tester(40, rates=(10_000, 14_000)), seconds=20.0, load="14000/s")
    calm = replace(whole, load="11000/s")
    job = FewestInstances(calm, whole, {"test": range(20, 60)}, {"test": 40}, every=5.0)
    found, *records = job(Setting(1, tmp_path))
    data = Data(tuple({"case": "", **record} for record in records))
    assert found["test"] < 50
    assert (reading.met(data, "") or 0.0) >= 0.91


@pytest.mark.parametrize("quick", [True, False])
def test_the_peak_of_the_tweets_is_in_both_sizes(quick: bool) -> None:
    size = nephele_8.FIGURE_8.parameters("simulator", quick)
    scenario = twitter_sentiment(**size)
    load, whole = parse(scenario.load), parse(twitter_sentiment().load)
    begin = TWEETS_PEAK[0] - 5 * round(size["since"] * 6000 / 14 / 5)
    assert begin + 120 < scenario.seconds, "it fades, and tasks are given back"
    for past in range(-60, 120, 7):
        assert load.rate(begin + past) == whole.rate(TWEETS_PEAK[0] + past)
    assert load.rate(begin) == TWEETS_PEAK[1]
