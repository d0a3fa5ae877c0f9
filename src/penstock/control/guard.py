"""The guard: reviews the decisions of a policy and says why one is not carried out.

Every rule is asked, so that a veto names everything against a change. A policy may write these
numbers into its decision, for the guard:

gain_rows      expected gain of the change, in rows per second that the sources take in
gain_seconds   expected gain of the change, in seconds of latency of every row
undo           1 if it takes back a change on purpose, because that one did not pay
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from penstock.control.blackout_periods import Quiet, clock_text
from penstock.control.past_changes import AppliedChange, PastChanges, is_light, kind_of
from penstock.dataflow import duration
from penstock.errors import InvalidInput, InvalidPlan
from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan import fusion, limits
from penstock.plan.change import Action, Change, ExecutorsChange, ParallelismChange, Regrouping
from penstock.plan.decision import GAIN_ROWS, GAIN_SECONDS, UNDO, Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.store.turn import Review, Veto

_MAX_AGE = 2
"""A measurement older than this many of its windows says nothing about the flow any more."""

_LISTED = 12
"""A reason lists at most so many pipelines or actions and gives the number of the others."""


@dataclass(frozen=True)
class Guard:
    """When a change may be made; all times in seconds.

    cooldown: least time between two changes; settle: how long to wait at most until the backlog
    of a change is worked off, unless it grows; undo: how long a change is not reversed; horizon:
    the time in which a change has to pay for itself; quiet: periods without changes. Admission
    and cadence take effect with the next batch and restart nothing, so they neither start a
    cool-down nor wait for one.
    """

    cooldown: float = 10.0
    settle: float = 30.0
    undo: float = 30.0
    horizon: float = 300.0
    quiet: tuple[Quiet, ...] = ()

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name != "quiet" and not value >= 0:
                raise InvalidInput(f"the guard's {one.name} is a time of 0 s or more, not {value}")

    @property
    def times(self) -> dict[str, float]:
        """The times of this guard by name, all but the quiet periods."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "quiet"}

    def review(self, decision: Decision, context: Context, past: PastChanges) -> Review:
        """Review a policy's decision: as it is, reduced to the budget, or with vetoes.

        If the plan in force exceeds the budget, it is reduced whatever the policy decided: that
        waits for no measurement and no cool-down, only for the end of a quiet period.
        """
        review = self._by_rules(decision, context, past)
        stays = review.decision.plan in (None, context.plan)
        if not stays or context.limits.exceeded(context.plan) is None:
            return review
        reduced = self._reduce_current(decision, context, past)
        return review if reduced.vetoes and review.vetoes else reduced

    def _reduce_current(self, decision: Decision, context: Context, past: PastChanges) -> Review:
        """The review with the plan in force, reduced to the budget."""
        found = _capped(replace(decision, plan=context.plan), context)
        if isinstance(found, Veto) or found.plan is None:
            return _review_of(decision, found)
        rules = {
            "quiet": self._quiet(context, past),
            "refused": self._refused(Change(context.plan, found.plan), context, past),
        }
        vetoes = [Veto(rule, reason) for rule, reason in rules.items() if reason is not None]
        return _forbidden(decision, *vetoes) if vetoes else _review_of(decision, found)

    def _by_rules(self, decision: Decision, context: Context, past: PastChanges) -> Review:
        plan = decision.plan
        if plan is None or plan == context.plan:
            return Review(decision, decision)
        broken = _bounds(plan, context)
        if broken is not None:
            return _forbidden(decision, Veto("bounds", broken))
        capped = _capped(decision, context)
        if isinstance(capped, Veto):
            return _forbidden(decision, capped)
        assert capped.plan is not None
        change = Change(context.plan, capped.plan)
        vetoes = tuple(self._vetoes(capped, change, context, past))
        return _forbidden(decision, *vetoes) if vetoes else _review_of(decision, capped)

    def permit(self, plan: Plan, context: Context) -> str | None:
        """Why a user cannot have a plan, or None; only bounds and budget count."""
        broken = _bounds(plan, context)
        before = context.plan
        if broken or (plan.slots <= before.slots and plan.executors <= before.executors):
            return broken
        return context.limits.exceeded(plan)

    def _vetoes(
        self, decision: Decision, change: Change, context: Context, past: PastChanges
    ) -> Iterator[Veto]:
        found = {
            "metrics": _unmeasured(context),
            "quiet": self._quiet(context, past),
            "cool-down": None if is_light(change) else self._cooling(context, past),
            "undo": None if decision.numbers.get(UNDO) else self._undoing(change, context, past),
            "refused": self._refused(change, context, past),
            "cost": self._cost(decision, change, context, past),
        }
        for rule, reason in found.items():
            if reason is not None:
                yield Veto(rule, reason)

    # --- the rules ------------------------------------------------------------------------------

    def _quiet(self, context: Context, past: PastChanges) -> str | None:
        for period in self.quiet:
            now = context.now - past.began  # of this run, if it is a resumed one
            if period.holds(now, past.time_of_day):
                at = duration.text(round(now, 1))
                if period.daily and past.time_of_day is not None:
                    at = clock_text(past.time_of_day)
                return f"it is {at}, and nothing may change in {period}"
        return None

    def _cooling(self, context: Context, past: PastChanges) -> str | None:
        last = next((m for m in reversed(past.made) if not is_light(m.change)), None)
        if last is None:
            return None
        since = context.now - last.at
        if since < self.cooldown:
            return f"{since:.1f} s since the last change < {duration.text(self.cooldown)}"
        waits = since < self.settle and not last.transition.settled
        if waits and not _backlog_grows(context, last.at):
            return (
                f"the change {since:.1f} s ago has not settled, its backlog is not worked off; "
                f"that is waited for up to {duration.text(self.settle)}"
            )
        return None

    def _undoing(self, change: Change, context: Context, past: PastChanges) -> str | None:
        for made in reversed(past.made):
            since = context.now - made.at
            if since >= self.undo:
                break
            reversed_ = [*_reversed_actions(change, made)]
            if reversed_:
                return (
                    f"it turns back what was changed {since:.1f} s < {duration.text(self.undo)} "
                    f"ago: {_few(reversed_)}"
                )
        return None

    def _refused(self, change: Change, context: Context, past: PastChanges) -> str | None:
        attempt = past.refused
        if attempt is None or attempt.plan != change.after:
            return None
        since = context.now - attempt.at
        if since >= self.undo:
            return None
        why = " ".join(attempt.why.split())
        again = duration.text(self.undo)
        return f"the engine refused this plan {since:.1f} s < {again} ago: {why}"

    def _cost(
        self, decision: Decision, change: Change, context: Context, past: PastChanges
    ) -> str | None:
        """Compare the rows held up with the rows gained, or the waiting caused with that saved.

        A row that arrives in an interruption of t seconds waits t/2 on average, and again as long
        while the backlog is worked off: rate x t x t row-seconds in all. Every row within the
        horizon saves the gain: rate x horizon x gain. The rate cancels out.
        """
        if math.isinf(self.horizon):
            return None  # any gain pays in the end
        held, measured = past.expected_cost(change)
        basis = f"mean of {measured} in this run" if measured else "not measured yet, assumed"
        what = f"a change of this kind ({kind_of(change)}) holds output for {held:.2f} s ({basis})"
        over = duration.text(self.horizon)
        rows, seconds = (decision.numbers.get(name) for name in (GAIN_ROWS, GAIN_SECONDS))
        reasons = []
        if rows is not None and context.latest is not None:
            rate, gain = context.latest.throughput, rows * self.horizon
            if rate is not None and held * rate <= gain:
                return None
            lost = "throughput is not measured, so nobody knows whether that is"
            if rate is not None:
                lost = f"{held * rate:,.0f} rows at {rate:,.0f}/s,"
            reasons.append(
                f"{what}: {lost} more than the {gain:,.0f} that {rows:,.3g} rows/s gain in {over}"
            )
        if seconds is not None:
            cost, gain = held * held, seconds * self.horizon
            if cost <= gain:
                return None
            reasons.append(
                f"{what}: {cost:,.3g} s of waiting for each row per second, more than the "
                f"{gain:,.3g} s that {seconds:,.3g} s a row save in {over}"
            )
        return "; ".join(reasons) or None


