"""A resumed run decides as if it had not stopped, or says why its policy starts afresh."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from penstock import policies
from penstock.app import run
from penstock.control import resume
from penstock.control.blackout_periods import Quiet
from penstock.control.guard import Guard
from penstock.control.loop import NEW, ControlSettings, LoopState, control
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.errors import FlowFailed
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.policies.base.policy import Context, Policy
from penstock.store.history import FILE, History, events, loop_state
from penstock.store.turn import Tick
from penstock.testing import MemoryEngine, fake_clock
from tests.control.doubles import flow

GUARD = Guard(cooldown=5, settle=5, undo=10, horizon=math.inf)


def chain() -> Dataflow:
    made = Dataflow("chain")
    source = Generator(lambda rng, index, at: {"n": index}, "n bigint", "100/s")
    stream = made.source("in", source)
    for name in ("first", "second"):
        stream = stream.map(name, lambda r: r, schema="n bigint")
    stream.sink("out", Discard())
    made.constrain("in", "second", latency="1s")
    return made


def busy_engine() -> MemoryEngine:
    """Its load rises and falls, so that every policy has something to do."""
    load: Callable[[float], float] = lambda at: 100 + 90 * math.sin(at / 9)  # noqa: E731
    return MemoryEngine({"first": 0.011, "second": 0.017}, rate=load)


def turns(
    engine: MemoryEngine,
    policy: Policy,
    count: int,
    run_dir: Path,
    state: LoopState = NEW,
) -> list[Tick]:
    """So many turns of the loop, recorded as a run records them; the loop then dies."""
    history = History(run_dir, lambda: 1.7e9, pytest.fail)
    writer = resume.StateWriter(policy, policy.name)
    ticks: list[Tick] = []

    def wait() -> bool:
        if len(ticks) == count:
            raise FlowFailed("the process dies")
        engine.advance(1)
        return True

    def record(tick: Tick) -> None:
        ticks.append(tick)
        history.append(tick)

    with pytest.raises(FlowFailed):
        control(
            engine,
            chain().graph,
            policy,
            now=lambda: len(ticks) + 1.0,
            wait=wait,
            record=record,
            settings=ControlSettings(guard=GUARD),
            keep=30,
            state=state,
            save=lambda state: history.save_loop_state(writer.dump(state)),
        )
    history.close()
    return ticks


def outcome(tick: Tick) -> Any:
    rules = () if tick.review is None else tuple(veto.rule for veto in tick.review.vetoes)
    assert tick.decision is not None
    return tick.plan, tick.decision.plan, rules, tick.decision.numbers, tick.memory


@pytest.mark.parametrize(
    "name",
    [
        "static",
        "threshold",
        "ds2",
        "drs",
        "latency",
        "organic",
        "es-stream",
        "stela:automatic=true",
    ],
)
@pytest.mark.parametrize("stops", [(7,), (20,), (9, 33)])
def test_a_loop_that_dies_and_is_resumed_decides_as_one_that_never_stopped(
    name: str, stops: tuple[int, ...], tmp_path: Path
) -> None:
    whole, engine = tmp_path / "whole", busy_engine()
    whole.mkdir()
    engine.start(chain().graph, None, whole)
    expected = turns(engine, policies.get(name), 60, whole)

    parts, engine, found = tmp_path / "parts", busy_engine(), []
    parts.mkdir()
    engine.start(chain().graph, None, parts)
    for first, last in zip((0, *stops), (*stops, 60), strict=True):
        policy = policies.get(name)
        state, lost = resume.load(parts, policy, policy.name, engine.observe().at, keep=30)
        assert lost is None
        assert state.now == first
        found += turns(engine, policy, last - first, parts, state)
    assert [outcome(one) for one in found] == [outcome(one) for one in expected]
    assert name in ("static", "latency") or len({one.plan.slots for one in expected}) > 1


# --- runs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    turns: int = 0
    version: Literal[1] = 1


@dataclass(frozen=True)
class Counting:
    """Counts its turns, and wants one instance more at every one."""

    name: ClassVar[str] = "counting"
    memory_type: ClassVar[type] = Counted
    step: int = 1

    def decide(self, context: Context, memory: Counted | None) -> tuple[Decision, Counted]:
        memory = Counted((memory or Counted()).turns + 1)
        plan = context.plan.with_pipeline(
            "numbers", parallelism=context.plan.pipelines[0].parallelism + self.step
        )
        return Decision(plan, f"turn {memory.turns}"), memory


class Forgetful:
    """Remembers something that cannot be stored."""

    name = "forgetful"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        return Decision(None, "nothing"), object()


def played(run_dir: Path, policy: Policy, seconds: float = 5, **options: Any) -> list[Tick]:
    engine = MemoryEngine()
    seen: list[Tick] = []
    options = {"guard": Guard(cooldown=20, settle=0, undo=0, horizon=math.inf), **options}
    run(
        flow(),
        engine=engine,
        policy=policy,
        seconds=seconds,
        run_dir=run_dir,
        drain=False,
        until=lambda tick: seen.append(tick) or False,  # type: ignore[func-returns-value]
        clock=fake_clock(engine),
        **options,
    )
    return list({one.at: one for one in seen}.values())


def resets(run_dir: Path) -> list[str]:
    return [one.event.text for one in events(run_dir) if one.event.kind == "policy reset"]


def test_policy_memory_and_cool_down_come_back(tmp_path: Path) -> None:
    first = played(tmp_path, Counting())
    changed = [one for one in first if one.transition is not None]
    assert len(changed) == 1  # then the cool-down of 20 s
    second = played(tmp_path, Counting(), seconds=25)
    assert next(one.decision.reason for one in second if one.decision) == f"turn {len(first) + 1}"
    again = [one.at for one in second if one.transition is not None]
    assert again[0] == pytest.approx(20 + changed[0].at - 5, abs=1.5)
    assert {veto.rule for veto in second[1].review.vetoes} == {"cool-down"}  # type: ignore[union-attr]
    assert resets(tmp_path) == []


def test_a_quiet_period_of_the_run_is_one_of_the_run_under_way(tmp_path: Path) -> None:
    played(tmp_path, Counting())
    free = Guard(cooldown=0, settle=0, undo=0, horizon=math.inf)
    guard = replace(free, quiet=(Quiet(0, 3),))
    second = played(tmp_path, Counting(), guard=guard)
    vetoes = {veto.reason for one in second if one.review for veto in one.review.vetoes}
    assert {why.partition(", ")[2] for why in vetoes} == {
        f"and nothing may change in {Quiet(0, 3)}"
    }
    assert next(one.at for one in second if one.transition is not None) >= 3


def test_another_policy_starts_afresh_and_says_so(tmp_path: Path) -> None:
    played(tmp_path, Counting())
    second = played(tmp_path, Counting(2))
    assert second[0].decision is not None
    assert second[0].decision.reason == "turn 1"
    assert [one.transition for one in second] == [None] * len(second)  # the cool-down holds
    assert resets(tmp_path) == [
        "counting starts afresh: the run before had policy counting, this one has counting:step=2"
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 99}, "was not written in version 1"),
        ({"now": "soon"}, "cannot be read"),
        ({"made": [{"at": 1.0}]}, "cannot be read"),
        ({"memory": {"policy": "counting", "memory": {"turns": "x"}}}, "does not fit this version"),
        ({"memory": {"policy": "counting", "memory": {"turns": 1, "version": 2}}}, "does not fit"),
    ],
)
def test_a_state_that_cannot_be_read_is_not_used_and_says_so(
    change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    played(tmp_path, Counting())
    data = {**loop_state(tmp_path), **change}
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("UPDATE loop_state SET data = ?", (json.dumps(data),))
    second = played(tmp_path, Counting())
    assert second[0].decision is not None
    assert second[0].decision.reason == "turn 1"
    (told,) = resets(tmp_path)
    assert why in told


def test_memory_that_cannot_be_stored_is_lost_and_the_next_run_says_so(tmp_path: Path) -> None:
    played(tmp_path, Forgetful())
    assert resets(tmp_path) == []
    played(tmp_path, Forgetful())
    (told,) = resets(tmp_path)
    assert told == "forgetful starts afresh: policy 'forgetful' does not store what it remembers"


def test_a_history_from_before_states_were_stored_is_resumed_without(tmp_path: Path) -> None:
    played(tmp_path, Counting())
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("DROP TABLE loop_state")
    second = played(tmp_path, Counting())
    assert second[0].decision is not None
    assert second[0].decision.reason == "turn 1"
    assert resets(tmp_path) == []


def test_the_last_snapshots_come_back_with_the_times_of_the_loop(tmp_path: Path) -> None:
    first = played(tmp_path, Counting())
    policy = Counting()
    state, _ = resume.load(tmp_path, policy, "counting", engine_at=100.0, keep=3)
    assert [one.at for one in state.recent] == [one.snapshot.at for one in first[-3:]]
    assert state.snapshot_offset == state.now - 100.0
    assert isinstance(state.recent[0], Snapshot)
