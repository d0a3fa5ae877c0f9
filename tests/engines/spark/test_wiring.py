"""Wirings: which checkpoint, epoch and rows every pipeline starts with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.dataflow.connectors import Discard, Files, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.spark.changes import wiring as wirings
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired, Wiring
from tests.strategies import WORDS, nothing


def following(
    old: Wiring,
    after: Plan,
    changed: str,
    positions: Mapping[str, int],
    successors: Mapping[str, Wired] | None = None,
    **ends: int,
) -> Wiring:
    """The next wiring of `words`; ends: rows in the channels of operators."""
    names = frozenset(changed.split())
    return wirings.following(
        words(), old, after, names, positions, ends.__getitem__, successors or {}
    )


def words(source: Any = None) -> Graph:
    flow = Dataflow("words")
    tweets = flow.source("tweets", source or Generator(nothing, WORDS))
    split = tweets.flat_map("split", nothing, schema=WORDS)
    split.key_by("word").aggregate("count", "count(*)", schema=WORDS).sink("counts", Discard())
    return flow.graph


def plan(*pipelines: str, parallelism: int = 1, ceiling: int | None = None) -> Plan:
    return Plan(
        tuple(Pipeline(tuple(p.split()), parallelism, None, 0.0, ceiling) for p in pipelines)
    )


APART = plan("tweets split", "count counts")
FUSED = plan("tweets split count counts")


def test_a_new_run_begins_at_row_0() -> None:
    assert wirings.first(words(), APART) == Wiring(
        1,
        APART,
        {
            "tweets": Wired("run-000001-tweets", 1, {"tweets": 0}, 1),
            "count": Wired("state-count", 1, {"split>count": 0}, 1),
        },
    )


def test_a_pipeline_that_does_not_change_keeps_its_wiring() -> None:
    old = wirings.first(words(), APART)
    after = plan("tweets", "split", "count counts")
    new = following(old, after, "tweets split", {"tweets": 30}, tweets=0, split=70)
    assert new.number == 2
    assert new.pipelines["count"] is old.pipelines["count"]
    assert new.pipelines["tweets"] == Wired("run-000002-tweets", 2, {"tweets": 30}, 1)
    assert new.pipelines["split"] == Wired("run-000002-split", 2, {"tweets>split": 0}, 1)


def test_a_new_edge_begins_at_the_end_of_its_channel() -> None:
    old = wirings.first(words(), FUSED)
    new = following(old, APART, "tweets count", {"tweets": 105894}, split=311096)
    assert new.pipelines == {
        "tweets": Wired("run-000002-tweets", 2, {"tweets": 105894}, 1),
        "count": Wired("state-count", 2, {"split>count": 311096}, 1),
    }


def test_a_merged_pipeline_goes_on_where_its_head_was() -> None:
    old = wirings.first(words(), APART)
    positions = {"tweets": 79362, "split>count": 500}
    new = following(old, FUSED, "tweets", positions)
    assert new.pipelines == {"tweets": Wired("state-count", 2, {"tweets": 79362}, 1)}


def test_state_stays_with_its_operator_and_a_foreign_position_with_its_source() -> None:
    files, own = words(Files("in", WORDS)), words()

    def name(graph: Graph, operators: str) -> str:
        return wirings.checkpoint_name(graph, Pipeline(tuple(operators.split())), 7, None)

    assert name(own, "tweets split") == "run-000007-tweets"
    assert name(own, "split") == "run-000007-split"
    assert name(own, "split count") == "state-count"
    assert name(files, "tweets split") == "source-tweets"
    assert name(files, "tweets split count counts") == "state-count"


@pytest.mark.parametrize(
    ("parallelism", "ceiling", "now", "parts"),
    [
        (1, None, None, 1),
        (2, None, None, 2),
        (4, None, None, 4),
        (3, 8, None, 8),
        (3, 8, 5, 8),
        (3, None, 5, 5),  # what is there will do
        (5, None, 5, 5),
        (6, None, 5, 6),
    ],
)
def test_state_is_cut_as_the_plan_says_or_one_part_each(
    parallelism: int, ceiling: int | None, now: int | None, parts: int
) -> None:
    spec = Pipeline(("count", "counts"), parallelism, ceiling=ceiling)
    assert wirings.partitions(words(), spec, now) == parts


def test_without_state_there_is_nothing_to_cut() -> None:
    assert wirings.partitions(words(), Pipeline(("tweets", "split"), 4), None) == 4


def test_a_successor_brings_its_own_wiring() -> None:
    old = wirings.first(words(), APART)
    ready = {"count": Wired("state-count-000002", 2, {"split>count": 4}, 5)}
    new = following(old, APART, "count", {"split>count": 9}, ready, split=10)
    assert new.pipelines == {**old.pipelines, **ready}
    later = following(new, FUSED, "tweets", {"tweets": 7})
    assert later.pipelines["tweets"].checkpoint == "state-count-000002"
    assert later.pipelines["tweets"].partitions == 5


def test_global_state_is_in_one_part() -> None:
    flow = Dataflow("all")
    tweets = flow.source("tweets", Generator(nothing, WORDS))
    tweets.process_all("last", nothing, schema=WORDS).sink("out", Discard())
    spec = Pipeline(("tweets", "last", "out"), 4, ceiling=4)
    assert wirings.partitions(flow.graph, spec, None) == 1