def _few(found: Sequence[object], between: str = "; ") -> str:
    """The first few items, and the number of the others."""
    more = [f"{len(found) - _LISTED} more"] if len(found) > _LISTED else []
    return between.join([*map(str, found[:_LISTED]), *more])


def _bounds(plan: Plan, context: Context) -> str | None:
    try:
        fusion.check(plan, context.graph)
    except InvalidPlan as error:
        return str(error)
    return None


def _capped(decision: Decision, context: Context) -> Decision | Veto:
    """The decision with its plan reduced to the budget, or a veto if that is impossible."""
    plan = decision.plan
    assert plan is not None
    excess = context.limits.exceeded(plan)
    if excess is None:
        return decision
    nearest = limits.within(context.limits, plan, context.plan, context.graph)
    if nearest is None:
        return Veto("budget", f"{excess}, and its pipelines can do with no fewer")
    if nearest == context.plan:
        return Veto("budget", f"{excess}, which the plan in force uses up")
    cut = _few(Change(plan, nearest).actions)
    reason = f"{decision.reason}; cut to the budget ({excess}): {cut}"
    return replace(decision, plan=nearest, reason=reason)


def _review_of(wanted: Decision, found: Decision | Veto) -> Review:
    if isinstance(found, Veto):
        return _forbidden(wanted, found)
    return Review(found, wanted, capped=None if found == wanted else found.reason)


