from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock import policies
from penstock.app import run
from penstock.control import run_input as given
from penstock.control.guard import Guard
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from penstock.predict.advice import advise, replay
from penstock.store import history, run_options
from penstock.store.history import dataflow, recorded_snapshots, transitions
from penstock.testing import MemoryEngine, fake_clock
from tests.policies import dags

from ..control.doubles import Watcher, flow


class Patient:
    """Wants one instance more at its third look since the last plan, and every time after."""

    name = "patient"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        plan, looks = memory or (None, 0)
        looks = looks + 1 if plan == context.plan else 1
        if looks < 3:
            return Decision(None, f"look {looks}"), (context.plan, looks)
        now = context.plan.pipelines[0].parallelism
        more = context.plan.with_pipeline("numbers", parallelism=now + 1)
        numbers = {"looks": looks, "congestion": float("inf")}
        return Decision(more, f"look {looks}", numbers), (context.plan, looks)


def played(run_dir: str, seconds: float = 8, **given: Any) -> None:
    engine = MemoryEngine()
    clock = fake_clock(engine)
    run(flow(), engine=engine, seconds=seconds, run_dir=run_dir, clock=clock, **given)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_recorded_run_is_played_to_another_policy() -> None:
    played("mine", seconds=9, changes=["5s:double=4"])
    home = Path("mine")
    found = [*replay(Patient(), dataflow(home), recorded_snapshots(home), Limits())]
    wanted = {round(a.at): str(a.change) for a in found if a.change is not None}
    assert wanted[3] == wanted[4] == "numbers: parallelism 1 -> 2"
    assert wanted[8] == "numbers: parallelism 4 -> 5"
    assert 6 not in wanted
    assert found[0].to_json()["reason"] == "look 1"
    one = found[-1].to_json()
    assert one["changes"] == ["numbers: parallelism 4 -> 5"]
    assert one["numbers"]["congestion"] is None


def test_nobody_is_asked_while_a_run_ends() -> None:
    played("mine")
    recorded = [one.snapshot.ending for one in recorded_snapshots(Path("mine"))]
    assert recorded[-1]
    assert not any(recorded[:-1])
    found = [*replay(Patient(), dataflow(Path("mine")), recorded_snapshots(Path("mine")), Limits())]
    assert len(found) == len(recorded) - 1


def test_what_is_played_twice_is_the_same_twice() -> None:
    played("mine")
    home = Path("mine")
    first, second = (
        [a.to_json() for a in replay(Patient(), dataflow(home), recorded_snapshots(home), Limits())]
        for _ in range(2)
    )
    assert first == second


def test_what_would_be_decided_in_a_run_is_what_it_advises() -> None:
    """A dry run and a play of its record agree, because a policy has nothing but its context."""
    played("mine", policy=Patient(), advise=True, guard=Guard(cooldown=0, settle=0, undo=0))
    home = Path("mine")
    advised = [(d["reason"], d["plan"]) for d in history.decisions(home)]
    replayed = [*replay(Patient(), dataflow(home), recorded_snapshots(home), Limits())]
    assert len(advised) >= 6
    assert advised == [
        (a.review.decision.reason, a.to_json()["plan"]) for a in replayed[: len(advised)]
    ]


def test_the_budget_is_kept_in_advice() -> None:
    played("mine")
    home = Path("mine")
    found = [*replay(Patient(), dataflow(home), recorded_snapshots(home), Limits(slots=1))]
    assert [v.rule for v in found[-1].review.vetoes] == ["budget"]
    assert found[-1].change is None


