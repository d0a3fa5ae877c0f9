"""Notices of a turn besides its metrics and its plan change, without repeats."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.plan.change import Change
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.plan.request import Mode
from penstock.store.timeline import DECIDED
from penstock.store.turn import Tick


class Notices:
    """Yields each notice once.

    A policy may request the same change every second. A veto is repeated only if another plan is
    requested, if another rule vetoes it, or after a change.
    """

    def __init__(self) -> None:
        self._errors: set[str] = set()
        self._told: object = None

    def of(self, tick: Tick) -> Iterator[tuple[str, str]]:
        """Yield kind and text: refused, error, policy, vetoed, or the kind of an event."""
        if tick.transition is not None:
            self._told = None
        if tick.refused is not None:
            yield "refused", " ".join(tick.refused.split())
        if tick.error is not None and self._first(tick.error):
            yield "error", tick.error
        if tick.request is not None and tick.request.mode is not None and tick.refused is None:
            yield "policy", tick.request.mode.value
        yield from self._reviewed(tick)
        for event in tick.events:
            if event.kind not in DECIDED:
                where = f"{event.pipeline}: " if event.pipeline else ""
                yield event.kind, where + event.text

    def _first(self, error: str) -> bool:
        """True if an error is new; errors that differ only in numbers count as the same."""
        error = re.sub(r"\d+", "#", error)
        known = error in self._errors
        self._errors.add(error)
        return not known

    def _reviewed(self, tick: Tick) -> Iterator[tuple[str, str]]:
        review = tick.review
        if review is None:
            return
        if review.vetoes:
            rules = tuple(veto.rule for veto in review.vetoes)
            if self._new(rules, review.wanted.plan):
                against = "; ".join(map(str, review.vetoes))
                yield "vetoed", f"{_wanted(tick, review.wanted)} [{against}]"
            return
        plan = review.decision.plan
        if tick.mode is Mode.ADVISE and plan not in (None, tick.plan) and self._new((), plan):
            yield "would change", _wanted(tick, review.decision)

    def _new(self, rules: tuple[str, ...], plan: Plan | None) -> bool:
        before, self._told = self._told, (rules, plan)
        return before != self._told


def _wanted(tick: Tick, decision: Decision) -> str:
    if decision.plan is None:
        return decision.reason
    return f"{Change(tick.plan, decision.plan)}: {decision.reason}"