def _forbidden(wanted: Decision, *vetoes: Veto) -> Review:
    return Review(replace(wanted, plan=None), wanted, vetoes)


def _unmeasured(context: Context) -> str | None:
    latest = context.latest
    if latest is None:
        return "nothing has been measured yet"
    window = duration.text(latest.window)
    old = context.now - latest.at
    if old > _MAX_AGE * latest.window + 1e-6:
        return f"the last snapshot is {old:.1f} s old, more than {_MAX_AGE} windows of {window}"
    if not latest.settled:
        return f"the window of {window} still holds a change or its first batches"
    without = [
        pipeline.name
        for pipeline in context.plan.pipelines
        if not _measured(latest.pipelines.get(pipeline.name))
    ]
    if without:
        return f"what {_few(without, ', ')} does was not measured in the window of {window}"
    return None


def _measured(metrics: PipelineMetrics | None) -> bool:
    """True if the rate of a pipeline is known, or that it has nothing to do."""
    return metrics is not None and (metrics.rate_in is not None or derived.idle(metrics))


def _backlog_grows(context: Context, since: float) -> bool:
    """True if more rows wait now than just after a change: it was not enough."""
    totals = [
        sum(p.backlog_rows or 0 for p in snapshot.pipelines.values())
        for snapshot in context.snapshots
        if snapshot.at >= since and snapshot.settled
    ]
    return len(totals) > 1 and totals[-1] > totals[0]


def _reversed_actions(change: Change, made: AppliedChange) -> Iterator[Action]:
    """Actions of an earlier change that this change would reverse.

    Instances or executors that were removed may be added again at once, because rows wait for
    them. That they are not removed again soon is enough to keep a plan from oscillating.
    """
    fewer = {
        a.pipeline
        for a in change.actions
        if isinstance(a, ParallelismChange) and a.after < a.before
    }
    fewer_executors = any(
        isinstance(a, ExecutorsChange) and a.after < a.before for a in change.actions
    )
    formed = {group for a in change.actions if isinstance(a, Regrouping) for group in a.after}
    for then in made.change.actions:
        match then:
            case ParallelismChange():
                back = then.after > then.before and then.pipeline in fewer
            case ExecutorsChange():
                back = then.after > then.before and fewer_executors
            case Regrouping():
                back = not formed.isdisjoint(then.before)
            case _:
                back = False
        if back:
            yield then
