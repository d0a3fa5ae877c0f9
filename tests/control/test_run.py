from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.app import run
from penstock.control.summary import EventSummary
from penstock.dataflow.connectors import Discard, Files
from penstock.dataflow.flow import Dataflow
from penstock.errors import (
    FlowFailed,
    InvalidDataflow,
    InvalidInput,
    InvalidPlan,
    RunDirectoryError,
)
from penstock.metrics.events import Event, EventKind
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context
from penstock.store.history import decisions, snapshots, transitions
from penstock.testing import MemoryEngine, fake_clock

from .doubles import FailingEngine, StuckEngine, TellingEngine, Watcher, flow


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def contents(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_ends_after_its_time_and_is_summed_up() -> None:
    engine, view = MemoryEngine(), Watcher()
    summary = run(flow(), engine=engine, seconds="30s", view=view, clock=fake_clock(engine))
    assert summary.seconds == pytest.approx(30, abs=0.2)
    assert summary.rows_ingested == summary.rows_delivered == pytest.approx(30_000, rel=0.01)
    assert summary.throughput_mean == pytest.approx(1000, rel=0.01)
    assert summary.throughput_last == pytest.approx(1000)
    assert summary.slot_seconds == pytest.approx(30, abs=0.2)
    assert (summary.exact, summary.interrupted) == (None, False)
    assert view.phases == ["starting", "running", "draining", "verifying"]
    assert view.closed == 1


def test_the_json_has_exactly_these_names() -> None:
    engine = MemoryEngine()
    summary = run(flow(), engine=engine, seconds=3, clock=fake_clock(engine))
    data = summary.to_json()
    assert list(data) == [
        "flow",
        "engine",
        "policy",
        "seconds",
        "rows_offered",
        "rows_ingested",
        "rows_delivered",
        "rows_dead",
        "rows_late",
        "dead_letters",
        "rows_repeated",
        "throughput",
        "latency",
        "operators",
        "slot_seconds",
        "plan",
        "transitions",
        "changes_left",
        "events",
        "delivery",
        "exact",
        "run_dir",
        "interrupted",
    ]
    assert list(data["throughput"]) == ["mean", "last"]
    assert data["latency"] == {
        "numbers->double": {
            "bound_ms": 1000.0,
            "mean_ms": None,
            "p50_ms": None,
            "p95_ms": None,
            "p99_ms": None,
            "met": None,
        }
    }
    assert json.loads((Path(summary.run_dir) / "summary.json").read_text()) == data


def test_the_summary_has_the_events_of_the_run_but_not_its_start_and_end() -> None:
    lost = Event(2.0, EventKind.EXECUTOR_LOST, "executor 3")
    late = Event(5.5, EventKind.RECOVERED, "pipeline numbers runs again", "numbers")

    class Eventful(MemoryEngine):
        def stop(self, drain: bool = True) -> None:
            super().stop(drain)
            waiting.append(late)

        def take_events(self) -> tuple[Event, ...]:
            taken, waiting[:] = tuple(waiting), []
            return taken

    waiting = [lost]
    engine = Eventful()
    summary = run(flow(), engine=engine, seconds=5, clock=fake_clock(engine))
    assert summary.events == EventSummary(2, (lost, late))


def test_the_run_directory_is_named_after_the_flow_and_never_shared() -> None:
    made = []
    for _ in range(2):
        engine = MemoryEngine()
        made.append(run(flow(), engine=engine, seconds=1, clock=fake_clock(engine)).run_dir)
    assert made[0].startswith("runs/numbers-20")
    assert made[1] == f"{made[0]}-2"
    assert [s.at for s in snapshots(Path(made[0]))] != []


def test_a_run_is_continued_in_its_directory(tmp_path: Path) -> None:
    for rows in (2000, 4000):
        engine = MemoryEngine()
        summary = run(flow(), engine=engine, seconds=2, run_dir="mine", clock=fake_clock(engine))
        assert summary.rows_ingested == pytest.approx(rows, rel=0.1)
        assert summary.throughput_mean == pytest.approx(1000, rel=0.1)
    assert len(list(decisions(Path("mine")))) == 2


def test_a_directory_of_another_flow_is_refused_and_left_alone() -> None:
    first = MemoryEngine()
    run(flow("one"), engine=first, seconds=1, run_dir="mine", clock=fake_clock(first))
    before = contents(Path("mine"))
    with pytest.raises(RunDirectoryError, match="belongs to"):
        run(flow("two"), engine=MemoryEngine(), seconds=1, run_dir="mine")
    assert contents(Path("mine")) == before


def test_a_file_is_no_run_directory() -> None:
    Path("mine").write_text("")
    with pytest.raises(RunDirectoryError, match="'mine' is a file"):
        run(flow(), engine=MemoryEngine(), seconds=1, run_dir="mine")


def test_a_generator_with_a_limit_ends_the_run() -> None:
    engine = MemoryEngine()
    summary = run(flow(limit=5000), engine=engine, clock=fake_clock(engine))
    assert summary.seconds == pytest.approx(5, abs=1.1)


@pytest.mark.parametrize("drain", [True, False])
def test_what_has_come_is_worked_off_in_the_end_unless_it_shall_be_left(drain: bool) -> None:
    engine, view = MemoryEngine(costs={"double": 0.01}), Watcher()
    summary = run(
        flow(), engine=engine, seconds=10, drain=drain, view=view, clock=fake_clock(engine)
    )
    assert engine.observe().drained is drain
    assert summary.exact is None
    assert view.phases[2:] == ["draining" if drain else "stopping", "verifying"]


def test_the_first_ctrl_c_drains_and_finishes() -> None:
    engine, before = MemoryEngine(), signal.getsignal(signal.SIGINT)
    clock = fake_clock(engine, {4.0: press})
    summary = run(flow(), engine=engine, seconds=60, clock=clock)
    assert summary.interrupted
    assert summary.seconds == pytest.approx(4, abs=0.3)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_ctrl_c_stops_at_once() -> None:
    engine, view = StuckEngine(), Watcher()
    clock = fake_clock(engine, {4.0: press})
    with pytest.raises(KeyboardInterrupt, match="what was in flight is kept in runs/numbers-"):
        run(flow(), engine=engine, seconds=60, view=view, clock=clock)
    assert engine.calls == [True, False]
    assert view.phases[-1] == "stopping"
    assert view.closed == 1
    assert not list(Path("runs").glob("*/summary.json"))


def test_a_flow_that_fails_is_stopped_and_says_why() -> None:
    engine, view = FailingEngine(), Watcher()
    with pytest.raises(FlowFailed, match=r"operator 'double' \(flow.py:7\) failed: boom"):
        run(flow(), engine=engine, seconds=60, view=view, clock=fake_clock(engine))
    assert engine.stopped is False
    assert view.closed == 1


@pytest.mark.parametrize(("found", "exact"), [([1, 2, 3], True), ([1, 2, 4], False)])
def test_sinks_are_compared_with_what_is_expected(found: list[int], exact: bool) -> None:
    engine = TellingEngine({"numbers": 3}, pa.table({"n": found}))
    made = flow()
    made.expect("out", lambda inputs: [(1,), (2,), (3,)])
    summary = run(made, engine=engine, seconds=1, clock=fake_clock(engine))
    assert summary.exact is exact
    verdict = json.loads((Path(summary.run_dir) / "exactness.json").read_text())
    assert verdict["exact"] is exact
    assert bool(summary.exact_reason) is not exact


def test_what_is_wrong_with_the_arguments_is_said_before_anything_starts() -> None:
    engine = MemoryEngine()
    with pytest.raises(InvalidInput, match="unknown policy 'statik', did you mean 'static'"):
        run(flow(), engine=engine, policy="statik")
    with pytest.raises(InvalidInput, match="cannot read the duration 'a while'"):
        run(flow(), engine=engine, seconds="a while")
    with pytest.raises(InvalidInput, match="longer than nothing"):
        run(flow(), engine=engine, seconds=0)
    with pytest.raises(InvalidInput, match="often"):
        run(flow(), engine=engine, load="often")
    with pytest.raises(InvalidPlan, match="in no pipeline"):
        run(flow(), engine=engine, plan=Plan((Pipeline(("numbers",)),)))
    with pytest.raises(InvalidDataflow):
        run(Dataflow("empty"), engine=engine)
    assert not Path("runs").exists()


def test_a_load_needs_a_generator() -> None:
    made = Dataflow("files")
    made.source("lines", Files("in", "value string")).sink("out", Discard())
    with pytest.raises(InvalidInput, match="dataflow 'files' has no generator"):
        run(made, engine=MemoryEngine(), load="5/s")


def test_what_a_change_cost_is_put_in_when_it_is_known() -> None:
    class Watching(MemoryEngine):
        made: Transition | None = None

        def apply(self, plan: Plan, reason: str = "") -> Transition:
            self.made = super().apply(plan, reason)
            return replace(self.made, settled=False)

        def transitions(self) -> tuple[Transition, ...]:
            return () if self.made is None else (replace(self.made, interruption=0.7),)

    engine = Watching()
    run(
        flow(), engine=engine, seconds=6, run_dir="mine", changes=["2s:double=3"],
        clock=fake_clock(engine),
    )  # fmt: skip
    (changed,) = transitions(Path("mine"))
    assert (changed.transition.interruption, changed.transition.settled) == (0.7, True)


def test_a_turn_can_end_a_run_by_what_the_policy_remembers() -> None:
    class Counting:
        name = "counting"

        def decide(self, context: Context, memory: int | None) -> tuple[Decision, int]:
            return Decision(None, "counts"), (memory or 0) + 1

    engine, view = MemoryEngine(), Watcher()
    summary = run(
        flow(),
        policy=Counting(),
        engine=engine,
        seconds=60,
        until=lambda tick: tick.memory == 7,
        view=view,
        clock=fake_clock(engine),
    )
    assert not summary.interrupted
    assert [s.tick.memory for s in view.seen if s.phase == "running" and s.tick] == [*range(1, 8)]
    assert view.phases == ["starting", "running", "draining", "verifying"]
