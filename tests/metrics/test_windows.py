from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics import windows
from penstock.metrics.derived import queue, true_rate
from penstock.metrics.snapshot import (
    ChannelMetrics,
    ExecutorMetrics,
    InstanceMetrics,
    KeyRange,
    LatencyMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)
from penstock.metrics.windows import blend, disjoint, mean, settled, summary, total, variation


def shot(at: float, window: float = 1.0, **more: object) -> Snapshot:
    return Snapshot(at, window, None, int(at), 0, 0, **more)  # type: ignore[arg-type]


# --- averages -----------------------------------------------------------------------------------


def test_a_mean_is_over_what_was_measured() -> None:
    assert mean([(1.0, 1), (4.0, 2), (None, 9), (7.0, None), (7.0, 0)]) == 3.0
    assert mean([(None, 1), (2.0, 0)]) is None
    assert mean([]) is None


def test_a_sum_needs_all_its_parts() -> None:
    assert total([1, 2]) == 3
    assert total([0]) == 0
    assert total([1, None]) is None
    assert total([]) is None


def averaged(values: list[float | None], weight: float) -> float | None:
    found: float | None = None
    for value in values:
        found = blend(found, value, weight)
    return found


def test_an_exponential_average_by_hand() -> None:
    assert averaged([8.0, 4.0, 0.0], 0.5) == 3.0  # 8, then 6, then 3
    assert averaged([8.0, None, 4.0, None], 0.5) == 6.0
    assert averaged([8.0, 5.0], 1.0) == 5.0
    assert averaged([None, None], 0.5) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_an_exponential_average_stays_within_its_values(values: list[float], w: float) -> None:
    found = averaged([*values], w)
    assert found is not None
    assert min(values) - 1e-6 <= found <= max(values) + 1e-6


@given(st.lists(st.lists(st.floats(0.1, 100), min_size=1, max_size=6), min_size=1, max_size=5))
def test_variation_of_the_parts_is_that_of_the_whole(parts: list[list[float]]) -> None:
    whole = [value for part in parts for value in part]
    known = [
        (statistics.fmean(p), statistics.pstdev(p) / statistics.fmean(p), len(p)) for p in parts
    ]
    expected = statistics.pstdev(whole) / statistics.fmean(whole)
    assert variation(known) == pytest.approx(expected, abs=1e-6)


def test_variation_leaves_out_what_was_not_measured() -> None:
    assert variation([(1.0, 0.5, 10), (None, 0.5, 10), (2.0, None, 10)]) == pytest.approx(0.5)
    assert variation([(1.0, None, 10)]) is None
    assert variation([(0.0, 0.5, 10)]) is None


# --- which snapshots count ----------------------------------------------------------------------


def test_what_was_before_a_change_does_not_count() -> None:
    one, two, three = shot(1.0), shot(2.0, settled=False), shot(3.0)
    assert settled([one, two, three]) == (three,)
    assert settled([one, three]) == (one, three)
    assert settled([one, two]) == ()
    assert summary([one, two]) is None
    assert summary([]) is None


def test_windows_that_overlap_count_once() -> None:
    every_second = [shot(float(at), 5.0) for at in range(1, 18)]
    assert [s.at for s in disjoint(every_second)] == [2.0, 7.0, 12.0, 17.0]
    assert [s.at for s in disjoint([shot(1.0), shot(2.0), shot(3.0)])] == [1.0, 2.0, 3.0]


def test_an_interval_holds_whole_windows_only() -> None:
    every_second = [shot(float(at), 5.0) for at in range(1, 18)]
    found = summary(every_second, interval=12.0)
    assert found is not None
    assert (found.at, found.window, found.rows_ingested) == (17.0, 10.0, 17)
    short = summary(every_second, interval=1.0)
    assert short == every_second[-1]


# --- several as one -----------------------------------------------------------------------------


