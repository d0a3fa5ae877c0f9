"""Adapts the interval of state commits: longer on busy executors (Es-Stream).

A failed pipeline restarts from its last commit (Es-Stream's backup interval). Frequent commits make
recovery short but cost work, which under load is better spent on rows.
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
"""Share of busy slots above which the interval grows; it shrinks below half."""

_SMALLEST = 0.1


@dataclass(frozen=True)
class Interval:
    """Bounds on the time between commits of state, in seconds."""

    least: float
    most: float

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Parse a text such as `200ms..5s`."""
        least, dots, most = text.partition("..")
        if not dots:
            raise InvalidInput(f"cannot read backup interval '{text}'; write it like 200ms..5s")
        found = cls(duration.seconds(least), duration.seconds(most))
        if not 0 <= found.least <= found.most:
            raise InvalidInput(
                f"backup interval '{text}' must begin with 0 or more and not end below that"
            )
        return found

    def __str__(self) -> str:
        return f"{duration.text(self.least)}..{duration.text(self.most)}"

    def next(self, now: float, load: float, batch: float) -> float:
        """Next interval after one of `now` seconds; batch: seconds of a batch.

        load: share of busy slots.
        """
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
    """Memory of the inner policy, and when the plan or an interval changed last."""

    inner: _Inner | None
    changed_at: float
    version: Literal[1] = 1


class WithBackup:
    """Wraps a policy and adapts commit intervals while the plan stays as it is."""

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
        if context.now - before.changed_at < latest.window:  # too early to see the last change
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
        reason = f"commit interval of {messages.listed(said, ', ')}: {self._why(latest.load)}"
        return Decision(plan, reason, {"load": latest.load}), BackupMemory(inner, context.now)

    def _why(self, load: float) -> str:
        if load > BUSY:
            return f"{load:.0%} of the slots are busy, above {BUSY:.0%}"
        if load < BUSY / 2:
            return f"{load:.0%} of the slots are busy, below {BUSY / 2:.0%}"
        return f"it was outside {self._interval}"
