"""Which steps lead from one plan to another, written out for small dataflows."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dataflow.connectors import Discard, Files, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.spark.changes import wiring as wirings
from penstock.engines.spark.changes.planner import Situation, plan_change, plan_stop
from penstock.engines.spark.changes.steps import (
    AddExecutors,
    Adjust,
    CommitWiring,
    CopyCheckpoint,
    DiscardCheckpoint,
    DiscardCopy,
    Empty,
    HandOver,
    KeepRows,
    RemoveExecutors,
    Repartition,
    SpreadState,
    StartPipeline,
    StartSuccessor,
    Step,
    StopPipeline,
    SwitchOver,
    from_json,
    to_json,
)
from penstock.errors import Refused, RunDirectoryError
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired
from tests.strategies import WORDS, nothing


def words(source: Any = None) -> Graph:
    flow = Dataflow("words")
    tweets = flow.source("tweets", source or Generator(nothing, WORDS))
    split = tweets.flat_map("split", nothing, schema=WORDS)
    split.key_by("word").aggregate("count", "count(*)", schema=WORDS).sink("counts", Discard())
    return flow.graph


SPLIT = Pipeline(("tweets", "split"), 2)
COUNT = Pipeline(("count", "counts"), 2, ceiling=4)
APART = Plan((SPLIT, COUNT))
FUSED = Plan((Pipeline(("tweets", "split", "count", "counts"), 2, ceiling=4),))


def steps(before: Plan, after: Plan, *overlap: str, graph: Graph | None = None) -> tuple[Step, ...]:
    graph = graph or words()
    wiring = wirings.first(graph, before)
    found = plan_change(Situation(graph, wiring, frozenset(overlap)), after)
    assert tuple(from_json(to_json(step)) for step in found) == found
    return found


def test_other_instances_stop_nothing() -> None:
    after = APART.with_pipeline("count", parallelism=4).with_pipeline("split", cadence=0.5)
    assert steps(APART, after) == (
        CommitWiring(2, after, (), {}),
        Adjust(after.pipeline_of("split")),
        Adjust(after.pipeline_of("count")),
    )


def test_state_is_repartitioned_while_its_pipeline_stands() -> None:
    after = APART.with_pipeline("count", ceiling=8)
    assert steps(APART, after) == (
        Empty("count", (), 2),
        StopPipeline("count"),
        Repartition("count", "state-count", 8),
        CommitWiring(2, after, ("count",), {}),
        StartPipeline("count"),
        DiscardCopy("state-count"),
    )


def test_a_successor_is_prepared_where_it_may_overlap() -> None:
    after = APART.with_pipeline("count", ceiling=8)
    spec = after.pipeline_of("count")
    assert steps(APART, after, "count") == (
        KeepRows("count"),
        CopyCheckpoint("count", "state-count-000002", 8),
        StartSuccessor(spec, "state-count-000002", 2, 8),
        Empty("count", (), 2),
        StopPipeline("count"),
        HandOver("count"),
        CommitWiring(2, after, ("count",), {"count": Wired("state-count-000002", 2, {}, 8)}),
        SwitchOver("count"),
        DiscardCheckpoint("state-count"),
    )


def test_a_merge_empties_upstream_first_and_the_channel_between() -> None:
    assert steps(APART, FUSED, "count") == (
        Empty("tweets", (), 2),
        StopPipeline("tweets"),
        Empty("count", ("split",), 4),
        StopPipeline("count"),
        CommitWiring(2, FUSED, ("tweets",), {}),
        StartPipeline("tweets"),
        DiscardCheckpoint("run-000001-tweets"),
    )


def test_a_split_keeps_the_state_where_it_is() -> None:
    assert steps(FUSED, APART) == (
        Empty("tweets", (), 2),
        StopPipeline("tweets"),
        CommitWiring(2, APART, ("tweets", "count"), {}),
        StartPipeline("tweets"),
        StartPipeline("count"),
    )


def test_executors_come_first_and_go_last() -> None:
    more = Plan(APART.pipelines, executors=3)
    assert steps(APART, more) == (
        AddExecutors(1, 3),
        CommitWiring(2, more, (), {}),
        SpreadState("count"),
    )
    fewer = Plan(APART.pipelines, executors=2, leaving=("1",))
    assert steps(more, fewer) == (
        CommitWiring(2, fewer, (), {}),
        RemoveExecutors(2, ("1",)),
        SpreadState("count"),
    )


def test_a_source_of_sparks_own_is_neither_limited_nor_parted_from_its_state() -> None:
    files = words(Files("in", WORDS))
    with pytest.raises(Refused, match="can be neither paused nor limited"):
        steps(APART, APART.with_pipeline("split", admission=100), graph=files)
    with pytest.raises(Refused, match="cannot be split or merged while they run"):
        steps(APART, FUSED, graph=files)


def test_a_source_of_sparks_own_changes_its_instances_with_a_restart() -> None:
    after = APART.with_pipeline("split", parallelism=3)
    kinds = [type(step) for step in steps(APART, after, graph=words(Files("in", WORDS)))]
    assert kinds == [Empty, StopPipeline, CommitWiring, StartPipeline]


def chain(most: int | None) -> tuple[Graph, Plan]:
    flow = Dataflow("chain")
    stream = flow.source("s", Generator(nothing, "n bigint"))
    stream = stream.map("a", dict, schema="n bigint")
    stream = stream.map("b", dict, schema="n bigint")
    stream.map("c", dict, schema="n bigint", max_parallelism=most).sink("out", Discard())
    plan = Plan((Pipeline(("c", "out"), 1), Pipeline(("b",), 4), Pipeline(("s", "a"), 2)))
    return flow.graph, plan


@pytest.mark.parametrize(("most", "instances"), [(None, 7), (3, 3), (20, 7)])
def test_the_last_pipelines_use_the_slots_of_those_that_are_done(
    most: int | None, instances: int
) -> None:
    assert plan_stop(*chain(most), final=True) == (
        Empty("s", (), 2, final=True),
        StopPipeline("s"),
        Empty("b", ("a",), 6, final=True),
        StopPipeline("b"),
        Empty("c", ("b",), instances, final=True),
        StopPipeline("c"),
    )


def test_a_step_of_another_version_is_refused() -> None:
    with pytest.raises(RunDirectoryError, match="a step 'WarmUp' that this version does not know"):
        from_json({"step": "WarmUp", "pipeline": "count"})
