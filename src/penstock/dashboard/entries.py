"""The decisions of a run, as they stand on its time line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.store.history import RecordedTransition

Entry = dict[str, Any]

KEPT = "kept"
"""A decision to leave everything as it is, by far the most of them."""


def entry(decision: Mapping[str, Any], change: RecordedTransition | None = None) -> Entry:
    """A decision and what became of it.

    kind: changed, refused, failed (the policy), vetoed, advised or kept; `turn` to `last`: the
    turns in which it was made.
    """
    kind, title = _outcome(decision, change)
    return {
        "turn": decision["turn"],
        "last": decision["turn"],
        "times": 1,
        "time": decision["time"],
        "at": decision["at"],
        "kind": kind,
        "title": title,
        "reason": decision["reason"] or "",
        "numbers": decision["numbers"] or {},
        "mode": decision["mode"],
        "vetoes": decision["vetoes"] or [],
        "change": None if change is None else change.transition.to_json(),
    }


def grouped(
    decisions: Iterable[Mapping[str, Any]],
    changes: Mapping[int, RecordedTransition],
    before: Entry | None,
) -> list[Entry]:
    """Decisions that say the same one after the other as one; the first may go on with `before`."""
    found: list[Entry] = [] if before is None else [dict(before)]
    for decision in decisions:
        one = entry(decision, changes.get(decision["turn"]))
        if found and one["kind"] != "changed" and _same(found[-1]) == _same(one):
            times = found[-1]["times"] + 1
            found[-1] = {**one, "turn": found[-1]["turn"], "at": found[-1]["at"], "times": times}
        else:
            found.append(one)
    return found


def _outcome(decision: Mapping[str, Any], change: RecordedTransition | None) -> tuple[str, str]:
    if change is not None:
        return "changed", "; ".join(change.transition.changes) or "no change"
    if decision["refused"]:
        return "refused", decision["refused"]
    if decision["error"]:
        return "failed", decision["error"]
    if decision["vetoes"]:
        rules = ", ".join(str(veto["rule"]) for veto in decision["vetoes"])
        return "vetoed", f"held back by {rules}"
    if decision["mode"] == "advise" and decision["plan"] is not None:
        return "advised", "would change the plan"
    return KEPT, "left as it is"


def _same(one: Entry) -> object:
    """What makes two decisions the same: all but the numbers in their words."""
    words = re.sub(r"[\d.,]+(e-?\d+)?", "#", f"{one['title']}|{one['reason']}")
    rules = tuple(veto["rule"] for veto in one["vetoes"])
    return one["kind"], one["mode"], rules, words
