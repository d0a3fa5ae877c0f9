"""A moment, ready to be drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.dashboard.frame import frame, level
from penstock.metrics.snapshot import (
    ChannelMetrics,
    InstanceMetrics,
    OperatorMetrics,
    PipelineMetrics,
    Snapshot,
)
from penstock.plan.plan import Pipeline, Plan
from penstock.store import history
from penstock.store.history import RecordedSnapshot
from tests.control.doubles import flow

GRAPH = flow().graph
PLAN = Plan((Pipeline(("numbers",)), Pipeline(("double", "out"), parallelism=3)))
SNAPSHOT = Snapshot(
    at=9.0,
    window=5.0,
    rows_offered=900,
    rows_ingested=800,
    rows_delivered=700,
    rows_dead=0,
    pipelines={
        "numbers": PipelineMetrics("numbers", 1, rate_in=100.0, rate_out=100.0),
        "double": PipelineMetrics(
            "double",
            3,
            rate_in=90.0,
            arrival_rate=100.0,
            service=0.029,
            instances=(
                InstanceMetrics(0, 600, 0.9, "a"),
                InstanceMetrics(1, 150, 0.2, "b"),
                InstanceMetrics(2, 150, 0.2, "b"),
            ),
        ),
    },
    operators={
        "numbers": OperatorMetrics("numbers", rate_in=100.0, rate_out=100.0, service=0.001),
        "double": OperatorMetrics("double", rate_in=90.0, rate_out=90.0, service=0.01),
    },
    channels={"numbers>double": ChannelMetrics("numbers", "double", 50, 0.5)},
)


def shown(snapshot: Snapshot = SNAPSHOT, plan: Plan = PLAN, **more: Any) -> dict[str, Any]:
    return frame(GRAPH, RecordedSnapshot(snapshot, plan, True, 9, 9.0), **more)


def pipeline(**given: Any) -> PipelineMetrics:
    return PipelineMetrics("p", 2, **given)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pipeline(), None),
        (pipeline(rate_in=100.0, arrival_rate=100.0, service=0.001), "calm"),
        (pipeline(rate_in=100.0, arrival_rate=100.0, service=0.015), "warm"),
        (pipeline(rate_in=100.0, arrival_rate=100.0, service=0.0182), "hot"),
        # more comes than goes: a bottleneck, unless it has time to spare and only gathers
        (pipeline(rate_in=70.0, arrival_rate=100.0, service=0.015, backlog_rows=9), "hot"),
        (pipeline(rate_in=70.0, arrival_rate=100.0, service=0.001, backlog_rows=9), "calm"),
        (pipeline(rate_in=70.0, arrival_rate=100.0, backlog_rows=9), "hot"),
        # nothing was processed in the window: that says nothing
        (pipeline(rate_in=0.0, arrival_rate=100.0, backlog_rows=9), None),
    ],
)
def test_how_hard_a_pipeline_is_pressed(found: PipelineMetrics, expected: str | None) -> None:
    assert level(found) == expected


def test_operators_have_their_share_of_the_work() -> None:
    cost = {one["name"]: one["cost"] for one in shown()["operators"]}
    assert cost == {"numbers": pytest.approx(0.1), "double": pytest.approx(0.9), "out": None}


def test_an_instance_with_too_many_rows_makes_a_pipeline_skewed() -> None:
    found = shown()["pipelines"][1]
    assert [one["share"] for one in found["instances"]] == [2.0, 0.5, 0.5]
    assert [one["heavy"] for one in found["instances"]] == [True, False, False]
    assert found["skewed"]
    assert found["level"] == "hot"
    assert not shown()["pipelines"][0]["skewed"]


def test_every_planned_instance_has_a_dot_even_if_it_was_not_measured() -> None:
    wider = PLAN.with_pipeline("double", parallelism=5)
    assert len(shown(plan=wider)["pipelines"][1]["instances"]) == 5
    without = replace(SNAPSHOT, pipelines={})
    assert shown(without)["pipelines"][1]["instances"] == [{"index": n} for n in range(3)]


def test_edges_have_their_flow_and_their_channel() -> None:
    first, second = shown()["edges"]
    assert (first["from"], first["to"], first["rate"]) == ("numbers", "double", 100.0)
    assert first["crossing"]
    assert first["channel"]["backlog_rows"] == 50
    assert (second["from"], second["to"], second["rate"]) == ("double", "out", 90.0)
    assert not second["crossing"]
    assert second["channel"] is None


def test_a_channel_is_found_whatever_its_writer_is_fused_with() -> None:
    fused = Plan((Pipeline(("numbers", "double")), Pipeline(("out",))))
    channels = {"double>out": ChannelMetrics("double", "out", 7, 0.1)}
    first, second = shown(replace(SNAPSHOT, channels=channels), fused)["edges"]
    assert first["channel"] is None
    assert second["channel"]["backlog_rows"] == 7


def test_without_operators_the_flow_out_of_a_pipeline_is_still_known() -> None:
    rates = [one["rate"] for one in shown(replace(SNAPSHOT, operators={}))["edges"]]
    assert rates == [100.0, None]


def test_a_latency_that_was_not_measured_has_its_bound() -> None:
    assert shown()["latency"] == {"numbers->double": {"bound": 1.0}}


def test_only_what_is_possible_is_offered() -> None:
    assert "offers" not in shown()
    offers = shown(offers=True)["offers"]
    assert offers["double"] == {"least": 1, "most": None, "split": ["out"], "fuse": ["numbers"]}
    assert offers["numbers"] == {"least": 1, "most": None, "split": [], "fuse": ["double"]}


def test_any_moment_of_a_real_run_can_be_drawn(past: Path) -> None:
    graph = history.dataflow(past)
    for seen in history.recorded_snapshots(past):
        made = frame(graph, seen)
        assert [one["name"] for one in made["operators"]] == [o.name for o in graph.operators]
        assert len(made["edges"]) == 4
        assert all(len(p["instances"]) == p["parallelism"] for p in made["pipelines"])
