"""How often state is committed, by load: seldom where the executors are busy, often where not.

A commit of state is what a failed pipeline goes back to (Es-Stream's backup interval). Frequent
commits make recovery short and cost work; under load that work is better spent on records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from penstock.dataflow import duration
from penstock.errors import InvalidInput
from penstock.plan.decision import Decision
from penstock.policies.base import messages
from penstock.policies.base.policy import Context, Policy

BUSY = 0.8
"""Share of the slots at work above which commits become rarer; below half of it, more frequent."""

_SMALLEST = 0.1


@dataclass(frozen=True)
class Interval:
    """The bounds within which a user lets the time between commits of state move."""

    least: float
    most: float

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Read `200ms..5s`."""
        least, dots, most = text.partition("..")
        if not dots:
            raise InvalidInput(f"cannot read the backup interval '{text}': write it like 200ms..5s")
        found = cls(duration.seconds(least), duration.seconds(most))
        if not 0 <= found.least <= found.most:
            raise InvalidInput(f"the backup interval '{text}' must be 0 or more and not shrink")
        return found

    def __str__(self) -> str:
        return f"{duration.text(self.least)}..{duration.text(self.most)}"

    def next(self, now: float, load: float, batch: float) -> float:
        """The interval after one of `now` seconds under a load; `batch`: seconds a batch takes."""
        if load > BUSY:
            wanted = 2 * max(now, batch, _SMALLEST)
        elif load < BUSY / 2:
            wanted = now / 2 if now > _SMALLEST else 0.0
        else:
            wanted = now
        return min(self.most, max(self.least, wanted))


_Inner = TypeVar("_Inner")


@dataclass(frozen=True)
class BackupMemory(Generic[_Inner]):
    """What the other policy remembers, and when an interval or the plan was changed last."""

    inner: _Inner | None
    changed_at: float
    version: Literal[1] = 1


class WithBackup:
    """Another policy, and the backup interval wherever that one leaves the plan as it is."""

    def __init__(self, inner: Policy, interval: Interval) -> None:
        self.inner = inner
        self._interval = interval

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def memory_type(self) -> Any:
        inner = getattr(self.inner, "memory_type", None)
        return BackupMemory[inner]  # type: ignore[valid-type]

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        before = memory or BackupMemory(None, context.now)
        decision, inner = self.inner.decide(context, before.inner)
        unchanged = BackupMemory(inner, before.changed_at)
        latest = context.latest
        if decision.plan is not None:
            return decision, BackupMemory(inner, context.now)
        if latest is None or latest.load is None or not latest.settled:
            return decision, unchanged
        if context.now - before.changed_at < latest.window:  # a change cannot be judged before
            return decision, unchanged
        plan, said = context.plan, []
        for pipeline in context.plan.pipelines:
            metrics = latest.pipelines.get(pipeline.name)
            if not any(context.graph[name].stateful for name in pipeline.operators):
                continue
            batch = (metrics.batch_seconds if metrics else None) or 0.0
            cadence = self._interval.next(pipeline.cadence, latest.load, batch)
            if cadence != pipeline.cadence:
                plan = plan.with_pipeline(pipeline.name, cadence=cadence)
                old, new = duration.text(pipeline.cadence), duration.text(round(cadence, 3))
                said.append(f"{pipeline.name} {old} -> {new}")
        if not said:
            return decision, unchanged
        reason = f"{self._why(latest.load)}: state is committed every {messages.listed(said, ', ')}"
        return Decision(plan, reason, {"load": latest.load}), BackupMemory(inner, context.now)

    def _why(self, load: float) -> str:
        if load > BUSY:
            return f"slots at work {load:.2f} > {BUSY:.2f}"
        if load < BUSY / 2:
            return f"slots at work {load:.2f} < {BUSY / 2:.2f}"
        return f"the backup interval was outside {self._interval}"
