from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.control.guard import Guard
from penstock.control.loop import ControlSettings, control
from penstock.control.requests import decision_for
from penstock.errors import FlowFailed, Refused
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.plan.fusion import default_plan
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.plan.request import Mode, ScaleIn, ScaleOut, parse
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context
from penstock.policies.baselines.static import Static
from penstock.policies.es_stream.commit_interval import Interval, WithBackup
from penstock.policies.stela.policy import Stela
from penstock.store.turn import Tick, UserRequest
from penstock.testing import MemoryEngine

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


FREE = ControlSettings(guard=Guard(cooldown=0, settle=0, undo=0))
"""A policy may do what it likes, as often as it likes."""


def turns(
    engine: MemoryEngine,
    policy: Any,
    number: int,
    run_dir: Path,
    keep: int = 9,
    settings: ControlSettings = FREE,
    asked: Mapping[float, str] | None = None,
) -> list[Tick]:
    graph = flow().graph
    engine.start(graph, None, run_dir)
    requests = {at: UserRequest("asked", parse(text)) for at, text in (asked or {}).items()}
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
        settings=settings,
        requests=requests.get,
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


def test_a_plan_that_does_not_fit_is_vetoed_and_the_flow_goes_on(tmp_path: Path) -> None:
    class Impossible:
        name = "impossible"

        def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
            halved = context.plan.pipelines[0].operators[:1]
            return Decision(
                context.plan.with_pipeline("numbers", operators=halved), "for fun"
            ), memory

    ticks = turns(MemoryEngine(), Impossible(), 2, tmp_path)
    assert len(ticks) == 2
    assert [t.transition for t in ticks] == [None, None]
    review = ticks[0].review
    assert review is not None
    assert review.vetoes[0].rule == "bounds"
    assert "operator 'double' is in no pipeline; operator 'out' is in" in review.vetoes[0].reason
    assert review.decision.plan is None


def test_a_failed_flow_ends_the_loop(tmp_path: Path) -> None:
    with pytest.raises(FlowFailed, match="operator 'double'"):
        turns(FailingEngine(), Static(), 9, tmp_path)


# --- the guard in the loop ----------------------------------------------------------------------


def rules_of(tick: Tick) -> list[str]:
    return [] if tick.review is None else [veto.rule for veto in tick.review.vetoes]


def test_a_change_is_followed_by_a_cool_down(tmp_path: Path) -> None:
    policy = Doubling()
    ticks = turns(
        MemoryEngine(), policy, 12, tmp_path, settings=ControlSettings(guard=Guard(cooldown=10))
    )
    assert [t.at for t in ticks if t.transition is not None] == [1, 11]
    assert {tuple(rules_of(t)) for t in ticks[1:10]} == {("cool-down",)}
    assert [c.plan.slots for c in policy.contexts] == [1, *[2] * 10, 4]  # no vetoed plan is seen
    assert policy.memories[-1] == 11  # the policy was asked all the time


def test_what_the_engine_has_found_out_since_ends_the_waiting(tmp_path: Path) -> None:
    class Slow(MemoryEngine):
        """A change of it has settled when it is looked at the fourth time after it."""

        def __init__(self) -> None:
            super().__init__()
            self.made: list[Transition] = []
            self.looked = 0

        def apply(self, plan: Plan, reason: str = "") -> Transition:
            self.made.append(Transition(float(len(self.made)), ("x",), 0.0, 0.0))
            self.looked = 0
            super().apply(plan, reason)
            return self.made[-1]

        def transitions(self) -> tuple[Transition, ...]:
            self.looked += 1
            done = self.looked >= 4
            return tuple(Transition(t.at, t.changes, 0.0, 0.0, settled=done) for t in self.made)

    guard = Guard(cooldown=2, settle=30, undo=0)
    ticks = turns(Slow(), Doubling(), 6, tmp_path, settings=ControlSettings(guard=guard))
    assert [t.at for t in ticks if t.transition is not None] == [1, 5]
    assert "has not settled" in ticks[3].review.vetoes[0].reason  # type: ignore[union-attr]


