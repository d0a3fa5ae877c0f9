"""A watermark of rows from several branches of a stream: the slower branch loses nothing."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock import Dataflow, Memory, Plan, Stream
from penstock.dataflow.graph import Graph
from penstock.engines.spark.channels.channel import Channel
from penstock.engines.spark.channels.event_clock import EventClock, merged, origin
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion

from .flows import run, source
from .test_event_time import EVERY_20, N, jump, starts


def slow(record: dict[str, Any]) -> bool:
    """The branch of even numbers, which takes its time."""
    if record["id"] % 2 == 0:
        time.sleep(0.005)
    return record["id"] % 2 == 0


def branches(flow: Dataflow) -> Stream:
    """Odd numbers, the last record among them, and even numbers, which come later."""
    rows = jump(flow)
    odd = rows.filter("odd", lambda record: record["id"] % 2 == 1)
    return odd.union("both", rows.filter("even", slow))


def apart(graph: Graph) -> Plan:
    """Every operator a pipeline of its own, so that the union is one hop before its reader."""
    return fusion.finest_plan(graph, 1)


def together(graph: Graph) -> Plan:
    """Both branches in the pipeline that makes the watermark."""
    return fusion.default_plan(graph, 1)


@pytest.mark.spark
@pytest.mark.parametrize("plan", [apart, together])
def test_windows_of_two_branches_hold_the_rows_of_the_slower(
    spark: Any, tmp_path: Path, plan: Any
) -> None:
    flow = Dataflow("branches")
    twenties = branches(flow).key_by("key").window("20s", on="ts", watermark="0s")
    twenties.aggregate("twenties", n="count(*)", emit="final").sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run", plan(flow.graph))
    assert starts(engine) == EVERY_20
    assert engine.observe().rows_late == 0


@pytest.mark.spark
def test_a_branch_without_rows_holds_no_window_open(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("idle")
    rows = jump(flow)
    none = rows.filter("none", lambda record: False)
    twenties = rows.union("both", none).key_by("key").window("20s", on="ts", watermark="1s")
    twenties.aggregate("twenties", n="count(*)", emit="final").sink("out", Memory())
    engine = run(flow, spark, tmp_path / "run", apart(flow.graph))
    assert starts(engine) == EVERY_20


@pytest.mark.spark
def test_duplicates_are_dropped_once_whatever_branch_is_ahead(spark: Any, tmp_path: Path) -> None:
    flow = Dataflow("once")
    once = branches(flow).key_by("id").deduplicate("once", on="ts", watermark="1s")
    once.sink("out", Memory())
    engine: SparkEngine = run(flow, spark, tmp_path / "run", apart(flow.graph))
    assert Counter(row.id for row in engine.rows("out")) == Counter(range(N))


# --- without Spark ----------------------------------------------------------------------------


def test_a_clock_shows_the_latest_time_of_what_all_branches_have_read() -> None:
    clock = EventClock("rows").after(40, 40, 4_000).after(50, 120, 12_000)
    assert clock.at(39) is None
    assert [clock.at(row) for row in (40, 119, 120, 500)] == [4_000, 4_000, 12_000, 12_000]
    assert clock.after(120, 120, None).points == ((120, 12_000),)


def test_a_clock_never_goes_back() -> None:
    clock = EventClock("rows").after(10, 10, 9_000).after(20, 20, 3_000)
    assert clock.at(20) == 9_000


def test_a_clock_outlives_its_process_but_not_another_origin(tmp_path: Path) -> None:
    clock = EventClock("rows").after(10, 10, 9_000)
    clock.save(tmp_path / "clock")
    assert EventClock.load(tmp_path / "clock", "rows") == clock
    assert EventClock.load(tmp_path / "clock", "others") == EventClock("others")
    assert EventClock.load(tmp_path / "none", "rows") == EventClock("rows")


def test_a_batch_of_several_channels_has_what_all_and_what_any_of_them_have() -> None:
    assert merged([{"rows": (10, 30)}, {"rows": (20, 20), "other": (1, 2)}]) == {
        "rows": (10, 30),
        "other": (1, 2),
    }


def test_the_origin_is_where_the_branches_part() -> None:
    flow = Dataflow("origin")
    both = branches(flow)
    both.key_by("key").aggregate("counts", n="count(*)").sink("out", Memory())
    assert origin(flow.graph, "counts") == "jump"


def test_two_sources_have_no_origin() -> None:
    flow = Dataflow("two")
    both = source(flow).union("both", source(flow, "others"))
    both.key_by("key").aggregate("counts", n="count(*)").sink("out", Memory())
    assert origin(flow.graph, "counts") is None


def test_without_a_union_there_is_no_origin() -> None:
    flow = Dataflow("one")
    jump(flow).key_by("key").aggregate("counts", n="count(*)").sink("out", Memory())
    assert origin(flow.graph, "counts") is None


def test_a_channel_without_rows_still_says_how_much_went_into_it(tmp_path: Path) -> None:
    channel = Channel(FileStore(str(tmp_path)))
    channel.commit("a", (), origins={"rows": (50, 50)})
    channel.commit("b", (), origins={"rows": (50, 50)})
    channel.commit("c", (("data/c", 4),), origins={"rows": (70, 80)})
    channel.commit("d", (), origins={"rows": (90, 90)})
    assert [entry.sequence for entry in channel.log.entries] == [0, 1, 2]
    assert channel.origins(0) == {"rows": (50, 0)}
    assert channel.origins(3) == {"rows": (50, 80)}
    assert channel.origins(4) == {"rows": (90, 80)}
