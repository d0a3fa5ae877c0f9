"""Latency by lineage: the same numbers as if every record had carried its arrival time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.dataflow.graph import Constraint
from penstock.engines.spark.measuring.batches import LatencyMeter, Origins, Span, merged, scaled
from penstock.metrics.snapshot import LatencyMetrics
from tests.strategies import few

CONSTRAINT = Constraint("words", "count", latency=2.0, window=10.0)

SPANS = st.lists(
    st.builds(
        lambda start, width, rows: Span(start, start + width, rows),
        st.floats(0, 50),
        st.sampled_from((0.0, 0.01, 0.5, 3.0)),
        st.integers(1, 1000),
    ),
    min_size=1,
    max_size=12,
)


def meter(*batches: tuple[float, list[Span]]) -> LatencyMeter:
    made = LatencyMeter(CONSTRAINT)
    for at, spans in batches:
        made.add(at, spans)
    return made


def expanded(at: float, spans: list[Span]) -> np.ndarray:
    """A latency for every row, evenly over its span."""
    return np.concatenate(
        [at - (s.start + (np.arange(s.rows) + 0.5) / s.rows * (s.end - s.start)) for s in spans]
    )


def test_nothing_measured_is_nothing_known() -> None:
    empty = meter()
    assert empty.window(5.0) is None
    assert empty.total() is None
    none = meter((5.0, [Span(1.0, 2.0, 0)]))
    assert none.window(5.0) is None
    assert none.total() is None


def test_rows_that_arrived_at_one_instant_have_one_latency() -> None:
    made = meter((5.0, [Span(4.0, 4.0, 10)]))
    assert made.window(5.0) == LatencyMetrics("words->count", 2.0, 1.0, 1.0, 1.0, 1.0, 10)
    total = made.total()
    assert total is not None
    assert (total.mean, total.rows) == (1.0, 10)
    assert [total.p50, total.p95, total.p99] == pytest.approx([1.0] * 3, rel=0.005)


def test_rows_that_arrived_evenly_have_evenly_spread_latencies() -> None:
    total = meter((5.0, [Span(4.0, 5.0, 1000)])).total()
    assert total is not None
    assert total.mean == 0.5
    assert [total.p50, total.p95, total.p99] == pytest.approx([0.5, 0.95, 0.99], rel=0.01)


def test_rows_count_by_their_number() -> None:
    made = meter((5.0, [Span(4.0, 4.0, 990), Span(1.0, 1.0, 10)]))
    found = made.window(5.0)
    assert found is not None
    assert found.mean == pytest.approx(1.03)
    assert (found.p50, found.p95, found.rows) == (1.0, 1.0, 1000)


def test_a_window_forgets_what_was_done_before_it() -> None:
    made = meter((5.0, [Span(1.0, 1.0, 10)]), (12.0, [Span(11.0, 11.0, 30)]))
    late = made.window(15.1)
    assert late is not None
    assert (late.mean, late.rows) == (1.0, 30)
    assert made.window(22.1) is None
    total = made.total()
    assert total is not None
    assert (total.mean, total.rows) == (1.75, 40)


def test_a_latency_below_zero_is_counted_as_the_smallest() -> None:
    # Clocks of two machines may differ by a little.
    total = meter((5.0, [Span(4.9, 5.1, 10)])).total()
    assert total is not None
    assert total.rows == 10
    assert 0 < total.p50 <= 0.001
    assert total.p99 == pytest.approx(0.1, rel=0.03)


@few
@given(spans=SPANS, wait=st.floats(0.001, 5))
def test_the_window_is_that_of_the_records_one_by_one(spans: list[Span], wait: float) -> None:
    at = max(s.end for s in spans) + wait
    latencies = expanded(at, spans)
    found = meter((at, spans)).window(at)
    assert found is not None
    assert found.rows == len(latencies)
    assert found.mean == pytest.approx(latencies.mean())
    check(found, latencies, slack=max(s.end - s.start for s in spans) / 8 + 1e-9)


@few
@given(spans=SPANS, wait=st.floats(0.001, 5))
def test_the_total_is_that_of_the_records_one_by_one(spans: list[Span], wait: float) -> None:
    at = max(s.end for s in spans) + wait
    latencies = expanded(at, spans)
    found = meter((at, spans)).total()
    assert found is not None
    assert found.rows == len(latencies)
    assert found.mean == pytest.approx(latencies.mean())
    check(found, latencies, slack=0.0)


def check(found: LatencyMetrics, latencies: np.ndarray, slack: float) -> None:
    """A quantile lies between those a little below and above it, within the resolution."""
    some = 1.5 / len(latencies)
    for share, quantile in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        low, high = np.quantile(
            latencies,
            [max(share - some - 0.02, 0), min(share + some + 0.02, 1)],
            method="inverted_cdf",
        )
        widest = 3.0 / len(latencies)
        assert (low - slack - widest) * 0.989 <= quantile <= (high + slack + widest) * 1.011


# --- spans --------------------------------------------------------------------------------------


@few
@given(spans=SPANS, most=st.integers(1, 15))
def test_merging_conserves_rows_and_time(spans: list[Span], most: int) -> None:
    found = merged(spans, most)
    assert len(found) <= most
    assert sum(s.rows for s in found) == sum(s.rows for s in spans)
    assert min(s.start for s in found) == min(s.start for s in spans)
    assert max(s.end for s in found) == max(s.end for s in spans)


def test_neighbours_in_time_are_merged() -> None:
    spans = [Span(6.0, 7.0, 3), Span(0.0, 1.0, 1), Span(5.0, 5.5, 2), Span(1.0, 2.0, 4)]
    assert merged(spans, 2) == [Span(0.0, 2.0, 5), Span(5.0, 7.0, 5)]
    assert merged(spans, 4) == spans


@few
@given(spans=SPANS, share=st.floats(0, 2))
def test_scaling_scales_rows_and_nothing_else(spans: list[Span], share: float) -> None:
    found = scaled(spans, share)
    assert sum(s.rows for s in found) == pytest.approx(share * sum(s.rows for s in spans))
    assert [(s.start, s.end) for s in found] == [(s.start, s.end) for s in spans]


@few
@given(spans=SPANS)
def test_shares_of_one_batch_add_up_to_it(spans: list[Span]) -> None:
    assume(len(spans) > 1)
    parts = [scaled(spans, share) for share in (0.25, 0.5, 0.25)]
    rows = sum(s.rows for part in parts for s in part)
    assert rows == pytest.approx(sum(s.rows for s in spans))


def test_origins_are_known_by_operator_and_batch() -> None:
    origins = Origins()
    origins.put("split", "a", [Span(0.0, 1.0, 5)])
    origins.put("parse", "a", [Span(1.0, 2.0, 6)])
    assert origins.get("split", "a") == [Span(0.0, 1.0, 5)]
    assert origins.get("parse", "a") == [Span(1.0, 2.0, 6)]
    assert origins.get("split", "b") is None


def test_origins_are_bounded_in_batches_and_in_spans() -> None:
    origins = Origins()
    many = [Span(float(i), i + 1.0, 1) for i in range(1000)]
    for batch in range(2005):
        origins.put("split", f"{batch}", many if batch == 2004 else [])
    assert len(origins.known) == 2000
    assert origins.get("split", "4") is None
    assert origins.get("split", "5") == []
    last = origins.get("split", "2004")
    assert last is not None
    assert len(last) <= 64
    assert sum(s.rows for s in last) == 1000
