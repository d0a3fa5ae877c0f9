from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from penstock.control.status import Status
from penstock.plan.decision import Decision
from penstock.plan.transition import Transition
from penstock.views.progress import ProgressView

from . import statuses


def turn(second: float, reason: str, **given: Any) -> Status:
    seen = statuses.status(second)
    assert seen.tick is not None
    tick = replace(seen.tick, decision=Decision(None, reason), **given)
    return replace(seen, tick=tick)


def lines(*seen: Status) -> list[str]:
    out = io.StringIO()
    view = ProgressView(out)
    for status in seen:
        view.show(status)
    view.close()
    return [line.partition(" (in ")[0] for line in out.getvalue().splitlines()]


def test_a_sentence_with_other_numbers_is_told_now_and_then() -> None:
    said = lines(
        statuses.first(),
        *(turn(float(at), f"round 1 (start): {at} of 50 seen") for at in range(1, 45)),
    )
    assert said == [
        "[ 0:00] wordcount: starting",
        "[ 0:01] wordcount: round 1 (start): 1 of 50 seen",
        "[ 0:21] wordcount: round 1 (start): 21 of 50 seen",
        "[ 0:41] wordcount: round 1 (start): 41 of 50 seen",
    ]


def test_another_sentence_a_change_and_a_refusal_are_told_at_once() -> None:
    done = Transition(3.0, ("a: parallelism 1 -> 2",), 0.1, 0.0, "more")
    said = lines(
        turn(1.0, "round 1 (start): 1 of 9 seen"),
        turn(2.0, "throughput 5/s; throttle: a=1"),
        turn(3.0, "throughput 6/s; throttle: a=2", transition=done),
        turn(4.0, "asks again", refused="no\nroom"),
        statuses.status(5.0, "draining"),
    )
    assert said == [
        "[ 0:01] wordcount: round 1 (start): 1 of 9 seen",
        "[ 0:02] wordcount: throughput 5/s; throttle: a=1",
        "[ 0:03] wordcount: throughput 6/s; throttle: a=2",
        "[ 0:04] wordcount: refused: no room",
        "[ 0:04] wordcount: asks again",
        "[ 0:05] wordcount: draining",
    ]