def test_the_limits_reach_the_policy_and_bind_it(tmp_path: Path) -> None:
    policy, engine = Doubling(), MemoryEngine()
    settings = ControlSettings(Limits(slots=3), FREE.guard)
    ticks = turns(engine, policy, 4, tmp_path, settings=settings)
    assert policy.contexts[0].limits == Limits(slots=3)
    assert engine.plan.slots == 3
    assert [rules_of(t) for t in ticks] == [[], [], ["budget"], ["budget"]]
    assert ticks[1].transition is not None
    assert "cut to the budget (4 instances, the budget is 3)" in ticks[1].transition.reason


def test_a_plan_that_starts_above_the_budget_is_cut_whoever_decides(tmp_path: Path) -> None:
    class Generous(MemoryEngine):
        def start(self, graph: Any, plan: Any, run_dir: Path) -> None:
            super().start(graph, plan, run_dir)
            self.apply(self.plan.with_pipeline("numbers", parallelism=8))

    engine = Generous()
    ticks = turns(engine, Static(), 2, tmp_path, settings=ControlSettings(Limits(slots=2)))
    assert engine.plan.slots == 2
    assert [t.transition is not None for t in ticks] == [True, False]


def test_a_plan_that_was_refused_is_not_tried_again_at_once(tmp_path: Path) -> None:
    class Stubborn(MemoryEngine):
        tried = 0

        def apply(self, plan: Plan, reason: str = "") -> Transition:
            self.tried += 1
            raise Refused("not now")

    engine = Stubborn()
    ticks = turns(engine, Doubling(), 7, tmp_path, settings=ControlSettings(guard=Guard(undo=5)))
    assert engine.tried == 2
    assert [t.refused for t in ticks] == ["not now", *[None] * 4, "not now", None]
    assert rules_of(ticks[1]) == ["refused"]


# --- a policy that fails ------------------------------------------------------------------------


class Fragile:
    """Fails in its second and third turn, each time in another way."""

    name = "fragile"

    def __init__(self) -> None:
        self.memories: list[Any] = []

    def decide(self, context: Context, memory: Any) -> Any:
        self.memories.append(memory)
        if len(self.memories) == 2:
            raise KeyError("count")
        if len(self.memories) == 3:
            return "more", memory
        return Decision(None, "fine"), (memory or 0) + 1


def test_a_policy_that_fails_does_not_end_the_flow(tmp_path: Path) -> None:
    policy = Fragile()
    ticks = turns(MemoryEngine(), policy, 4, tmp_path)
    errors = [t.error for t in ticks]
    assert errors[0] is None
    assert errors[3] is None
    assert (errors[1] or "").startswith("policy 'fragile' failed: KeyError: 'count' (test_loop.py:")
    assert "decide returned str, not a Decision" in (errors[2] or "")
    assert policy.memories == [None, 1, 1, 1]  # it goes on from what it last remembered


# --- modes and requests -------------------------------------------------------------------------


def test_advice_is_given_and_not_taken(tmp_path: Path) -> None:
    engine = MemoryEngine()
    ticks = turns(engine, Doubling(), 3, tmp_path, settings=ControlSettings(mode=Mode.ADVISE))
    assert engine.plan.slots == 1
    assert [t.transition for t in ticks] == [None] * 3
    assert [t.decision.plan.slots for t in ticks if t.decision and t.decision.plan] == [2, 2, 2]
    assert {t.mode for t in ticks} == {Mode.ADVISE}


def test_a_policy_is_switched_off_and_on_again(tmp_path: Path) -> None:
    policy = Doubling()
    asked = {2.0: "policy off", 4.0: "policy advise, double=5", 6.0: "policy on"}
    engine = MemoryEngine()
    ticks = turns(engine, policy, 7, tmp_path, asked=asked)
    assert [c.now for c in policy.contexts] == [1, 5, 7]
    assert [t.plan.slots for t in ticks] == [1, 2, 2, 2, 5, 5, 5]
    assert engine.plan.slots == 10
    assert ticks[2].decision == Decision(None, "policy 'doubling' is off")


