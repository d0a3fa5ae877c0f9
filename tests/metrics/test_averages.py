"""Several snapshots as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.metrics import windows
from penstock.metrics.snapshot import PipelineMetrics, Snapshot


def snapshot(at: float, *pipelines: PipelineMetrics) -> Snapshot:
    return Snapshot(at, 1.0, 0, 0, 0, 0, pipelines={p.name: p for p in pipelines})


def test_means_and_sums() -> None:
    one = PipelineMetrics("x", 2, batches=3, rows_in=30, rate_in=10.0, wait=1.0, backlog_rows=5)
    two = replace(one, batches=1, rows_in=10, rate_in=20.0, wait=None, service=0.5, backlog_rows=7)
    found = windows.pipeline_averages([snapshot(1.0, one), snapshot(2.0, two)])["x"]
    assert (found.batches, found.rows_in, found.backlog_rows) == (4, 40, 7)
    assert (found.rate_in, found.wait, found.service) == (15.0, 1.0, 0.5)
    assert found.busy is None


def test_the_wait_is_that_of_a_row() -> None:
    few = PipelineMetrics("x", 1, rows_in=10, wait=5.0)
    many = PipelineMetrics("x", 1, rows_in=90, wait=1.0)
    found = windows.pipeline_averages([snapshot(1.0, few), snapshot(2.0, many)])["x"]
    assert found.wait == pytest.approx(1.4)


def test_what_came_once_counts_once() -> None:
    one = PipelineMetrics("x", 1, batches=5, rows_in=500, rate_in=100.0)
    seen = [replace(snapshot(float(at), one), window=5.0) for at in range(5, 15)]
    found = windows.pipeline_averages(seen)["x"]
    assert (found.rows_in, found.batches, found.rate_in) == (1000, 10, 100.0)


def test_other_numbers_of_instances_do_not_count() -> None:
    one = PipelineMetrics("x", 1, wait=9.0)
    found = windows.pipeline_averages(
        [snapshot(1.0, one), snapshot(2.0, replace(one, parallelism=2))]
    )
    assert found["x"].parallelism == 2
    gone = windows.pipeline_averages([snapshot(1.0, one), snapshot(2.0, replace(one, name="y"))])
    assert set(gone) == {"y"}
    assert windows.pipeline_averages([]) == {}


@pytest.mark.parametrize(("left", "wait"), [(40, 1.0), (60, 5.0), (None, 5.0)])
def test_a_wait_for_what_is_gone_does_not_count(left: int | None, wait: float) -> None:
    first = PipelineMetrics("x", 1, wait=9.0, backlog_rows=100)
    last = PipelineMetrics("x", 1, wait=1.0, backlog_rows=left)
    assert windows.pipeline_averages([snapshot(1.0, first), snapshot(2.0, last)])["x"].wait == wait


def test_only_settled_ones_with_a_window_after_a_time() -> None:
    made = [snapshot(at) for at in (1.0, 2.0, 3.0, 4.0)]
    made[2] = replace(made[2], settled=False)
    made[3] = replace(made[3], window=0.0)
    assert windows.settled_after(made, 1.0) == (made[1],)


def test_a_snapshot_that_looks_back_too_far_says_nothing_of_the_time_since() -> None:
    snapshots = [Snapshot(at, window, 0, 0, 0, 0) for at, window in ((6, 5), (9, 4), (10, 5))]
    assert [s.at for s in windows.since(snapshots, 5.0)] == [9, 10]
    assert [s.at for s in windows.since(snapshots, 8.0)] == [10]  # the last says most
    assert windows.since([], 0.0) == ()


def test_a_backlog_that_went_while_it_was_measured() -> None:
    def seen(at: float, backlog: int | None, batches: int = 0) -> Snapshot:
        one = PipelineMetrics("x", 1, batches=batches, backlog_rows=backlog)
        return Snapshot(at, 5.0, 0, 0, 0, 0, pipelines={"x": one})

    assert windows.drained([seen(5.0, 900), seen(10.0, 100)], "x")
    assert not windows.drained([seen(5.0, 300), seen(10.0, 100)], "x")
    assert not windows.drained([seen(4.0, 900), seen(10.0, 100)], "x")  # before the window
    assert not windows.drained([seen(5.0, 900), seen(10.0, None)], "x")
    assert not windows.drained([seen(9.0, 90), seen(10.0, 0)], "x")  # a handful is no backlog
    assert not windows.drained([seen(5.0, 900), seen(10.0, 100, batches=3)], "x")
