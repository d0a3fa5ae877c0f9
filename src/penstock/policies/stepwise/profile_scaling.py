"""Scaling by a finished or partial profile, and when to profile again.

A profile says what a plan sustains. While the load is lower than that, part of the plan is enough,
and further rounds could not measure what more instances would sustain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.messages import listed
from penstock.policies.base.policy import Context
from penstock.policies.shared.bottlenecks import is_usable
from penstock.policies.stepwise import profile as profiles
from penstock.policies.stepwise import profiling_state
from penstock.policies.stepwise.profiling_state import (
    FREE,
    Outcome,
    StepwiseMemory,
    request_round,
    sizes,
    started,
    unthrottled,
)
from penstock.policies.stepwise.rounds import latency_ratio


@dataclass(frozen=True)
class LoadWatch:
    """Options of stepwise profiling for the time without stress."""

    latency: float
    alpha: float
    level: float
    change: float
    settle: float
    sample: int | None
    queue: float
    patience: float
    calm: float

    # --- during profiling -----------------------------------------------------------------------

    def slack(self, state: StepwiseMemory, latest: Snapshot) -> bool:
        """True if the load is below the known capacity, so that rounds measure nothing."""
        load = _load(state, latest)
        if not state.rounds or state.throttle or load is None or latest.throughput is None:
            return False
        known = profiles.best_round(state.rounds, self.level, self.change).throughput
        waiting = _late(latest, self.latency)["waiting"]
        return max(load, latest.throughput) < self.alpha * known and waiting <= latest.window

    def pause(self, context: Context, state: StepwiseMemory, latest: Snapshot) -> Outcome:
        """Pause profiling and scale by the profile so far, until the load is high again."""
        since = latest.at if state.calm is None else state.calm
        if latest.at - since < self.calm:
            said = f"no change: the load is below the known capacity ({state.kind})"
            return Decision(None, said), replace(state, calm=since, seen=())
        found = profiling_state.profile_so_far(state, self.level, self.change)
        assert found is not None
        load, final = _load(state, latest) or 0.0, found.final
        reason = (
            f"best plan so far, {listed(sizes(final.plan), ', ')}: profiling pauses at a load of "
            f"{load:.4g}/s, known capacity {final.throughput:.4g}/s"
        )
        plan = None if final.plan == context.plan else final.plan
        numbers = {"throughput": final.throughput, **FREE}
        return Decision(plan, reason, numbers), profiling_state.paused(state, found, context.now)

    # --- after profiling ------------------------------------------------------------------------

    def look(self, context: Context, state: StepwiseMemory) -> Outcome:
        """Follow the load, and profile again if rows are late or wait for too long."""
        latest = context.latest
        if latest is None or not is_usable(latest, state.since, self.settle):
            return Decision(None, "no change: waiting for the flow to settle"), state
        if state.paused is not None and state.profile is not None:
            load = _load(state, latest)
            if load is not None and load >= self.alpha * state.profile.final.throughput:
                return _resumed(context, state, load)
        trouble = self._trouble(latest)
        wanted = self._wanted(context, state, latest)
        if wanted is not None and (trouble is None or wanted.slots > context.plan.slots):
            return self._fitted(context, state, latest, wanted)
        if trouble is None:
            later = replace(state, late=None, calm=None)
            return Decision(None, "no change: latency and backlog are within bounds"), later
        since = latest.at if state.late is None else state.late
        if latest.at - since < self.patience:
            said = f"no change: {trouble} for {latest.at - since:.0f} of {self.patience:g} s"
            return Decision(None, said), replace(state, late=since)
        plan = unthrottled(context.plan, state.flow)
        fresh = started(replace(context, plan=plan), context.now, self.sample)
        reason = f"profiling starts again: {trouble} for {self.patience:g} s"
        again = None if fresh.plan == context.plan else fresh.plan
        return Decision(again, reason, _late(latest, self.latency)), fresh

    def _wanted(self, context: Context, state: StepwiseMemory, latest: Snapshot) -> Plan | None:
        """Plan for the present load, if that differs from the plan in force.

        Instances are removed only if the rest sustains somewhat more, because the load varies.
        """
        load = _load(state, latest)
        if state.profile is None or load is None:
            return None
        now, graph = context.plan.slots, context.graph
        plan = profiling_state.plan_for_load(state.profile, load, self.alpha, graph)
        if plan.slots < now:
            more = load / self.alpha
            plan = profiling_state.plan_for_load(state.profile, more, self.alpha, graph)
            return plan if plan.slots < now else None
        return None if plan.slots == now else plan

    def _fitted(
        self, context: Context, state: StepwiseMemory, latest: Snapshot, plan: Plan
    ) -> Outcome:
        """Scale up at once, and down after a calm period."""
        assert state.profile is not None
        now, wanted = context.plan.slots, plan.slots
        since = latest.at if state.calm is None else state.calm
        if wanted < now and latest.at - since < self.calm:
            said = f"no change yet: {wanted} of {now} instances would do"
            return Decision(None, said), replace(state, late=None, calm=since)
        most, load = state.profile.final, _load(state, latest) or 0.0
        reason = (
            f"{now} -> {wanted} instances, {listed(sizes(plan), ', ')}: load "
            f"{load:.4g}/s; {most.plan.slots} sustain {most.throughput:.4g}/s"
        )
        later = replace(state, since=context.now, late=None, calm=None)
        return Decision(plan, reason, {"slots": float(wanted)}), later

    def _trouble(self, latest: Snapshot) -> str | None:
        found = _late(latest, self.latency)
        late, waiting = found.get("latency", 0.0), found["waiting"]
        if late > 1:
            return f"latency is {late:.0%} of its bound"
        return f"a source has a backlog of {waiting:.0f} s" if waiting > self.queue else None


def _resumed(context: Context, state: StepwiseMemory, load: float) -> Outcome:
    assert state.paused is not None
    again = replace(state, phase=state.paused, paused=None, late=None, calm=None)
    said = f"profiling continues at a load of {load:.4g}/s"
    return request_round(context, again, state.plan, state.kind, said, state.throttle)


def _load(state: StepwiseMemory, latest: Snapshot) -> float | None:
    """Rows per second arriving at the sources; None if one is unknown."""
    sources = [m for n, m in latest.pipelines.items() if n in state.flow.sources]
    known = [m.arrival_rate for m in sources if m.arrival_rate is not None]
    return sum(known) if len(known) == len(state.flow.sources) else None


def _late(latest: Snapshot, bound: float) -> dict[str, float]:
    """Latency as a share of its bound, if known, and the longest backlog of a source."""
    late = latency_ratio(latest, bound)
    sources = (m for n, m in latest.pipelines.items() if n in latest.source_pipelines)
    waiting = max((m.backlog_seconds or 0.0 for m in sources), default=0.0)
    return {"waiting": waiting} if late is None else {"latency": late, "waiting": waiting}
