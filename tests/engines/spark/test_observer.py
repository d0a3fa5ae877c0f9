"""Which batches a window has; no Spark is run."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

from penstock import Dataflow, Memory, Pipeline
from penstock.engines.spark.batch import Batch
from penstock.engines.spark.observer import Observer
from tests.engines.spark.flows import source


def seen(*rows: int, fresh: float | None = None, now: float = 10.0) -> list[int]:
    """The rows of the batches in the window, after batches with these rows, one a second."""
    flow = Dataflow("observed")
    source(flow).sink("out", Memory())
    observer = Observer(cast(Any, SimpleNamespace(graph=flow.graph)), window=5.0)
    batches = [Batch(n, "r", n + 0.9, float(n), 0.9, r, r, {}) for n, r in enumerate(rows)]
    observer._batches["numbers"] = deque(batches)
    if fresh is not None:
        observer.start_anew(["numbers"], fresh)
    pipeline = SimpleNamespace(
        name="numbers",
        spec=Pipeline(("numbers", "out"), 1),
        wired=SimpleNamespace(epoch=0),
        metered_whole=False,
    )
    return [b.rows_in for b in observer.look(cast(Any, pipeline), now, {}).batches]


def test_the_first_batch_under_a_plan_does_not_count() -> None:
    assert seen(1, 2, 3, now=3.0) == [2, 3]
    assert seen(1, 2, 3, fresh=1.0, now=3.0) == [3]


def test_nor_does_it_where_there_was_nothing_to_do_before_it() -> None:
    assert seen(0, 0, 3, 4, now=4.0) == [4]
    assert seen(0, 0, now=2.0) == [0]


def test_a_batch_longer_than_the_window_is_what_is_known() -> None:
    assert seen(1, 2, 3, now=30.0) == [3]
