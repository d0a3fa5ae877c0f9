"""A policy of somebody else: one more instance where rows wait longest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock import Context, Decision
from penstock.plan import fusion


@dataclass(frozen=True)
class Backlog:
    """One more instance for the pipeline before which rows wait longest.

    above: seconds of waiting that are too many.
    """

    name: ClassVar[str] = "backlog"
    source: ClassVar[str] = "examples/policy of Penstock"
    above: float = 2.0

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        latest = context.latest
        measured = {} if latest is None else latest.pipelines
        waiting = {n: m.backlog_seconds for n, m in measured.items() if m.backlog_seconds}
        late = {name: seconds for name, seconds in waiting.items() if seconds > self.above}
        if not late:
            return Decision(None, f"rows wait nowhere longer than {self.above:g} s"), memory
        name = max(late, key=lambda name: late[name])
        pipeline = context.plan.pipeline_of(name)
        most = fusion.bounds(context.graph, pipeline.operators).most
        numbers = {"waiting": late[name]}
        why = f"rows wait {late[name]:.1f} s > {self.above:g} s before {name}"
        if pipeline.parallelism == most:
            return Decision(None, f"{why}, which stands no more instances", numbers), memory
        plan = context.plan.with_pipeline(name, parallelism=pipeline.parallelism + 1)
        return Decision(plan, f"{why}; one more instance", numbers), memory
