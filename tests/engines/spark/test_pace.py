"""How many rows a batch may have; no Spark is run."""

from __future__ import annotations

from penstock import Pipeline
from penstock.engines.spark.channels.valve import BatchSize


def test_a_batch_is_as_long_as_a_window() -> None:
    pace = BatchSize(5.0)
    assert pace.admission(Pipeline(("a", "b"), 3)) is None
    assert pace.admission(Pipeline(("a", "b"), 3), python=True) == 150
    pace.learn(("a", "b"), 0.01)
    assert pace.admission(Pipeline(("a", "b"), 3)) == 1500
    assert pace.admission(Pipeline(("a", "b"), 3, admission=7)) == 7
    pace.learn(("a", "b"), 100.0)
    assert pace.admission(Pipeline(("a", "b"), 3)) == 1


def test_a_pipeline_that_is_cut_or_joined_needs_what_its_parts_needed() -> None:
    pace = BatchSize(1.0)
    pace.learn(("a", "b"), 0.02)
    pace.learn(("c",), 0.03)
    assert pace.admission(Pipeline(("a", "b", "c"), 1)) == 20
    assert pace.admission(Pipeline(("b",), 1)) == 50
    pace.learn(("a",), 0.005)
    pace.learn(("b",), 0.01)
    assert pace.admission(Pipeline(("a", "b", "c"), 1)) == round(1 / 0.045)
    assert pace.admission(Pipeline(("d",), 1)) is None


def test_who_begins_with_a_few_rows_takes_ever_more() -> None:
    pace, spec = BatchSize(5.0), Pipeline(("a",), 1)
    assert pace.hastened(spec, 50, 50, 0.1) == 500  # ten times as many at most
    assert pace.hastened(spec, 50, 50, 4.0) == 62
    assert pace.hastened(spec, 50, 50, 6.0) == 0
    assert pace.hastened(spec, 50, 10, 0.1) == 0  # it did not need what it might have had
    assert pace.hastened(spec, None, 50, 0.1) == 0
    assert pace.hastened(Pipeline(("a",), 1, admission=50), 50, 50, 0.1) == 0
    pace.learn(("a",), 0.01)
    assert pace.hastened(spec, 50, 50, 0.1) == 0  # by now it is known
