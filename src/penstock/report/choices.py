"""The decisions of a run, with what became of each; the same again and again is one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.store.history import RecordedTransition


@dataclass(frozen=True)
class Choice:
    """A decision, `times` made one after the other with other numbers in it.

    kind: changed, vetoed, refused, error, would change (it was only to advise), or kept.
    """

    x: float
    until: float
    times: int
    kind: str
    reason: str
    numbers: Mapping[str, float]
    against: str = ""


def choices(
    told: Iterable[Mapping[str, Any]],
    made: Iterable[RecordedTransition],
    places: Mapping[int, float],
) -> tuple[Choice, ...]:
    """The decisions in order; those that say the same one after the other are one."""
    changed = {one.turn for one in made}
    found = []
    for one in told:
        kind, against = _outcome(one, one["turn"] in changed)
        x = places[one["turn"]]
        found.append(Choice(x, x, 1, kind, one["reason"] or "", one["numbers"] or {}, against))
    return merged(found)


def merged(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    """Those that say the same one after the other as one, with the words of the last."""
    found: list[Choice] = []
    for one in choices:
        before = found[-1] if found else None
        if before is not None and one.kind != "changed" and _same(before) == _same(one):
            found[-1] = replace(one, x=before.x, times=before.times + one.times)
        else:
            found.append(one)
    return tuple(found)


def _outcome(one: Mapping[str, Any], changed: bool) -> tuple[str, str]:
    if changed:
        return "changed", ""
    if one["refused"]:
        return "refused", str(one["refused"])
    if one["error"]:
        return "error", str(one["error"])
    if one["vetoes"]:
        return "vetoed", "; ".join(f"{v['rule']}: {v['reason']}" for v in one["vetoes"])
    if one["mode"] == "advise" and one["plan"] is not None:
        return "would change", ""
    return "kept", ""


def _same(one: Choice) -> object:
    """What makes two decisions the same: all but the numbers in their words."""
    return one.kind, *(re.sub(r"[\d.,]+(e-?\d+)?", "#", t) for t in (one.reason, one.against))
