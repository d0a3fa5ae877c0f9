"""The guard: a policy proposes, the guard disposes, and says why.

Each rule looks at one thing and either is silent or gives a reason. All rules are asked, so that
a veto tells everything that stands against a change. What a policy may write into the numbers of
its decision for the guard:

gain_rows      what the change is expected to gain, in rows per second that are taken in
gain_seconds   what it is expected to take from the latency of every row
undo           1 if it takes back a change on purpose, because that was measured and did not pay
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from penstock.control.past_changes import Made, Past, kind_of, light
from penstock.control.quiet_periods import Quiet, clock_text
from penstock.dataflow import duration
from penstock.errors import InvalidInput, InvalidPlan
from penstock.metrics import derived
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan import fusion, limits
from penstock.plan.change import Action, Change, ExecutorsChange, ParallelismChange, Regrouping
from penstock.plan.decision import GAIN_ROWS, GAIN_SECONDS, UNDO, Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context

_FRESH = 2
"""Windows after whose time a measurement says nothing of the flow any more."""

_NAMED = 12
"""Of what stands against a change so many are named, and the rest is counted."""


@dataclass(frozen=True)
class Veto:
    """A rule that stands against a change, and why."""

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


@dataclass(frozen=True)
class Reviewed:
    """The decision that is in force, what was wanted, and what came between.

    With a veto the decision has no plan. `capped` says how a plan was cut to its budget.
    """

    decision: Decision
    wanted: Decision
    vetoes: tuple[Veto, ...] = ()
    capped: str | None = None


@dataclass(frozen=True)
class Guard:
    """When a change may be made; all times in seconds.

    cooldown: after a change, until the next one; settle: how long to wait at most for the
    backlog of a change to be worked off, as long as it does not grow; undo: how long nothing
    that was given or regrouped is turned back; horizon: the time over which a change has to pay
    for itself; quiet: when nothing may change. Admission and cadence turn with the next batch
    and restart nothing, so they neither start a cool-down nor wait for one.
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

    def review(self, decision: Decision, context: Context, past: Past) -> Reviewed:
        """What a policy's decision comes to.

        A plan in force above its budget is cut, whatever the policy wants and whether it may have
        it or not: a budget waits for no measurement and no cool-down, only for a quiet period.
        """
        reviewed = self._weighed(decision, context, past)
        stays = reviewed.decision.plan in (None, context.plan)
        if not stays or context.limits.exceeded(context.plan) is None:
            return reviewed
        cut = self._cut(decision, context, past)
        return reviewed if cut.vetoes and reviewed.vetoes else cut

    def _cut(self, decision: Decision, context: Context, past: Past) -> Reviewed:
        """The plan in force, cut to its budget."""
        found = _capped(replace(decision, plan=context.plan), context)
        if isinstance(found, Veto) or found.plan is None:
            return _reviewed(decision, found)
        rules = {
            "quiet": self._quiet(context, past),
            "refused": self._refused(Change(context.plan, found.plan), context, past),
        }
        vetoes = [Veto(rule, reason) for rule, reason in rules.items() if reason is not None]
        return _vetoed(decision, *vetoes) if vetoes else _reviewed(decision, found)

    def _weighed(self, decision: Decision, context: Context, past: Past) -> Reviewed:
        plan = decision.plan
        if plan is None or plan == context.plan:
            return Reviewed(decision, decision)
        broken = _bounds(plan, context)
        if broken is not None:
            return _vetoed(decision, Veto("bounds", broken))
        capped = _capped(decision, context)
        if isinstance(capped, Veto):
            return _vetoed(decision, capped)
        assert capped.plan is not None
        change = Change(context.plan, capped.plan)
        vetoes = tuple(self._vetoes(capped, change, context, past))
        return _vetoed(decision, *vetoes) if vetoes else _reviewed(decision, capped)

    def permit(self, plan: Plan, context: Context) -> str | None:
        """Why a person cannot have a plan: bounds and budget, nothing else stands against it."""
        broken = _bounds(plan, context)
        before = context.plan
        if broken or (plan.slots <= before.slots and plan.executors <= before.executors):
            return broken
        return context.limits.exceeded(plan)

    def _vetoes(
        self, decision: Decision, change: Change, context: Context, past: Past
    ) -> Iterator[Veto]:
        found = {
            "metrics": _unmeasured(context),
            "quiet": self._quiet(context, past),
            "cool-down": None if light(change) else self._cooling(context, past),
            "undo": None if decision.numbers.get(UNDO) else self._undoing(change, context, past),
            "refused": self._refused(change, context, past),
            "cost": self._cost(decision, change, context, past),
        }
        for rule, reason in found.items():
            if reason is not None:
                yield Veto(rule, reason)

    # --- the rules ------------------------------------------------------------------------------

    def _quiet(self, context: Context, past: Past) -> str | None:
        for period in self.quiet:
            if period.holds(context.now, past.time_of_day):
                at = duration.text(round(context.now, 1))
                if period.daily and past.time_of_day is not None:
                    at = clock_text(past.time_of_day)
                return f"it is {at}, and nothing may change in {period}"
        return None

    def _cooling(self, context: Context, past: Past) -> str | None:
        last = next((m for m in reversed(past.made) if not light(m.change)), None)
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

    def _undoing(self, change: Change, context: Context, past: Past) -> str | None:
        for made in reversed(past.made):
            since = context.now - made.at
            if since >= self.undo:
                break
            turned = [*_turned_back(change, made)]
            if turned:
                return (
                    f"it turns back what was changed {since:.1f} s < {duration.text(self.undo)} "
                    f"ago: {_few(turned)}"
                )
        return None

    def _refused(self, change: Change, context: Context, past: Past) -> str | None:
        attempt = past.refused
        if attempt is None or attempt.plan != change.after:
            return None
        since = context.now - attempt.at
        if since >= self.undo:
            return None
        why = " ".join(attempt.why.split())
        again = duration.text(self.undo)
        return f"the engine refused this plan {since:.1f} s < {again} ago: {why}"

    def _cost(self, decision: Decision, change: Change, context: Context, past: Past) -> str | None:
        """Rows held up against rows gained, or the time they wait against the time they save.

        Who comes in an interruption of t seconds waits t/2 on average, and as much again is
        waited while the backlog is worked off: rate x t x t row-seconds in all. Every row that
        comes within the horizon saves the gain: rate x horizon x gain. The rate cancels.
        """
        if math.isinf(self.horizon):
            return None  # in the end any gain pays
        held, measured = past.expected(change)
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
    """The first few, and how many more there are."""
    more = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return between.join([*map(str, found[:_NAMED]), *more])


