"""Pipelines as a graph."""

from __future__ import annotations

from penstock import Dataflow, Memory, Pipeline, Plan
from penstock.policies.shared.topology import Topology
from tests.engines.spark.flows import source


def diamond() -> Topology:
    flow = Dataflow("diamond")
    rows = source(flow)
    left = rows.filter("left", lambda r: True)
    right = rows.filter("right", lambda r: True)
    left.union("both", right).sink("out", Memory())
    rows.sink("raw", Memory())
    names = [("both", "out"), ("right",), ("left",), ("numbers", "raw")]
    return Topology(flow.graph, Plan(tuple(Pipeline(n) for n in names)))


def test_pipelines_come_after_what_feeds_them() -> None:
    found = diamond()
    assert next(iter(found.pipelines)) == "numbers"
    assert list(found.pipelines)[-1] == "both"
    assert set(found.upstream["both"]) == {"left", "right"}
    assert set(found.downstream["numbers"]) == {"right", "left"}
    assert found.sources == ("numbers",)
    assert set(found.sinks) == {"numbers", "both"}


def test_a_sequence_has_both_ends_and_all_branches_between() -> None:
    found = diamond()
    assert set(found.between("numbers", "out")) == {"numbers", "left", "right", "both"}
    assert found.between("left", "both") == ("left", "both")
    assert found.between("numbers", "raw") == ("numbers",)
