"""How many executors the instances of a plan need, for policies that only think in instances."""

from __future__ import annotations

from dataclasses import replace

from penstock.control.context import Context
from penstock.plan.plan import Plan


def slots(context: Context) -> int | None:
    """Instances that one executor runs at a time; None if that is not known."""
    if context.limits.executor_slots is not None:
        return context.limits.executor_slots
    found = context.latest.executors.values() if context.latest else ()
    return min((e.slots for e in found), default=None)


def enough(plan: Plan, context: Context) -> Plan:
    """The plan with as many executors as its instances fill.

    Only with a budget of executors: who gives one wants them to follow; without, they stay.
    """
    each, most = slots(context), context.limits.executors
    if each is None or most is None:
        return plan
    return replace(plan, executors=max(1, min(most, -(-plan.slots // each))))
