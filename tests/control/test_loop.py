from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.control.context import Context
from penstock.control.loop import Tick, control
from penstock.engines.memory import MemoryEngine
from penstock.errors import FlowFailed
from penstock.plan.decision import Decision
from penstock.policies.static import Static

from .doubles import FailingEngine, flow


class Doubling:
    """Doubles one pipeline's parallelism every turn and counts the turns."""

    name = "doubling"

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.memories: list[Any] = []

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        self.contexts.append(context)
        self.memories.append(memory)
        now = context.plan.pipelines[0].parallelism
        plan = context.plan.with_pipeline("numbers", parallelism=2 * now)
        return Decision(plan, f"{now} is too few", {"was": now}), (memory or 0) + 1


def turns(engine: MemoryEngine, policy: Any, number: int, run_dir: Path, keep: int = 9):
    graph = flow().graph
    engine.start(graph, None, run_dir)
    ticks: list[Tick] = []

    def wait() -> bool:
        if len(ticks) == number:
            return False
        engine.advance(1)
        return True

    control(
        engine,
        graph,
        policy,
        now=lambda: len(ticks) + 1.0,
        wait=wait,
        record=ticks.append,
        keep=keep,
    )
    return ticks


def test_static_looks_on_and_changes_nothing(tmp_path: Path) -> None:
    ticks = turns(MemoryEngine(), Static(), 3, tmp_path)
    assert [t.at for t in ticks] == [1, 2, 3]
    assert [t.transition for t in ticks] == [None, None, None]
    assert ticks[-1].snapshot.rows_ingested == 3000


def test_a_new_plan_is_applied_and_in_force_next_turn(tmp_path: Path) -> None:
    engine = MemoryEngine()
    ticks = turns(engine, Doubling(), 3, tmp_path)
    assert [t.plan.slots for t in ticks] == [1, 2, 4]
    assert engine.plan.slots == 8
    assert ticks[0].transition is not None
    assert ticks[0].transition.reason == "1 is too few"


def test_the_policy_gets_its_memory_back_and_only_recent_snapshots(tmp_path: Path) -> None:
    policy = Doubling()
    turns(MemoryEngine(), policy, 4, tmp_path, keep=2)
    assert policy.memories == [None, 1, 2, 3]
    assert [len(c.snapshots) for c in policy.contexts] == [1, 2, 2, 2]
    assert [c.now for c in policy.contexts] == [1, 2, 3, 4]
    assert policy.contexts[-1].latest == policy.contexts[-1].snapshots[1]


def test_a_refused_plan_is_told_and_the_flow_goes_on(tmp_path: Path) -> None:
    class Impossible:
        name = "impossible"

        def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
            halved = context.plan.pipelines[0].operators[:1]
            return Decision(
                context.plan.with_pipeline("numbers", operators=halved), "for fun"
            ), memory

    ticks = turns(MemoryEngine(), Impossible(), 2, tmp_path)
    assert len(ticks) == 2
    assert ticks[0].transition is None
    assert "in no pipeline" in (ticks[0].refused or "")


def test_a_failed_flow_ends_the_loop(tmp_path: Path) -> None:
    with pytest.raises(FlowFailed, match="operator 'double'"):
        turns(FailingEngine(), Static(), 9, tmp_path)
