"""Laws that hold for every query: what is refused before the start, and what the tests rely on."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from penstock import Dataflow, Files, Generator, InvalidDataflow, Memory, Stream
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion
from tests.differential.compare import difference, last_by_key, without_flush
from tests.differential.data import FLUSH_ID, tables_of
from tests.differential.functions import Kept, Numbering
from tests.differential.jobs import JOBS
from tests.differential.queries import ID, TIME, Query
from tests.differential.runner import CUTS, Course
from tests.differential.strategies import any_query
from tests.differential.tables import END, FLUSH
from tests.strategies import few, nothing

EVENTS = "Key string, at timestamp, n bigint"


def events(flow: Dataflow, name: str = "events") -> Stream:
    return flow.source(name, Generator(nothing, EVENTS, limit=1))


# --- what Spark would refuse, too -------------------------------------------------------------

BEHIND: dict[str, Callable[[Dataflow, Stream], Stream]] = {
    "aggregate": lambda flow, s: s.key_by("n").aggregate("behind", total="sum(n)"),
    "windows": lambda flow, s: (
        s.key_by("Key")
        .window("10s", on="at", watermark="5s")
        .aggregate("behind", total="sum(n)", emit="final")
    ),
    "deduplicate": lambda flow, s: s.key_by("Key").deduplicate("behind"),
    "join": lambda flow, s: s.key_by("Key").join("behind", events(flow, "others").key_by("Key")),
    "process": lambda flow, s: s.key_by("Key").process(
        "behind", Numbering("Key"), schema="Key string, number bigint"
    ),
    "process_all": lambda flow, s: s.process_all(
        "behind", Numbering("Key"), schema="Key string, number bigint"
    ),
}


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("form", sorted(BEHIND))
def test_a_stateful_step_behind_updates_is_refused_and_both_are_named(
    form: str, between: bool
) -> None:
    flow = Dataflow("updates")
    updates = (
        events(flow)
        .key_by("Key")
        .aggregate(
            "updates", n="count(*)", at="max(at)", schema="Key string, n bigint, at timestamp"
        )
    )
    if between:
        updates = updates.frame("flat", nothing, schema="Key string, n bigint, at timestamp")
    BEHIND[form](flow, updates).sink("out", Memory())
    with pytest.raises(InvalidDataflow, match=r"(?s)'behind'.*'updates'|'updates'.*'behind'"):
        flow.validate()


def test_a_stateful_step_behind_windows_that_are_sent_once_is_fine() -> None:
    flow = Dataflow("finals")
    windows = events(flow).key_by("Key").window("10s", on="at", watermark="5s")
    closed = windows.aggregate("closed", n="count(*)", emit="final")
    closed.key_by("n").aggregate("behind", windows="count(*)").sink("out", Memory())
    flow.validate()


SPELLINGS = [
    ("leftOuter", "10 seconds"),
    ("left", "1 minute"),
    ("left_outer", "10s"),
    ("rightouter", "2 hours"),
    ("outer", "250 milliseconds"),
    ("full", "1 day"),
]


@pytest.mark.parametrize(("how", "delay"), SPELLINGS)
def test_durations_and_joins_are_spelled_as_in_spark(how: str, delay: str) -> None:
    flow = Dataflow("spellings")
    one, two = events(flow, "one"), events(flow, "two")
    two.frame("renamed", nothing, schema="Key string, then timestamp").key_by("Key").join(
        "both",
        one.key_by("Key"),
        how=how,
        condition="l.then BETWEEN r.at AND r.at + INTERVAL 1 MINUTE",
        left_watermark=("then", delay),
        right_watermark=("at", delay),
    ).sink("out", Memory())
    windows = one.key_by("Key").window("1 day", slide="1 hour", on="at", watermark=delay)
    windows.aggregate("windows", n="count(*)").sink("windows-out", Memory())
    flow.validate()


@pytest.mark.spark
def test_a_window_that_no_watermark_closes_cannot_be_final(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("never")
    windows = events(flow).key_by("Key").window("10s", on="at")
    windows.aggregate("counts", n="count(*)", emit="final").sink("out", Memory())
    with pytest.raises(InvalidDataflow, match=r"'counts'.*watermark"):
        SparkEngine(spark=spark).start(flow.graph, None, tmp_path / "run")


@pytest.mark.spark
def test_a_session_is_left_as_it_was(spark: Any, tmp_path: Path) -> None:
    """Its time zone and every other setting, also while a flow runs in it."""
    user = spark.newSession()
    user.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    hour = "SELECT hour(TIMESTAMP '2026-01-01 00:00:00Z') AS hour"
    before = (user.sql(hour).first(), sorted(user.sql("SET").collect()))
    (tmp_path / "in").mkdir()
    flow = Dataflow("zone")
    flow.source("files", Files(str(tmp_path / "in"), "n bigint")).sink("out", Memory())
    engine = SparkEngine(spark=user)
    engine.start(flow.graph, fusion.default_plan(flow.graph, 1), tmp_path / "run")
    try:
        during = (user.sql(hour).first(), sorted(user.sql("SET").collect()))
    finally:
        engine.stop(drain=False)
    assert before[0].hour == 5
    assert during == before
    assert (user.sql(hour).first(), sorted(user.sql("SET").collect())) == before


# --- what the tests rely on -------------------------------------------------------------------

ROWS = st.lists(st.builds(Row("Key", "n"), st.sampled_from("aB"), st.integers(0, 2)), max_size=6)


@given(ROWS, ROWS)
@few
def test_two_results_differ_unless_they_have_the_same_rows_as_often(
    one: list[Row], two: list[Row]
) -> None:
    assert (difference(one, two) == "") == (sorted(one) == sorted(two))
    assert difference(one, one[::-1]) == ""


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (Row(a=Row(dateTime=1)), Row(a=Row(datetime=1))),
        (Row(a=Row(dateTime=1)), Row(a=Row(dateTime=None))),
        (Row(a=[1, 2]), Row(a=[2, 1])),
        (Row(a={"x": None}), Row(a={})),
        (Row(a=Decimal("1.0")), Row(a=Decimal("1.5"))),
        (Row(a=datetime(2026, 1, 1, 23)), Row(a=datetime(2026, 1, 1, 22))),
        (Row(a=1, b=2), Row(b=1, a=2)),
        (Row(a=0.0), Row(a=-0.0)),
    ],
)
def test_names_order_and_values_count_however_deep(expected: Row, found: Row) -> None:
    assert "1 missing" in difference([expected], [found])
    assert difference([expected], [expected]) == ""


def test_maps_have_no_order_and_nan_is_itself() -> None:
    assert difference([Row(a={"x": 1, "y": 2})], [Row(a={"y": 2, "x": 1})]) == ""
    assert difference([Row(a=float("nan"))], [Row(a=float("nan"))]) == ""


def test_of_updates_the_last_counts_and_the_flush_row_does_not() -> None:
    rows = [Row(k="a", n=1), Row(k=None, n=5), Row(k="a", n=2), Row(k=FLUSH, n=1)]
    assert last_by_key(without_flush(rows), ["k"]) == [Row(k="a", n=2), Row(k=None, n=5)]
    nested = Row(window=Row(start=END.replace(tzinfo=None)), tags=["x"])
    assert without_flush([nested, Row(tags=[FLUSH])]) == []


@given(any_query())
@few
def test_rows_are_at_most_so_late_and_the_last_one_passes_every_filter(query: Query) -> None:
    tables = tables_of(query)
    for table in tables.values():
        newest = datetime.min
        for row in (row for part in table.parts for row in part):
            when = row[TIME].replace(tzinfo=None)
            assert when + timedelta(seconds=query.late, milliseconds=1) >= newest
            newest = max(newest, when)
        assert table.arriving[-1] == (table.flush,)
        assert all(value is not None for value in table.flush.values())
    assert all(Kept(modulus)({ID: FLUSH_ID}) for modulus in (2, 3, 5))
    assert tables_of(query) == tables
    assert all(type(step).__name__ in str(query) for step in query.steps)


def test_every_job_has_a_plan_for_every_cut_and_changes_that_follow_from_the_seed() -> None:
    for job in JOBS:
        graph = job.flow(job.tables(random.Random(1)), Path("nowhere")).graph
        for cut in CUTS:
            course = Course(cut, changes=3, seed=5)
            fusion.check(course.plan(graph), graph)
            assert course.requests(graph) == course.requests(graph)
