from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.app import run
from penstock.dataflow import load_profile as loads
from penstock.store import history
from penstock_lab.experiments.scenario import prime_tester, twitter_sentiment


def test_175_static_prime_testers_meet_20_ms_but_for_the_peak(tmp_path: Path) -> None:
    scenario = prime_tester(175, step=6.0)  # a tenth of the time
    engine = scenario.engine(seed=1)
    summary = run(
        scenario.graph,
        engine=engine,
        plan=scenario.plan,
        seconds=scenario.seconds,
        run_dir=tmp_path,
        clock=engine.clock,
        verify=False,
    )
    means = {}
    for seen in history.snapshots(tmp_path):
        if round(seen.at) % 6 == 5:  # the window of 5 s lies in one step of the load
            means[round(seen.at) // 6 + 1] = 1000 * seen.latency["test->sink"].mean
    met = [step for step in range(1, 13) if means[step] <= 20]
    assert met == [1, 2, 3, 4, 5, 8, 9, 10, 11, 12]
    assert means[1] == pytest.approx(2.7 + 1.0 + 0.26, abs=0.1)
    assert summary.rows_delivered == summary.rows_ingested
    assert summary.slot_seconds / 3600 * 10 == pytest.approx(47.8, rel=0.03)


def test_too_few_prime_testers_hold_back_the_sources(tmp_path: Path) -> None:
    scenario = prime_tester(100, step=4.0)
    engine = scenario.engine(seed=1)
    engine.start(scenario.graph, scenario.plan, tmp_path)
    engine.advance(28)  # the end of the plateau
    seen = engine.observe()
    assert seen.pipelines["test"].busy == pytest.approx(1.0, abs=0.03)
    assert seen.throughput == pytest.approx(100 / 0.0027, rel=0.06)
    assert seen.pipelines["source"].backlog_rows > 100_000


def test_hot_topics_wait_for_their_window_and_a_rare_writer_takes_no_room(tmp_path: Path) -> None:
    # Half a window of 200 ms, reading and matching a tweet, merging, and two hops; and the lists,
    # one in a hundred tweets, do not take half of the filters' room.
    scenario = twitter_sentiment(days=0.1)
    engine = scenario.engine(seed=1)
    plan = replace(
        scenario.plan,
        pipelines=tuple(
            replace(p, parallelism=3) if p.name in ("filter", "hot-topics") else p
            for p in scenario.plan.pipelines
        ),
    )
    engine.start(scenario.graph, plan, tmp_path)
    engine.advance(20.0)
    seen = engine.observe()
    window = seen.pipelines["hot-topics"].batch_seconds
    assert window == pytest.approx(0.101, abs=0.01)
    assert seen.latency["hot-topics->filter"].mean == pytest.approx(0.1 + 0.007, abs=0.012)
    assert seen.latency["filter->sink"].mean < 0.02
    assert seen.pipelines["tweets"].backlog_rows == 0
    assert seen.pipelines["filter"].batch_seconds is None


def test_tweets_come_by_day_and_night_with_the_seeds_peak() -> None:
    load = loads.parse(twitter_sentiment().load)
    assert load.rate(2400.0) == load.peak == 6734
    assert 3_500 < load.offered(6000.0) / 6000 < 4_000
    midnight, noon = load.rate(6000 / 14), load.rate(6000 / 28)
    assert midnight < 2_500 < 4_500 < noon