def test_every_run_of_a_directory_is_played_under_its_own_budget() -> None:
    home = Path("mine")
    played("mine", limits=Limits(slots=1))
    clock = fake_clock(engine := MemoryEngine())
    later = replace(clock, wall=lambda: clock.wall() + 100)
    run(flow(), engine=engine, seconds=8, run_dir=home, clock=later)

    def budget(one: history.RecordedSnapshot) -> Limits:
        return run_options.limits(home, one.time)

    found = [*replay(Patient(), dataflow(home), recorded_snapshots(home), budget)]
    rules = [[v.rule for v in one.review.vetoes] for one in found]
    assert rules[3] == ["budget"]
    assert ["budget"] not in rules[len(rules) // 2 :]
    assert run_options.limits(home, 0.0) == run_options.limits(Path("gone"), 1e10) == Limits()


def test_a_run_that_was_continued_begins_anew() -> None:
    from penstock.store.turn import Tick

    graph = flow().graph
    plan = Plan((Pipeline(("numbers", "double", "out")),))
    for _ in range(2):
        written = history.History(Path(), lambda: 0.0)
        for at in (1.0, 2.0, 3.0):
            measured = {"numbers": PipelineMetrics("numbers", 1, batches=1)}
            written.append(Tick(at, plan, Snapshot(at, 1.0, None, 0, 0, 0, measured)))
        written.close()
    found = [*replay(Patient(), graph, recorded_snapshots(Path()), Limits())]
    assert [a.review.decision.reason for a in found] == ["look 1", "look 2", "look 3"] * 2


# --- one case -----------------------------------------------------------------------------------

PLAN = Plan((Pipeline(("numbers", "double", "out")),))


def shots(*found: tuple[float, int]) -> tuple[Snapshot, ...]:
    """Snapshots at these times, with so many instances."""

    def recorded(instances: int) -> dict[str, PipelineMetrics]:
        return {"numbers": PipelineMetrics("numbers", instances, batches=1, rate_in=1.0)}

    return tuple(Snapshot(at, 1.0, None, 0, 0, 0, recorded(n)) for at, n in found)


def test_a_case_is_played_from_its_first_snapshot_to_its_last() -> None:
    seen_by: list[tuple[float, int]] = []

    class Looking(Patient):
        def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
            seen_by.append((context.now, len(context.snapshots)))
            return super().decide(context, memory)

    found = shots((1.0, 1), (2.0, 1), (3.0, 1))
    told = advise(Looking(), Context(flow().graph, PLAN, found, 3.5))
    assert seen_by == [(1.0, 1), (2.0, 2), (3.5, 3)]
    assert (told.at, str(told.change)) == (3.5, "numbers: parallelism 1 -> 2")
    assert told.to_json()["reason"] == "look 3"
    one = advise(Patient(), Context(flow().graph, PLAN, found[-1:], 3.5))
    none = advise(Patient(), Context(flow().graph, PLAN, (), 0.0))
    assert (one.review.decision.reason, none.review.decision.reason) == ("look 1", "look 1")


def test_what_was_measured_under_another_plan_is_no_turn_of_a_case() -> None:
    found = shots((1.0, 1), (2.0, 4), (3.0, 1), (4.0, 1))
    told = advise(Patient(), Context(flow().graph, PLAN, found, 4.0))
    assert told.to_json()["reason"] == "look 2"
    odd = advise(Patient(), Context(flow().graph, PLAN, shots((1.0, 1), (2.0, 4)), 2.0))
    assert odd.to_json()["reason"] == "look 2"


def test_a_case_and_a_play_of_the_same_turns_agree() -> None:
    played("mine")
    home = Path("mine")
    turns = [*recorded_snapshots(home)][:-1]  # the last look is of an instant
    recent = tuple(one.snapshot for one in turns)
    context = Context(dataflow(home), turns[-1].plan, recent, recent[-1].at)
    last = [*replay(Patient(), dataflow(home), turns, Limits())][-1]
    assert advise(Patient(), context).to_json()["plan"] == last.to_json()["plan"] is not None


@pytest.mark.parametrize("many", [29, 40, 119, 120])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ds2", "a 1 -> 2 instances: needs 2.00"),
        (
            "organic",
            "a 1 -> 2 instances: a is 100% busy, limit 80%; its only operator cannot be split",
        ),
        ("stepwise", "next round (start) with s=1, a=4, b=1: ratios of instances are a 4, b 1"),
    ],
)
def test_policies_that_need_many_windows_answer_a_case(name: str, reason: str, many: int) -> None:
    """Also long after they first knew: nothing of what they want is done in a case."""
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a",)})
    found = Topology(dag, dags.plan(dag))
    rates_now = rates.steady_state(found, {"s": 100.0}, {}, {"s": 1000.0, "a": 50.0, "b": 1000.0})
    one = dags.snapshot(found, rates_now)
    recent = tuple(replace(one, at=5.0 * at) for at in range(1, many + 1))
    told = advise(policies.get(name), Context(dag, found.plan, recent, recent[-1].at))
    assert told.review.decision.reason.startswith(reason)
    assert str(told.change).startswith("a: parallelism 1 -> ")