def _bounds(plan: Plan, context: Context) -> str | None:
    try:
        fusion.check(plan, context.graph)
    except InvalidPlan as error:
        return str(error)
    return None


def _capped(decision: Decision, context: Context) -> Decision | Veto:
    """The decision with a plan within the budget, or why there is none."""
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


def _reviewed(wanted: Decision, found: Decision | Veto) -> Reviewed:
    if isinstance(found, Veto):
        return _vetoed(wanted, found)
    return Reviewed(found, wanted, capped=None if found == wanted else found.reason)


def _vetoed(wanted: Decision, *vetoes: Veto) -> Reviewed:
    return Reviewed(replace(wanted, plan=None), wanted, vetoes)


def _unmeasured(context: Context) -> str | None:
    latest = context.latest
    if latest is None:
        return "nothing has been measured yet"
    window = duration.text(latest.window)
    old = context.now - latest.at
    if old > _FRESH * latest.window + 1e-6:
        return f"what was measured last is {old:.1f} s old, more than {_FRESH} windows of {window}"
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
    """Whether it is known what a pipeline processes, or that there is nothing for it to do."""
    return metrics is not None and (metrics.rate_in is not None or derived.idle(metrics))


def _backlog_grows(context: Context, since: float) -> bool:
    """Whether more rows wait now than when a change was made: then it was not enough."""
    totals = [
        sum(p.backlog_rows or 0 for p in snapshot.pipelines.values())
        for snapshot in context.snapshots
        if snapshot.at >= since and snapshot.settled
    ]
    return len(totals) > 1 and totals[-1] > totals[0]


def _turned_back(change: Change, made: Made) -> Iterator[Action]:
    """What was done then and would be turned the other way now.

    What was taken away may be given back at once, because rows wait for it: that it is not taken
    again as soon is enough to keep a plan from going to and fro.
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
