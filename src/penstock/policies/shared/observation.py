"""Periodic measurement for policies that look at the flow every few seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.metrics import windows
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan.decision import Decision
from penstock.policies.base import messages
from penstock.policies.base.policy import Context
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology


@dataclass(frozen=True)
class MeasuredFlow:
    """Topology of the flow, and its pipelines as measured since the last look."""

    topology: Topology
    measured: Mapping[str, PipelineMetrics]


def look(context: Context, last: float, span: float) -> MeasuredFlow | Decision:
    """Return the measured flow, or a decision to wait.

    The policy waits until `span` seconds have passed since the `last` look, and while a rate or a
    service time is missing.
    """
    if context.now - last < span:
        return Decision(None, f"no change: next look in {last + span - context.now:.1f} s")
    snapshots = windows.settled_after(context.snapshots, max(last, context.now - span - 1e-9))
    if not snapshots:
        return Decision(None, "no change: no settled measurement since the last look")
    topology = Topology(context.graph, context.plan)
    measured = windows.pipeline_averages(snapshots)
    lacking = {n: rates.missing(measured.get(n)) for n in topology.pipelines}
    if any(lacking.values()):
        missing = messages.listed([f"{', '.join(m)} of {n}" for n, m in lacking.items() if m])
        return Decision(None, f"no change: not measured: {missing}")
    return MeasuredFlow(topology, measured)
