"""The watch over a flow whose load is no stress, or that is profiled."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.messages import listed
from penstock.policies.base.policy import Context
from penstock.policies.shared.bottlenecks import is_usable
from penstock.policies.stepwise import profile as profiles
from penstock.policies.stepwise import profiling_state as campaigns
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
    """What is watched for, with the options that stepwise profiling has for it."""

    latency: float
    alpha: float
    level: float
    change: float
    settle: float
    sample: int | None
    queue: float
    patience: float
    calm: float

    # --- while it is profiled -------------------------------------------------------------------

    def slack(self, state: StepwiseMemory, latest: Snapshot) -> bool:
        """Whether less comes than is known to be carried: then no round can tell what is."""
        load = _load(state, latest)
        if not state.rounds or state.throttle or load is None or latest.throughput is None:
            return False
        known = profiles.best_round(state.rounds, self.level, self.change).throughput
        waiting = _late(latest, self.latency)["waiting"]
        return max(load, latest.throughput) < self.alpha * known and waiting <= latest.window

    def pause(self, context: Context, state: StepwiseMemory, latest: Snapshot) -> Outcome:
        """Let instances follow the load, by what is known, until it is a stress again."""
        since = latest.at if state.calm is None else state.calm
        if latest.at - since < self.calm:
            said = f"less comes than is known to be carried ({state.kind})"
            return Decision(None, said), replace(state, calm=since, seen=())
        found = campaigns.profile_so_far(state, self.level, self.change)
        assert found is not None
        load, final = _load(state, latest) or 0.0, found.final
        reason = (
            f"profiling pauses: {load:.4g}/s come, {final.throughput:.4g}/s are known to be "
            f"carried with {listed(sizes(final.plan), ', ')}"
        )
        plan = None if final.plan == context.plan else final.plan
        numbers = {"throughput": final.throughput, **FREE}
        return Decision(plan, reason, numbers), campaigns.paused(state, found, context.now)

    # --- when it is done ------------------------------------------------------------------------

    def look(self, context: Context, state: StepwiseMemory) -> Outcome:
        """Start anew when rows have been late, or have waited, for too long."""
        latest = context.latest
        if latest is None or not is_usable(latest, state.since, self.settle):
            return Decision(None, "profiled; waits for the flow to settle"), state
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
            return Decision(None, "profiled; all is within bounds"), later
        since = latest.at if state.late is None else state.late
        if latest.at - since < self.patience:
            said = f"profiled; {trouble} for {latest.at - since:.0f} of {self.patience:g} s"
            return Decision(None, said), replace(state, late=since)
        plan = unthrottled(context.plan, state.ground)
        fresh = started(replace(context, plan=plan), context.now, self.sample)
        reason = f"{trouble} for {self.patience:g} s: profiling starts anew"
        again = None if fresh.plan == context.plan else fresh.plan
        return Decision(again, reason, _late(latest, self.latency)), fresh

    def _wanted(self, context: Context, state: StepwiseMemory, latest: Snapshot) -> Plan | None:
        """What the load needs of the best plan, if that is something else than there is.

        Of the instances there are, none goes unless the rest carry some more than comes, since the
        load is never quite the same.
        """
        load = _load(state, latest)
        if state.profile is None or load is None:
            return None
        now, graph = context.plan.slots, context.graph
        plan = campaigns.plan_for_load(state.profile, load, self.alpha, graph)
        if plan.slots < now:
            plan = campaigns.plan_for_load(state.profile, load / self.alpha, self.alpha, graph)
            return plan if plan.slots < now else None
        return None if plan.slots == now else plan

    def _fitted(
        self, context: Context, state: StepwiseMemory, latest: Snapshot, plan: Plan
    ) -> Outcome:
        """More instances at once when the load asks for them, fewer when it was low for a while."""
        assert state.profile is not None
        now, wanted = context.plan.slots, plan.slots
        since = latest.at if state.calm is None else state.calm
        if wanted < now and latest.at - since < self.calm:
            said = f"profiled; {wanted} of {now} instances would do"
            return Decision(None, said), replace(state, late=None, calm=since)
        most = state.profile.final
        reason = (
            f"profiled: {most.plan.slots} instances carry {most.throughput:.4g}/s; the load needs "
            f"{wanted}: {listed(sizes(plan), ', ')}"
        )
        later = replace(state, since=context.now, late=None, calm=None)
        return Decision(plan, reason, {"slots": float(wanted)}), later

    def _trouble(self, latest: Snapshot) -> str | None:
        found = _late(latest, self.latency)
        late, waiting = found.get("latency", 0.0), found["waiting"]
        if late > 1:
            return f"latency is {late:.2f} of its bound"
        return f"{waiting:.0f} s of rows wait at a source" if waiting > self.queue else None


def _resumed(context: Context, state: StepwiseMemory, load: float) -> Outcome:
    assert state.paused is not None
    again = replace(state, phase=state.paused, paused=None, late=None, calm=None)
    said = f"{load:.4g}/s come: profiling goes on"
    return request_round(context, again, state.plan, state.kind, said, state.throttle)


def _load(state: StepwiseMemory, latest: Snapshot) -> float | None:
    """Rows per second that come to the sources; None where one of them does not tell."""
    sources = [m for n, m in latest.pipelines.items() if n in state.ground.sources]
    known = [m.arrival_rate for m in sources if m.arrival_rate is not None]
    return sum(known) if len(known) == len(state.ground.sources) else None


def _late(latest: Snapshot, bound: float) -> dict[str, float]:
    """The latency as a share of its bound, if that is known, and what waits at a source."""
    late = latency_ratio(latest, bound)
    sources = (m for n, m in latest.pipelines.items() if n in latest.source_pipelines)
    waiting = max((m.backlog_seconds or 0.0 for m in sources), default=0.0)
    return {"waiting": waiting} if late is None else {"latency": late, "waiting": waiting}
