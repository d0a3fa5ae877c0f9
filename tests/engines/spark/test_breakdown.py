"""From batches, tasks and reports to metrics, on numbers worked out by hand; no Spark is run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock import Dataflow, Memory
from penstock.dataflow.graph import Graph
from penstock.engines.spark.measuring.batches import Batch, Span, arrival_cv, parts, span_of, waits
from penstock.engines.spark.measuring.breakdown import CostEstimate, PipelineWindow
from penstock.engines.spark.measuring.executor_usage import ExecutorWork, in_python
from penstock.engines.spark.measuring.operator_meter import MeterReport
from penstock.engines.spark.measuring.task_statistics import ExecutorFacts, Running, Task
from penstock.metrics.snapshot import ExecutorMetrics, KeyRange, OperatorMetrics
from tests.engines.spark.flows import SCHEMA, source


def batch(number: int, at: float, seconds: float = 0.5, rows: int = 100, **more: Any) -> Batch:
    ranges = {"numbers": (rows * number, rows * (number + 1))}
    values: dict[str, Any] = {"rows_out": 50, "before": at - 1.0, "ranges": ranges, **more}
    return Batch(number, "r", at, at - seconds, seconds, rows, **values)


def task(number: int, batch: int, **more: Any) -> Task:
    values: dict[str, Any] = {
        "run": "r",
        "stage": 1,
        "index": 0,
        "executor": "1",
        "ended": 10.0,
        "slot": 0.3,
        "work": 0.25,
        "cpu": 0.2,
        "rows": None,
        "moved_bytes": 1000,
        **more,
    }
    return Task(number, batch=batch, **values)


def test_a_row_waits_for_the_batch_before_and_then_for_others() -> None:
    # one row comes at 1 while the batch before runs up to 3, the next begins at 4
    early = Batch(1, "r", 5.0, 4.0, 1.0, 1, 1, {}, arrivals={"a": [Span(1.0, 1.0, 1)]}, before=3.0)
    found = waits([early])
    assert found is not None
    assert (found.rows, found.wait, found.batching) == (1, 3.0, 1.0)
    # rows that come evenly from 2 to 4: half of them find it idle
    even = Batch(1, "r", 5.0, 4.0, 1.0, 8, 1, {}, arrivals={"a": [Span(2.0, 4.0, 8)]}, before=3.0)
    found = waits([even])
    assert found is not None
    assert found.wait == pytest.approx(1.0)
    assert found.batching == pytest.approx(0.75, abs=0.03)
    assert waits([even], "b") is None


def test_evenly_spaced_rows_do_not_vary_and_bulks_do() -> None:
    even = [
        Batch(i, "r", i + 1.0, i, 1.0, 10, 1, {}, arrivals={"a": [Span(i, i + 1.0, 10)]})
        for i in range(5)
    ]
    assert arrival_cv(even) == pytest.approx(0.0, abs=1e-6)
    # ten rows at once each second: gaps of 1 and nine of 0, so E[x] = 0.1 and E[x^2] = 0.1
    bulk = [
        Batch(i, "r", i + 1.0, i, 1.0, 10, 1, {}, arrivals={"a": [Span(i, i, 10)]})
        for i in range(5)
    ]
    assert arrival_cv(bulk) == pytest.approx(math.sqrt(0.1 / 0.01 - 1))
    assert arrival_cv(bulk[:1]) is None


def test_rates_are_over_whole_cycles() -> None:
    batches = [batch(1, 11.0), batch(2, 12.0), batch(3, 13.0)]
    assert span_of(batches, 13.9) == pytest.approx(3.0)
    assert span_of(batches, 18.0) == pytest.approx(8.0)  # by now another one should have come
    assert span_of([], 13.0) is None


def test_the_parts_of_a_batch_add_up() -> None:
    found = parts({"latestOffset": 10, "queryPlanning": 30, "walCommit": 5, "addBatch": 100}, 0.2)
    assert found["planning"] == pytest.approx(0.04)
    assert found["log"] == pytest.approx(0.005)
    assert found["work"] == pytest.approx(0.1)
    assert sum(found.values()) == pytest.approx(0.2)


def graph() -> Graph:
    flow = Dataflow("mixed")
    rows = source(flow).filter("keep", lambda r: True).frame("native", lambda df: df)
    rows.key_by("key").aggregate("count", n="count(*)").sink("out", Memory())
    return flow.graph


GRAPH = graph()


def window(**more: Any) -> PipelineWindow:
    values: dict[str, Any] = {
        "operators": ("numbers", "keep", "native", "count", "out"),
        "parallelism": 2,
        "since": 10.0,
        "now": 15.0,
        "batches": [batch(1, 12.0), batch(2, 13.0)],
        **more,
    }
    return PipelineWindow("numbers", **values)


def operators(found: PipelineWindow) -> dict[str, OperatorMetrics]:
    return found.operators_in(GRAPH)


def test_service_is_work_for_a_row_of_the_batches_whose_tasks_are_known() -> None:
    found = window(tasks=[task(1, 1), task(2, 1)])  # nothing is known of batch 2 yet
    assert found.service == pytest.approx(0.5 / 100)
    assert window().service is None


def test_operators_are_measured_or_estimated_and_the_rest_is_shared_out() -> None:
    reports = [
        MeterReport("keep", 1, 0, 1, 60, 30, 0.12, 2, 0.004, 0.00001),
        MeterReport("keep", 1, 1, 2, 140, 70, 0.28, 2, 0.004, 0.00001),
    ]
    tasks = [
        task(1, 1, work=0.4),
        task(2, 2, work=0.6),
        task(3, 1, stage=2, rows=20, work=0.1),
        task(4, 2, stage=2, rows=30, work=0.2, index=1),
    ]
    found = operators(
        window(tasks=tasks, reports=reports, estimates={"native": CostEstimate(0.001, 0.5)})
    )
    keep = found["keep"]
    assert (keep.rows_in, keep.rows_out, keep.measured) == (200, 100, True)
    assert keep.service == pytest.approx(0.4 / 200)
    assert keep.rate_in == pytest.approx(100.0)
    assert keep.busy == pytest.approx(0.4 / 2 / 2)
    assert keep.service_cv == pytest.approx(math.sqrt(0.00002 / 4 - 0.002**2) / 0.002)
    native = found["native"]
    assert (native.rows_in, native.rows_out, native.measured) == (100, 50, False)
    assert native.service == pytest.approx(0.001)
    # before the shuffle 1.0 s of tasks: 0.4 in keep, 0.1 in native, the rest in the source
    assert found["numbers"].service == pytest.approx(0.5 / 200)
    # behind it 0.3 s, for the 50 rows that came out of native
    assert found["count"].service == pytest.approx(0.3 / 50)
    assert found["out"].rows_in == 100


def test_behind_state_rows_are_counted_from_the_end() -> None:
    flow = Dataflow("behind")
    counts = source(flow).key_by("key").aggregate("count", n="count(*)")
    rows = counts.frame("large", lambda df: df).frame("short", lambda df: df)
    rows.sink("out", Memory())
    names = ("numbers", "count", "large", "short", "out")
    tried = {"large": CostEstimate(0.001, 0.25), "short": CostEstimate(0.002, 2.0)}
    tasks = [task(1, 1, rows=20, work=0.8), task(2, 2, rows=20, work=0.9)]
    found = window(operators=names, estimates=tried, tasks=tasks).operators_in(flow.graph)
    assert [found[n].rows_in for n in names] == [200, 200, 200, 50, 100]
    assert [found[n].rows_out for n in names] == [200, 200, 50, 100, None]
    # 1.7 s behind the shuffle, of which 200 rows took 0.2 s and 50 rows 0.1 s
    assert found["count"].service == pytest.approx(1.4 / 200)
    assert found["short"].service == pytest.approx(0.002)
    # one that lets nothing through says nothing of what came
    tried["short"] = CostEstimate(0.002, 0.0)
    found = window(operators=names, estimates=tried).operators_in(flow.graph)
    assert found["short"].rows_in is None


def test_what_nobody_counted_is_not_zero() -> None:
    found = operators(window())
    assert found["keep"].service is None
    assert found["native"].rows_in is None
    assert found["count"].rows_out == 100
    empty = operators(window(batches=[]))
    assert empty["numbers"].rate_in is None


def test_instances_are_the_tasks_behind_the_shuffle() -> None:
    tasks = [
        task(1, 1, work=0.4),
        task(3, 1, stage=2, rows=20, work=0.1),
        task(4, 1, stage=2, rows=60, work=0.2, index=1, executor="2"),
    ]
    found = window(tasks=tasks, key_parts=2).pipeline(200.0, 7, None)
    assert [(i.index, i.rows, i.executor) for i in found.instances] == [(0, 20, "1"), (1, 60, "2")]
    assert found.skew == pytest.approx(0.5)
    assert found.hottest == KeyRange(1, 2, 0.75)
    assert found.backlog_seconds == pytest.approx(7 / 100)
    # where an instance has several parts of the keys, or none, nobody can say which is hot
    assert window(tasks=tasks).pipeline(200.0, 7, None).hottest is None


def test_an_instance_that_got_nothing_is_one() -> None:
    tasks = [
        task(1, 1, work=0.4),
        task(3, 1, stage=2, rows=None, work=0.1),  # the shuffle had no block for it
        task(4, 1, stage=2, rows=60, work=0.2, index=1),
    ]
    found = window(tasks=tasks, key_parts=2).pipeline(200.0, 7, None)
    assert [(i.rows, i.part) for i in found.instances] == [(0, 0), (60, 1)]
    assert found.skew == pytest.approx(1.0)
    assert found.hottest == KeyRange(1, 2, 1.0)


def test_busy_is_the_part_of_the_window_in_which_a_batch_ran() -> None:
    def busy(*batches: Batch, **more: Any) -> float | None:
        return window(batches=batches, **more).pipeline(None, 0, None).busy

    assert busy(batch(1, 12.0), batch(2, 13.0)) == pytest.approx(1.0 / 5)
    assert busy(batch(1, 11.0, 3.0)) == pytest.approx(1.0 / 5)  # begun before the window
    assert busy(batch(1, 13.0, 9.0)) == pytest.approx(3.0 / 5)
    assert busy(batch(1, 12.0), under_way=13.5) == pytest.approx((0.5 + 1.5) / 5)
    assert busy(batch(1, 9.0)) == 0.0  # it ended before the window
    assert busy(batch(1, 9.0, 8.0), under_way=9.2) == 1.0
    assert busy() is None
    assert busy(quiet=8.0) == 0.0


def test_counts_are_of_the_window_and_rates_of_the_last_whole_batch() -> None:
    long = [batch(1, 9.0, 8.0, rows=800, before=1.0)]
    found = window(batches=long, under_way=9.1).pipeline(None, 50, None)
    assert (found.batches, found.rows_in, found.rows_out) == (0, 0, 0)
    assert (found.rate_in, found.rate_out) == (pytest.approx(100.0), pytest.approx(50 / 8))
    assert found.backlog_seconds == pytest.approx(0.5)
    numbers = operators(window(batches=long, under_way=9.1))["numbers"]
    assert (numbers.rows_in, numbers.rate_in, numbers.selectivity) == (0, 100.0, 1.0)
    # gathering for a cadence is no idleness, having nothing to do is
    gathering = window(batches=long, quiet=9.0, now=15.0)
    assert not gathering.idle
    idle = window(batches=long, quiet=9.0, since=25.0, now=30.0)
    assert idle.idle
    assert idle.pipeline(None, 0, None).rate_in == 0.0
    assert operators(idle)["numbers"].rate_in == 0.0
    assert operators(idle)["keep"].busy == 0.0


def test_arrivals_are_known_as_far_as_rows_are_what_came() -> None:
    flow = Dataflow("arrivals")
    rows = source(flow).map("same", lambda r: r, schema=SCHEMA).filter("keep", lambda r: True)
    rows.map("last", lambda r: r, schema=SCHEMA).sink("out", Memory())
    names = ("numbers", "same", "keep", "last", "out")
    spans = {"numbers": [Span(i, i, 10) for i in range(5)]}
    found = window(operators=names, batches=[batch(1, 12.0, arrivals=spans)])
    assert found.pipeline(None, 0, None).arrival_cv == pytest.approx(3.0)
    known = {n: o.arrival_cv for n, o in found.operators_in(flow.graph).items()}
    assert known == {
        "numbers": pytest.approx(3.0),
        "same": pytest.approx(3.0),
        "keep": pytest.approx(3.0),
        "last": None,
        "out": None,
    }


def test_variation_of_a_small_part_is_not_that_of_the_whole() -> None:
    timed = MeterReport("keep", 1, 0, 1, 100, 50, 0.1, 2, 0.004, 0.00001)
    other = MeterReport("count", 1, 0, 1, 100, 50, 0.3)
    assert window(reports=[timed]).pipeline(None, 0, None).service_cv is not None
    assert window(reports=[timed, other]).pipeline(None, 0, None).service_cv is None


def test_an_executor_has_what_ran_on_it() -> None:
    tasks = [task(1, 1), task(2, 1, executor="2", index=1), task(3, 2, ended=9.6)]
    facts = [ExecutorFacts("1", 2, 500), ExecutorFacts("2", 2, 0)]
    running = [Running("2", 4.0), Running("2", 10.1)]
    work = ExecutorWork(9.5, 10.5, tasks, running, {"r": "numbers"}, {1: 0.1})
    state = {"1": {"numbers": [0, 2, 3]}}
    found = {fact.name: work.of(fact, 1000, state.get(fact.name, {})) for fact in facts}
    assert found["1"].busy == pytest.approx((0.3 + 0.1) / 2)  # one was begun before the window
    assert found["2"].busy == pytest.approx((0.3 + 1.0 + 0.4) / 2)
    # Python used 0.1 s beside the 0.2 s of one; a third of the other is in the window
    assert found["1"].cpu == pytest.approx((0.3 + 0.2 / 3) / 2)
    # those under way are taken to use as much as the one that has ended: two thirds of the time
    assert found["2"].cpu == pytest.approx((0.3 + 1.0 + 0.4) * 2 / 3 / 2)
    assert found["1"].memory == pytest.approx(0.5)
    assert found["2"].memory is None
    assert found["1"].io_bytes == pytest.approx(1000 + 1000 / 3)
    assert found["1"].instances == {"numbers": 1}
    assert found["1"].state_parts == {"numbers": 3}
    assert found["1"].partitions == {"numbers": (0, 2, 3)}
    assert found["2"].instances == {"numbers": 1}


def test_an_instance_is_where_it_ran_last_and_what_feeds_a_shuffle_is_none() -> None:
    roaming = [task(1, 1, ended=9.6), task(2, 2, executor="2", ended=10.2)]
    read = [
        task(n, b, executor="2", index=n, run="k", ended=9.7 + b / 10) for n, b in ((3, 1), (4, 2))
    ]
    state = [task(n, 1, stage=2, index=n - 5, rows=5, run="k", ended=9.9) for n in (5, 6)]
    work = ExecutorWork(
        9.5, 10.5, [*roaming, *read, *state], [], {"r": "numbers", "k": "sums"}, None
    )
    found = {n: work.of(ExecutorFacts(n, 2, 0), None, {}).instances for n in ("1", "2")}
    # a batch of sums is under way and has read on the other executor; its state is here
    assert found == {"1": {"sums": 2}, "2": {"numbers": 1}}


def test_what_tasks_under_way_use_is_not_known_before_one_has_ended() -> None:
    def seen(running: list[Running], python: dict[int, float] | None) -> ExecutorMetrics:
        return ExecutorWork(9.5, 10.5, [], running, {}, python).of(
            ExecutorFacts("1", 2, 500), None, {}
        )

    working = seen([Running("1", 4.0)], {})
    assert (working.busy, working.cpu, working.io_bytes) == (0.5, None, None)
    idle = seen([], {})
    assert (idle.busy, idle.cpu, idle.io_bytes) == (0.0, 0.0, 0.0)
    assert seen([], None).cpu is None  # nobody looked at Python


def test_what_python_used_is_put_with_its_task() -> None:
    tasks = [task(1, 1), task(2, 1, index=1), task(3, 1, stage=2, rows=5), task(4, 2)]
    reports = [
        MeterReport("keep", 7, 0, 1, worker=0.2),
        MeterReport("keep", 7, 1, 1, worker=0.3),
        MeterReport("tail", 7, 0, 1, worker=0.4),
        MeterReport("keep", 6, 0, 2, worker=9.0),  # of another wiring
        MeterReport("gone", 7, 0, 2, worker=9.0),
    ]
    places = {"keep": ("r", 7, False), "tail": ("r", 7, True)}
    assert in_python(tasks, reports, places) == {1: 0.2, 2: 0.3, 3: 0.4}
