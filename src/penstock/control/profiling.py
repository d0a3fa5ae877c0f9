"""A run that only profiles: the loop turns until stepwise profiling is done."""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.control.context import Context
from penstock.control.guard import Guard
from penstock.control.loop import Rules, Tick, control
from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.models.campaign import Campaign
from penstock.models.profile import Profile
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies.stepwise import Stepwise

_NO_LIMITS = Limits()
_GUARD = Guard(cooldown=0.0, settle=0.0, undo=0.0, horizon=math.inf)
"""Trying is what a profile is for: only bounds, budget and missing metrics stand against it."""


def profile(
    engine: Engine,
    graph: Graph,
    policy: Stepwise,
    *,
    now: Callable[[], float],
    wait: Callable[[], bool],
    record: Callable[[Tick], None] = lambda tick: None,
    limits: Limits = _NO_LIMITS,
) -> Profile | None:
    """Profile a flow that an engine runs; None if `wait` ended it before it was done.

    The engine should run every operator alone (`fusion.finest_plan`), under more load than it can
    carry, so that it is the plan that bounds the throughput.
    """
    watched = _Watched(policy)
    control(
        engine,
        graph,
        watched,
        now=now,
        wait=lambda: watched.profile is None and wait(),
        record=record,
        rules=Rules(limits, _GUARD),
    )
    return watched.profile


class _Watched:
    """The policy, with its memory visible to the run around it."""

    def __init__(self, policy: Stepwise) -> None:
        self._policy = policy
        self.profile: Profile | None = None

    @property
    def name(self) -> str:
        return self._policy.name

    def decide(self, context: Context, memory: Campaign | None) -> tuple[Decision, Campaign]:
        decision, later = self._policy.decide(context, memory)
        self.profile = later.profile
        return decision, later
