"""Rounds of stepwise profiling: how the first begins, how one is asked for, what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.control.context import Context
from penstock.models import campaign as campaigns
from penstock.models.attempts import listed
from penstock.models.campaign import Campaign, admitting, free, trying
from penstock.models.profile import Round
from penstock.models.significance import compare
from penstock.plan.decision import UNDO, Decision
from penstock.plan.plan import Plan

Outcome = tuple[Decision, Campaign]

FREE = {UNDO: 1.0}
"""Rounds go back and forth on purpose: the guard need not see to it that they do not."""


def begun(context: Context, since: float, sample: int | None) -> Campaign:
    """A campaign at its start; sample: rows of a batch while features are measured."""
    found = campaigns.ground(context.graph, context.plan)
    plan = context.plan
    if sample is not None:
        plan = admitting(plan, dict.fromkeys(found.sources, sample))
    return Campaign(found, plan, since=since)


def asked(
    context: Context,
    state: Campaign,
    plan: Plan,
    kind: str,
    said: str,
    throttle: float = 0.0,
) -> Outcome:
    """Another round. Sources are as free as at first unless they are slowed down."""
    if not throttle:
        plan = free(plan, state.ground)
    slowed = f", sources {throttle:.0%} slower" if throttle else ""
    reason = f"{said}; {kind}{slowed}: {listed(sizes(plan), ', ')}"
    later = trying(state, plan, kind, context.now, throttle)
    if campaigns.in_force(later, context.plan):
        return Decision(None, reason), later
    return Decision(plan, reason, {"slots": float(plan.slots), **FREE}), later


def asked_again(context: Context, state: Campaign, patience: float) -> Outcome | None:
    """The round once more, whose plan was not carried out; None where patience is at its end."""
    first = context.now if state.refused is None else state.refused
    if context.now - first >= patience:
        return None
    later = replace(state, refused=first, since=context.now)
    numbers = {"slots": float(state.plan.slots), **FREE}
    return Decision(state.plan, f"asks again for {state.kind}", numbers), later


def told(before: Round | None, seen: Round, level: float, least: float) -> str:
    """What a round has brought, beside another one; level and least: when a difference counts."""
    late = "" if seen.latency is None else f", latency {seen.latency:.2f} of its bound"
    if before is None:
        return f"throughput {seen.throughput:.4g}/s{late}"
    change = compare(before.throughputs, seen.throughputs, level, least)
    return f"throughput {seen.throughput:.4g}/s {change} from {before.throughput:.4g}/s{late}"


def pairs(numbers: Mapping[str, int]) -> list[str]:
    return [f"{name} {number}" for name, number in numbers.items()]


def sizes(plan: Plan) -> list[str]:
    return [f"{p.name}={p.parallelism}" for p in plan.pipelines]
