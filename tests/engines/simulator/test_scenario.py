from __future__ import annotations

from pathlib import Path

import pytest

from penstock.control import history
from penstock.control.run import run
from penstock.engines.simulator.scenario import prime_tester


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