def test_a_policy_that_fails_says_how() -> None:
    class Broken:
        name = "broken"

        def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
            raise ValueError("boom")

    graph = flow().graph
    plan = Plan((Pipeline(("numbers", "double", "out")),))
    found = advise(Broken(), Context(graph, plan, (), 3.0))
    assert (found.error or "").startswith("policy 'broken' failed: ValueError: boom (test_advice")
    assert found.change is None


# --- a run with limits, guard and advice --------------------------------------------------------


class Greedy:
    name = "greedy"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        now = context.plan.pipelines[0].parallelism
        plan = context.plan.with_pipeline("numbers", parallelism=now + 1)
        return Decision(plan, "more is more"), memory


def decisions(run_dir: str = "mine") -> list[dict[str, Any]]:
    return [*history.decisions(Path(run_dir))]


def test_vetoes_are_in_the_history_with_what_was_wanted() -> None:
    played("mine", policy=Greedy(), limits=Limits(slots=2), seconds=16)
    made, cooling, used = decisions()[0], decisions()[1], decisions()[12]
    assert (made["vetoes"], made["wanted"], made["mode"]) == ([], None, "on")
    assert made["plan"]["pipelines"][0]["parallelism"] == 2
    assert [v["rule"] for v in cooling["vetoes"]] == ["budget"]
    assert cooling["plan"] is None
    assert cooling["wanted"]["pipelines"][0]["parallelism"] == 3
    assert used["vetoes"] == [
        {
            "rule": "budget",
            "reason": "3 instances, the budget is 2, which the plan in force uses up",
        }
    ]


def test_advice_is_recorded_as_advice() -> None:
    view = Watcher()
    played("mine", policy=Greedy(), advise=True, view=view)
    assert {d["mode"] for d in decisions()} == {"advise"}
    assert {d["plan"]["pipelines"][0]["parallelism"] for d in decisions()} == {2}
    assert not [*transitions(Path("mine"))]
    assert {s.policy for s in view.seen} == {"greedy (advise)"}


def test_a_quiet_time_of_the_day_is_kept() -> None:
    from penstock.control.blackout_periods import Quiet

    guard = Guard(quiet=(Quiet.parse("00:00..24:00"),))
    played("mine", policy=Greedy(), guard=guard)
    assert {v["rule"] for d in decisions() for v in d["vetoes"]} == {"quiet"}


def test_a_run_above_its_budget_does_not_start() -> None:
    plan = Plan((Pipeline(("numbers", "double", "out"), 4),))
    with pytest.raises(InvalidInput, match="the plan to start with is more than the budget: 4 in"):
        played("mine", plan=plan, limits=Limits(slots=3))
    assert not Path("mine").exists()


def test_a_budget_that_no_plan_can_keep_is_told_at_once() -> None:
    from penstock.dataflow.connectors import Discard, Generator
    from penstock.dataflow.flow import Dataflow

    wide = Dataflow("wide")
    source = wide.source("in", Generator(lambda rng, index, at: {}, "n bigint"))
    source.sink("out", Discard(), min_parallelism=3)
    with pytest.raises(
        InvalidInput, match="a budget of 2 slots is too small: 'out' runs with 3 instances or more"
    ):
        run(wide, engine=MemoryEngine(), limits=Limits(slots=2), run_dir="mine")
    given.check_budget(Limits(slots=3), wide.graph, None)