def test_a_pipeline_over_two_windows_by_hand() -> None:
    first = PipelineMetrics(
        "a", 2, batches=1, rows_in=100, rows_out=200, rate_in=100.0, rate_out=200.0,
        arrival_rate=100.0, service=0.01, service_cv=0.0, batch_seconds=1.0, wait=0.5,
        batching=0.1, parts={"work": 1.0, "log": 0.2}, busy=0.2, backlog_rows=7, state_rows=5,
        instances=(InstanceMetrics(0, 60, 0.2), InstanceMetrics(1, 40, 0.4)),
    )  # fmt: skip
    last = PipelineMetrics(
        "a", 2, batches=3, rows_in=900, rows_out=1800, rate_in=300.0, rate_out=600.0,
        arrival_rate=None, service=0.02, service_cv=0.0, batch_seconds=2.0, wait=1.5,
        batching=None, parts={"work": 2.0}, busy=0.6, backlog_rows=9, state_rows=6,
        instances=(InstanceMetrics(0, 500, 0.6), InstanceMetrics(1, 400, 0.8, "x")),
    )  # fmt: skip
    found = summary([shot(1.0, pipelines={"a": first}), shot(4.0, 3.0, pipelines={"a": last})])
    assert found is not None
    a = found.pipelines["a"]
    assert (a.batches, a.rows_in, a.rows_out) == (4, 1000, 2000)
    assert (a.rate_in, a.rate_out, a.arrival_rate) == (250.0, 500.0, 100.0)
    assert a.rate_in == a.rows_in / found.window
    assert a.service == pytest.approx(0.019)
    spread = math.sqrt(0.1 * (0.01 - 0.019) ** 2 + 0.9 * (0.02 - 0.019) ** 2)
    assert a.service_cv == pytest.approx(spread / 0.019)
    assert (a.wait, a.batching) == (pytest.approx(1.4), pytest.approx(0.1))
    assert (a.batch_seconds, a.parts) == (1.75, {"work": 1.75, "log": 0.2})
    assert (a.busy, a.backlog_rows, a.state_rows) == (pytest.approx(0.5), 9, 6)
    assert [(i.rows, i.executor) for i in a.instances] == [(560, None), (440, "x")]
    assert [i.busy for i in a.instances] == [pytest.approx(0.5), pytest.approx(0.7)]
    assert (found.at, found.window) == (4.0, 4.0)
    assert queue(a) is not None  # it is a snapshot like any other
    assert true_rate(a) == pytest.approx(2 / 0.019)


def test_variation_between_arrivals_is_that_of_the_times_between_rows() -> None:
    slow = PipelineMetrics("a", 1, rows_in=10, arrival_rate=10.0, arrival_cv=0.0)
    fast = PipelineMetrics("a", 1, rows_in=90, arrival_rate=90.0, arrival_cv=0.0)
    found = summary([shot(1.0, pipelines={"a": slow}), shot(2.0, pipelines={"a": fast})])
    assert found is not None
    gaps = [1 / 10] * 10 + [1 / 90] * 90
    expected = statistics.pstdev(gaps) / statistics.fmean(gaps)
    assert found.pipelines["a"].arrival_cv == pytest.approx(expected)


def test_snapshots_a_second_apart_count_what_came_once() -> None:
    every_second = [
        shot(at, 5.0, pipelines={"a": PipelineMetrics("a", 1, 5, 500, rate_in=100.0, wait=0.1)})
        for at in range(5, 15)
    ]
    found = summary(every_second)
    assert found is not None
    a = found.pipelines["a"]
    assert (found.window, a.rows_in, a.batches, a.rate_in) == (10.0, 1000, 10, 100.0)


def test_other_numbers_of_instances_do_not_count() -> None:
    one, two = PipelineMetrics("a", 1, rows_in=9), PipelineMetrics("a", 2, rows_in=4)
    found = summary([shot(1.0, pipelines={"a": one}), shot(2.0, pipelines={"a": two})])
    assert found is not None
    assert found.pipelines["a"] == two


def test_windows_in_which_no_batch_ended_have_times_nevertheless() -> None:
    one = PipelineMetrics("a", 1, 0, 0, rate_in=10.0, service=0.1, wait=2.0, parts={"work": 7.0})
    two = replace(one, rate_in=20.0, service=0.3, wait=4.0, parts={"work": 9.0})
    found = summary([shot(5.0, 5.0, pipelines={"a": one}), shot(10.0, 5.0, pipelines={"a": two})])
    assert found is not None
    a = found.pipelines["a"]
    assert (a.rows_in, a.batches, a.rate_in) == (0, 0, 15.0)
    assert (a.service, a.wait, a.parts) == (pytest.approx(0.2), 3.0, {"work": 8.0})
    assert a.in_batches


