"""What a view has to tell of a turn beside its figures and its change, each thing once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.plan.change import Change
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.plan.request import Mode
from penstock.store.turn import Tick


class News:
    """Remembers what it has told.

    A policy may want the same thing every second. It is told again only when something else is
    wanted, when another rule stands against it, or after a change.
    """

    def __init__(self) -> None:
        self._errors: set[str] = set()
        self._told: object = None

    def of(self, tick: Tick) -> Iterator[tuple[str, str]]:
        """What kind of news, and the news."""
        if tick.transition is not None:
            self._told = None
        if tick.refused is not None:
            yield "refused", " ".join(tick.refused.split())
        if tick.error is not None and self._first(tick.error):
            yield "error", tick.error
        if tick.request is not None and tick.request.mode is not None and tick.refused is None:
            yield "policy", tick.request.mode.value
        yield from self._reviewed(tick)

    def _first(self, error: str) -> bool:
        """Whether an error is new; with other numbers in it, it is the same one."""
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
