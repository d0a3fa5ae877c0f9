"""From batches, tasks and reports to metrics, on numbers worked out by hand; no Spark is run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock import Dataflow, Memory
from penstock.dataflow.graph import Graph
from penstock.engines.spark.batch import Batch, arrival_cv, parts, span_of, waits
from penstock.engines.spark.breakdown import Estimate, Window, executor_metrics
from penstock.engines.spark.lineage import Span
from penstock.engines.spark.meter import Report
from penstock.engines.spark.statistics import ExecutorFacts, Running, Task
from penstock.metrics.snapshot import OperatorMetrics
from tests.engines.spark.flows import source


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


def window(**more: Any) -> Window:
    values: dict[str, Any] = {
        "operators": ("numbers", "keep", "native", "count", "out"),
        "parallelism": 2,
        "since": 10.0,
        "now": 15.0,
        "batches": [batch(1, 12.0), batch(2, 13.0)],
        **more,
    }
    return Window("numbers", **values)


def operators(found: Window) -> dict[str, OperatorMetrics]:
    return found.operators_in(GRAPH)


def test_service_is_work_for_a_row_of_the_batches_whose_tasks_are_known() -> None:
    found = window(tasks=[task(1, 1), task(2, 1)])  # nothing is known of batch 2 yet
    assert found.service == pytest.approx(0.5 / 100)
    assert window().service is None


def test_operators_are_measured_or_estimated_and_the_rest_is_shared_out() -> None:
    reports = [
        Report("keep", 1, 0, 1, 60, 30, 0.12, 2, 0.004, 0.00001),
        Report("keep", 1, 1, 2, 140, 70, 0.28, 2, 0.004, 0.00001),
    ]
    tasks = [
        task(1, 1, work=0.4),
        task(2, 2, work=0.6),
        task(3, 1, stage=2, rows=20, work=0.1),
        task(4, 2, stage=2, rows=30, work=0.2, index=1),
    ]
    found = operators(
        window(tasks=tasks, reports=reports, estimates={"native": Estimate(0.001, 0.5)})
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
    tried = {"large": Estimate(0.001, 0.25), "short": Estimate(0.002, 2.0)}
    tasks = [task(1, 1, rows=20, work=0.8), task(2, 2, rows=20, work=0.9)]
    found = window(operators=names, estimates=tried, tasks=tasks).operators_in(flow.graph)
    assert [found[n].rows_in for n in names] == [200, 200, 200, 50, 100]
    assert [found[n].rows_out for n in names] == [200, 200, 50, 100, None]
    # 1.7 s behind the shuffle, of which 200 rows took 0.2 s and 50 rows 0.1 s
    assert found["count"].service == pytest.approx(1.4 / 200)
    assert found["short"].service == pytest.approx(0.002)
    # one that lets nothing through says nothing of what came
    tried["short"] = Estimate(0.002, 0.0)
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
    found = window(tasks=tasks).pipeline(200.0, 7, None)
    assert [(i.index, i.rows, i.executor) for i in found.instances] == [(0, 20, "1"), (1, 60, "2")]
    assert found.skew == pytest.approx(0.5)
    assert found.hottest == "1 of 2: 75 % of the rows"
    assert found.backlog_seconds == pytest.approx(7 / 100)


def test_an_executor_has_what_ran_on_it() -> None:
    tasks = [task(1, 1), task(2, 1, executor="2", index=1), task(3, 2, ended=9.6)]
    facts = [ExecutorFacts("1", 2, 500), ExecutorFacts("2", 2, 0)]
    running = [Running("2", 4.0), Running("2", 10.1)]
    found = executor_metrics(
        facts, tasks, running, {"r": "numbers"}, 9.5, 10.5, 1000, {"1": {"numbers": 3}}
    )
    assert found["1"].busy == pytest.approx((0.3 + 0.1) / 2)  # one was begun before the window
    assert found["2"].busy == pytest.approx((0.3 + 1.0 + 0.4) / 2)
    assert found["1"].cpu == pytest.approx(0.4 / 2)
    assert found["1"].memory == pytest.approx(0.5)
    assert found["2"].memory is None
    assert found["1"].io_bytes == pytest.approx(2000)
    assert found["1"].instances == {"numbers": 1}
    assert found["1"].state_parts == {"numbers": 3}
    assert found["2"].instances == {"numbers": 1}