def test_the_hottest_keys_are_those_of_all_windows() -> None:
    def at(second: float, *rows: int) -> Snapshot:
        dealt = tuple(InstanceMetrics(i, n, part=i) for i, n in enumerate(rows))
        return shot(second, pipelines={"a": PipelineMetrics("a", 2, rows_in=1, instances=dealt)})

    found = summary([at(1.0, 10, 70), at(2.0, 15, 5)])
    assert found is not None
    assert found.pipelines["a"].hottest == KeyRange(1, 2, 0.75)
    assert at(1.0, 5).pipelines["a"].hottest is None  # one part is no range
    assert at(1.0, 0, 0).pipelines["a"].hottest is None


def test_what_was_never_measured_is_not_in_the_summary_either() -> None:
    bare = {"a": PipelineMetrics("a", 1)}
    found = summary([shot(1.0, pipelines=bare), shot(2.0, pipelines=bare)])
    assert found is not None
    assert found.pipelines["a"] == PipelineMetrics("a", 1)
    assert found.load is None


def test_operators_are_measured_if_all_of_it_was() -> None:
    first = OperatorMetrics("o", 10, 5, 10.0, 5.0, 0.1, busy=1.0)
    last = OperatorMetrics("o", 30, None, 30.0, None, 0.2, busy=0.0, measured=False)
    found = summary([shot(1.0, operators={"o": first}), shot(2.0, operators={"o": last})])
    assert found is not None
    assert found.operators["o"] == OperatorMetrics(
        "o", 40, None, 20.0, 5.0, pytest.approx(0.175), busy=0.5, measured=False
    )


def test_channels_weigh_what_their_reader_took() -> None:
    def at(second: float, rows: int, latency: float | None) -> Snapshot:
        channel = ChannelMetrics("a", "b", rows, None, latency, None)
        operators = {"b": OperatorMetrics("b", rows)}  # of whatever pipeline
        return shot(second, channels={"a>b": channel}, operators=operators)

    found = summary([at(1.0, 10, 1.0), at(2.0, 30, 2.0), at(3.0, 50, None)])
    assert found is not None
    assert found.channels["a>b"] == ChannelMetrics("a", "b", 50, None, 1.75, None)
    bare = [replace(s, operators={}) for s in (at(1.0, 10, 1.0), at(2.0, 30, 2.0))]
    by_time = summary(bare)
    assert by_time is not None
    assert by_time.channels["a>b"].latency == 1.5


def test_executors_and_load_are_means_over_time() -> None:
    first = shot(1.0, load=0.2, executors={"1": ExecutorMetrics("1", 2, 0.2, None, 0.5)})
    last = shot(4.0, 3.0, load=0.6, executors={"1": ExecutorMetrics("1", 2, 0.6, 0.4, 0.7)})
    found = summary([first, last])
    assert found is not None
    assert found.load == pytest.approx(0.5)
    one = found.executors["1"]
    assert (one.busy, one.cpu, one.memory) == pytest.approx((0.5, 0.4, 0.65))


def test_latency_is_weighted_by_its_rows() -> None:
    first = LatencyMetrics("c", 3.0, 1.0, 1.0, 2.0, 3.0, 10)
    last = LatencyMetrics("c", 3.0, 2.0, 2.0, 3.0, 4.0, 30)
    none = LatencyMetrics("c", 3.0, 0.0, 0.0, 0.0, 0.0, 0)
    parts = [shot(at, latency={"c": one}) for at, one in enumerate((first, last, none), 1)]
    found = summary(parts)
    assert found is not None
    assert found.latency["c"] == LatencyMetrics("c", 3.0, 1.75, 1.75, 2.75, 3.75, 40)
    empty = summary([parts[2], replace(parts[2], at=4.0)])
    assert empty is not None
    assert empty.latency["c"] == none


def test_what_is_gone_is_left_out_and_what_is_new_counts_from_when_it_was_there() -> None:
    first = shot(1.0, operators={"gone": OperatorMetrics("gone", 1)})
    last = shot(2.0, operators={"new": OperatorMetrics("new", 2, rate_in=2.0)})
    found = summary([first, last])
    assert found is not None
    assert found.operators == last.operators


# --- averages of pipelines ----------------------------------------------------------------------


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


def test_other_numbers_of_instances_do_not_count_in_averages() -> None:
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