def test_a_switch_that_comes_with_what_is_refused_is_not_made(tmp_path: Path) -> None:
    policy = Doubling()
    turns(MemoryEngine(), policy, 3, tmp_path, asked={2.0: "policy off, dubble=5"})
    assert [c.now for c in policy.contexts] == [1, 3]


def test_a_person_waits_for_no_cool_down_but_keeps_bounds_and_budget(tmp_path: Path) -> None:
    engine = MemoryEngine()
    asked = {2.0: "double=3", 3.0: "double=1", 4.0: "double=9", 5.0: "double.ceiling=8"}
    ticks = turns(
        engine, Doubling(), 5, tmp_path, settings=ControlSettings(Limits(slots=4)), asked=asked
    )
    assert [t.plan.slots for t in ticks] == [1, 2, 3, 1, 1]
    assert ticks[3].refused == "9 instances, the budget is 4"
    assert "needs a stateful operator" in (ticks[4].refused or "")


def test_who_is_above_the_budget_may_still_ask_for_less(tmp_path: Path) -> None:
    asked = {1.0: "double=2, executors=2", 2.0: "executors=1", 3.0: "double.cadence=1s"}
    settings = ControlSettings(Limits(slots=1), mode=Mode.OFF)

    class Two(MemoryEngine):
        def start(self, graph: Any, plan: Any, run_dir: Path) -> None:
            super().start(graph, plan, run_dir)
            plan = Plan(self.plan.pipelines, 2)
            self.apply(plan.with_pipeline("numbers", parallelism=2))

    ticks = turns(Two(), Static(), 3, tmp_path, settings=settings, asked=asked)
    assert [t.refused for t in ticks] == [None, None, None]


OWN = Stela(congested=1.0, by="gain")


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (OWN, (1.0, "gain")),
        (WithBackup(OWN, Interval(0.1, 1.0)), (1.0, "gain")),
        (Static(), (Stela().congested, "etp")),
    ],
)
def test_scaling_on_demand_is_by_the_settings_of_the_run_s_own_stela(
    policy: Any, settings: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, ...]] = []

    def decide(context: Context, executors: int, *given: Any) -> Decision:
        seen.append((executors, *given))
        return Decision(context.plan, "")

    monkeypatch.setattr("penstock.policies.stela.policy.scale_out", decide)
    monkeypatch.setattr("penstock.policies.stela.policy.scale_in", decide)
    context = Context(flow().graph, default_plan(flow().graph, 1), (), 1.0)
    for request in (ScaleOut(1), ScaleIn(2)):
        decision_for(UserRequest("asked", request), context, policy)
    assert seen == [(1, *settings), (2, *settings[:1])]


def test_scaling_on_demand_is_decided_from_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Context, int]] = []

    def scale_out(self: Stela, context: Context, executors: int) -> Decision:
        seen.append((context, executors))
        plan = Plan(context.plan.pipelines, context.plan.executors + executors)
        plan = plan.with_pipeline("numbers", parallelism=1 + executors)
        return Decision(plan, "numbers is congested 1.5 > 1.2", {"congestion": 1.5})

    def scale_in(self: Stela, context: Context, executors: int) -> Decision:
        raise ZeroDivisionError("no executors")

    monkeypatch.setattr(Stela, "scale_out", scale_out)
    monkeypatch.setattr(Stela, "scale_in", scale_in)
    engine = MemoryEngine()
    asked = {2.0: "scale-out 2", 3.0: "scale-in 1", 4.0: "executors=1, scale-out 1"}
    ticks = turns(engine, Static(), 4, tmp_path, asked=asked)
    assert seen[0][1] == 2
    assert isinstance(seen[0][0].latest, Snapshot)
    assert ticks[1].decision is not None
    assert ticks[1].decision.reason == "asked: scale-out 2; numbers is congested 1.5 > 1.2"
    assert ticks[1].decision.numbers == {"congestion": 1.5}
    assert (ticks[2].plan.executors, ticks[2].plan.slots) == (3, 3)
    why = ticks[2].refused or ""
    assert why.startswith("'scale-in 1' cannot be decided: ZeroDivisionError: no executors")
    assert seen[1][0].plan.executors == 1  # each part finds the plan of the one before
    assert engine.plan.executors == 2
