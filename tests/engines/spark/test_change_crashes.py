"""A crash at every moment of a change, one after the other: the old or the new wiring is whole."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from penstock.engines.spark.changes import wiring as wirings
from penstock.engines.spark.changes.execution import Execution, recover
from penstock.engines.spark.changes.journal import Journal
from penstock.engines.spark.changes.planner import Situation, plan_change
from penstock.plan.plan import Plan
from tests.engines.spark.model_flow import Bomb, Crash, Disk, ModelFlow
from tests.engines.spark.test_change_planner import APART, FUSED, words
from tests.engines.spark.test_change_steps import FragileJournal

RECUT = APART.with_pipeline("count", ceiling=7)
MORE = replace(APART.with_pipeline("count", parallelism=3), executors=2)


@pytest.mark.parametrize(
    ("before", "after", "overlap"),
    [
        (APART, FUSED, ()),
        (FUSED, APART, ()),
        (FUSED, RECUT, ()),
        (APART, RECUT, ()),
        (APART, RECUT, ("count",)),
        (APART, MORE, ()),
        (MORE, RECUT, ("count",)),
    ],
    ids=["merge", "split", "split-recut", "recut", "successor", "more", "fewer-recut"],
)
def test_a_crash_at_any_moment_leaves_one_wiring_whole(
    before: Plan,
    after: Plan,
    overlap: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power fails here
    graph, ends = words(), set()
    for moment in count():
        folder = tmp_path / str(moment)
        folder.mkdir()
        disk = Disk(wirings.first(graph, before), executors=before.executors)
        flow = ModelFlow(graph, disk, random.Random(moment), Bomb())
        flow.begin()
        flow.go_on(20)
        steps = plan_change(Situation(graph, flow.wiring, frozenset(overlap)), after)
        flow.bomb = Bomb(moment)
        try:
            Execution(flow, steps).run(FragileJournal(folder, flow.bomb), "to test it")
        except Crash:
            flow = ModelFlow(graph, disk, random.Random(moment), Bomb())
            recover(flow, Journal(folder))
            flow.begin()
            assert Journal(folder).unfinished() is None
        else:
            break
        flow.check_whole()
        ends.add(flow.wiring.number)
        flow.finish()
        flow.check_rows()
    assert moment > len(steps)
    assert ends == {1, 2}
