"""Which batches a window has; no Spark is run."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from penstock import Dataflow, Memory, Pipeline
from penstock.engines.spark.measuring.batches import Batch
from penstock.engines.spark.measuring.breakdown import PipelineWindow
from penstock.engines.spark.measuring.observer import Observer
from penstock.engines.spark.measuring.operator_meter import MeterReport
from tests.engines.spark.flows import source
from tests.engines.spark.test_breakdown import task


def look(
    *rows: int,
    fresh: float | None = None,
    now: float = 10.0,
    begun: float | None = None,
    native: bool = False,
) -> PipelineWindow:
    """The window after batches with these rows, one a second; `begun`: the last that began."""
    flow = Dataflow("observed")
    source(flow).sink("out", Memory())
    observer = Observer(cast(Any, SimpleNamespace(graph=flow.graph)), window=5.0)
    batches = [Batch(n, "r", n + 0.9, float(n), 0.9, r, r, {}) for n, r in enumerate(rows)]
    befores = (None, *(b.at for b in batches))
    batches = [replace(b, before=at) for b, at in zip(batches, befores, strict=False)]
    observer._batches["numbers"] = deque(batches)
    if fresh is not None:
        observer.start_anew(["numbers"], fresh)
    pipeline = SimpleNamespace(
        name="numbers",
        spec=Pipeline(("numbers", "out"), 1),
        wired=SimpleNamespace(epoch=0, partitions=1),
        metered_whole=False,
        stateful=None,
        native_sink=object() if native else None,
        up=0.0,
        begun=begun,
    )
    return observer.look(cast(Any, pipeline), now, {})


def seen(*rows: int, fresh: float | None = None, now: float = 10.0) -> list[int]:
    """The rows of the batches in the window."""
    return [b.rows_in for b in look(*rows, fresh=fresh, now=now).batches]


def test_the_first_batch_under_a_plan_does_not_count() -> None:
    assert seen(1, 2, 3, now=3.0) == [2, 3]
    assert seen(1, 2, 3, fresh=1.0, now=3.0) == [3]


def test_nor_does_it_where_there_was_nothing_to_do_before_it() -> None:
    assert seen(0, 0, 3, 4, now=4.0) == [4]
    assert seen(0, 0, now=2.0) == [0]


def test_a_batch_longer_than_the_window_is_what_is_known() -> None:
    assert seen(1, 2, 3, now=30.0) == [3]


def test_a_pipeline_that_had_nothing_to_do_is_idle() -> None:
    found = look(1, 2, 3, now=30.0)
    assert found.idle
    whole = found.pipeline(0.0, 0, None)
    assert (whole.busy, whole.batches, whole.rows_in, whole.rate_in) == (0.0, 0, 0, 0.0)
    assert whole.in_batches is False  # these batches say nothing of their parts
    never = look(now=30.0).pipeline(0.0, 0, None)
    assert (never.busy, never.rows_in, never.rate_in, never.service) == (0.0, 0, 0.0, None)


def test_one_that_has_just_been_started_or_changed_is_not_measured() -> None:
    for found in (look(now=3.0), look(1, now=3.0), look(1, 2, 3, fresh=27.0, now=30.0)):
        whole = found.pipeline(0.0, 0, None)
        assert (whole.busy, whole.rows_in, whole.rate_in) == (None, None, None)


def test_a_batch_under_way_is_work() -> None:
    found = look(1, 2, 3, now=30.0, begun=3.0)
    assert (found.under_way, found.quiet, found.idle) == (3.0, None, False)
    whole = found.pipeline(0.0, 0, None)
    assert (whole.busy, whole.batches, whole.rows_in) == (1.0, 0, 0)
    assert look(1, 2, 3, now=4.0, begun=2.1).under_way is None  # it is the one that has ended


def test_nobody_knows_of_batches_for_a_sink_of_sparks_own() -> None:
    found = look(1, 2, 3, now=30.0, native=True)
    assert (found.under_way, found.quiet, found.idle) == (None, None, False)
    assert look(now=30.0, native=True).pipeline(0.0, 0, None).rate_in is None


def test_of_tasks_and_reports_those_of_the_window_are_found() -> None:
    flow = Dataflow("observed")
    source(flow).sink("out", Memory())
    observer = Observer(cast(Any, SimpleNamespace(graph=flow.graph)), window=5.0)
    for second in range(1, 31):
        ended = [task(second, second, run=run, ended=float(second)) for run in ("a", "b")]
        observer.hear(
            ended, [MeterReport("x", 1, 0, second), MeterReport("y", 1, 0, second)], float(second)
        )
    assert sorted({t.number for t in observer.tasks(30.5)}) == [26, 27, 28, 29, 30]
    assert len(observer.tasks(30.5)) == 10
    assert sorted({r.batch for r in observer.reports(30.5)}) == [26, 27, 28, 29, 30]
    assert observer.tasks(99.0) == []
    for number in range(120):
        observer.hear([task(1, 1, run=f"run {number}", ended=40.0 + number)], [], 160.0)
    assert len(observer._tasks) == 100
