"""What trials say of native operators."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Memory, Pipeline
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.measuring.breakdown import CostEstimate
from penstock.engines.spark.measuring.native_profiler import Profiler, more, sample_size
from penstock.engines.spark.measuring.task_statistics import TaskSeconds
from penstock.metrics.snapshot import Snapshot
from tests.engines.spark.flows import source, until


@pytest.mark.parametrize(
    ("known", "whole", "rows"),
    [
        ([], None, 20_000),
        ([0.0001, None], None, 2_500),  # a quarter of a second of what is known
        ([0.0001, None], 0.01, 400),  # four seconds of the whole
        ([0.0001, 1e-6], 0.01, 2_475),  # all is known: the rest are costs of tasks
        ([1e-9], 0.01, 20_000),
        ([1.0], 1.0, 50),
    ],
)
def test_a_sample_takes_no_longer_than_it_may(
    known: list[float | None], whole: float | None, rows: int
) -> None:
    assert sample_size(known, whole) == rows


def test_waiting_counts_where_it_is_the_operators_own() -> None:
    before = TaskSeconds(cpu=0.10, waited=0.05)
    assert more(before, TaskSeconds(0.13, 0.10)) == pytest.approx(0.03)  # others were at work
    assert more(before, TaskSeconds(0.11, 2.05)) == pytest.approx(2.01)
    assert more(before, TaskSeconds(0.09, 0.04)) == 0


def test_a_trial_that_fails_leaves_one_line_in_the_log_and_nothing_else(
    capfd: pytest.CaptureFixture[str],
) -> None:
    flow = Dataflow("native")
    source(flow).frame("double", lambda frame: frame).sink("out", Memory())
    spec = Pipeline(("numbers", "double", "out"))
    pipeline: Any = SimpleNamespace(
        name="numbers", spec=spec, context=SimpleNamespace(graph=flow.graph), inputs=None
    )
    profiler = Profiler(dict, lambda: None, cast(Any, None), {})
    seen = Snapshot(1.0, 1.0, None, 0, 0, 0)
    assert profiler.trial(pipeline, seen) == profiler.trial(pipeline, seen) == {}
    assert capfd.readouterr().err == (
        "penstock: a trial of what the native operators of numbers cost failed, the flow goes on "
        "without: TypeError: 'NoneType' object is not iterable\n"
    )
    profiler.stop()  # what it cuts short is no failure
    pipeline.name = "other"
    assert profiler.trial(pipeline, seen) == {}
    assert capfd.readouterr().err == ""


sizes = st.integers(1, 10**6)
shares = st.floats(0.01, 100)


@given(shares, sizes, shares, sizes)
def test_estimates_weigh_by_their_rows(one: float, few: int, other: float, many: int) -> None:
    pooled = CostEstimate(one, one, few).pooled(CostEstimate(other, other, many), 10**9)
    assert pooled.rows == few + many
    assert pooled.service == pytest.approx((one * few + other * many) / (few + many))
    assert pooled.selectivity == pooled.service


def test_what_was_long_ago_does_not_outweigh_what_is_new() -> None:
    pooled = CostEstimate(1.0, 1.0, 10**9).pooled(CostEstimate(3.0, 3.0, 1000), 1000)
    assert (pooled.service, pooled.rows) == (2.0, 2000)


def nap(_: int) -> float:
    began = time.perf_counter()
    time.sleep(0.002)
    return time.perf_counter() - began


@pytest.mark.spark
def test_a_native_operator_that_waits_and_one_that_filters_are_seen(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.sql import functions as sf

    napping = sf.udf(nap, "double", useArrow=False)
    flow = Dataflow("native")
    rows = source(flow, limit=None, load="150/s")
    halved = rows.frame("coin", lambda df: df.where("hash(id) % 2 = 0"))
    thirds = halved.frame("dice", lambda df: df.where("hash(id, 1) % 3 = 0"))
    thirds.frame("nap", lambda df: df.select("id", napping("id").alias("nap"))).sink(
        "out", Memory()
    )
    engine = SparkEngine(spark=spark, window=3.0)
    engine.start(flow.graph, None, tmp_path / "run")
    last: list[Snapshot] = []

    def tried() -> bool:
        time.sleep(0.2)
        last[:] = [engine.observe()]
        return last[0].settled and last[0].operators["nap"].service is not None

    until(tried, "a trial", 90)
    engine.stop()
    out = engine.rows("out")
    operators = last[0].operators
    truth = float(np.mean([row.nap for row in out]))
    assert operators["nap"].service == pytest.approx(truth, rel=0.25)  # naps are longer under load
    assert (operators["coin"].service or 0) < 0.1 * truth
    came = operators["coin"].rate_in or 0
    share = len(out) / (max(row.id for row in out) + 1)  # of all rows, those that come through
    assert operators["nap"].rate_in == pytest.approx(came * share, rel=0.1)
