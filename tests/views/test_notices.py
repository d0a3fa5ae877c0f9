"""Notices: vetoes, refusals, failures and events, each told once, in every live view."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from penstock.metrics.events import Event, EventKind
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.request import Mode
from penstock.store.turn import Review, Tick, Veto
from penstock.views.live import LiveView
from penstock.views.notices import Notices
from penstock.views.plain_lines import PlainView, ProgressView

from . import statuses

WIDER = Plan((Pipeline(("tweets", "parse", "split"), 2), Pipeline(("count", "counts"), 8)))
RESTART = Event(10.0, EventKind.RESTART, "task failed, attempt 2", "count")
EVENTS = (
    RESTART,
    Event(10.0, EventKind.EXECUTOR_ADDED, "executor 3"),
    Event(10.0, EventKind.REFUSED, "told by the refusal itself"),
)


def tick(**more: object) -> Tick:
    found = statuses.status(10.0).tick
    assert found is not None
    return replace(found, **more)  # type: ignore[arg-type]


def vetoed(plan: Plan = WIDER, rule: str = "cool-down") -> Tick:
    wanted = Decision(plan, "latency 4 s")
    review = Review(Decision(None, "vetoed"), wanted, (Veto(rule, "3 s left"),))
    return tick(review=review)


def test_a_veto_names_the_change_the_reason_and_the_rule() -> None:
    assert [*Notices().of(vetoed())] == [
        ("vetoed", "count: parallelism 4 -> 8: latency 4 s [cool-down: 3 s left]")
    ]


def test_a_veto_is_told_again_only_if_something_is_new() -> None:
    seen = Notices()
    assert [*seen.of(vetoed())]
    assert not [*seen.of(vetoed())]
    assert [*seen.of(vetoed(rule="budget"))]
    assert [*seen.of(vetoed(plan=statuses.PLAN, rule="budget"))]
    assert not [*seen.of(vetoed(plan=statuses.PLAN, rule="budget"))]
    assert not [*seen.of(tick(transition=statuses.TRANSITION))]
    assert [*seen.of(vetoed(plan=statuses.PLAN, rule="budget"))]


def test_advice_is_a_notice_only_in_advise_mode_and_only_for_another_plan() -> None:
    advice = Decision(WIDER, "latency 4 s")
    review = Review(advice, advice)
    assert not [*Notices().of(tick(review=review, mode=Mode.ON))]
    assert [*Notices().of(tick(review=review, mode=Mode.ADVISE))] == [
        ("would change", "count: parallelism 4 -> 8: latency 4 s")
    ]
    same = Decision(statuses.PLAN, "as it is")
    assert not [*Notices().of(tick(review=Review(same, same), mode=Mode.ADVISE))]


def test_a_failure_of_the_policy_is_told_once_whatever_its_numbers() -> None:
    seen = Notices()
    assert [*seen.of(tick(error="division by 3"))] == [("error", "division by 3")]
    assert not [*seen.of(tick(error="division by 4"))]
    assert [*seen.of(tick(error="no such key"))]


def test_a_refusal_is_told_on_one_line() -> None:
    assert [*Notices().of(tick(refused="no\n  room"))] == [("refused", "no room")]


def test_events_name_their_pipeline_and_leave_out_what_a_decision_tells() -> None:
    assert [*Notices().of(tick(events=EVENTS))] == [
        ("restart", "count: task failed, attempt 2"),
        ("executor added", "executor 3"),
    ]


def test_every_view_shows_events() -> None:
    status = replace(statuses.status(10.0), tick=tick(events=EVENTS))
    for kind in (PlainView, ProgressView):
        out = io.StringIO()
        view = kind(out)
        view.show(status)
        assert "wordcount: restart: count: task failed, attempt 2" in out.getvalue()
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True)
    live = LiveView(console, clock=lambda: 0.0)
    live.show(status)
    with console.capture() as captured:
        console.print(live._draw())
    live.close()
    line = next(one for one in captured.get().splitlines() if "task failed" in one)
    assert "\x1b[31mrestart: " in line  # a problem is red
    added = next(one for one in captured.get().splitlines() if "executor 3" in one)
    assert "\x1b[33mexecutor added: " in added
