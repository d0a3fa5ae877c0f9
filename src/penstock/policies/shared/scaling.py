"""Plans with other numbers of instances or executors, within their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.dataflow.operators import Bounds
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Context
from penstock.policies.shared.topology import Topology


def bounds_within_ceiling(topology: Topology, name: str) -> Bounds:
    """Bounds on the parallelism of a pipeline that keep its state partitions."""
    found, ceiling = topology.bounds(name), topology.pipelines[name].ceiling
    if ceiling is None:
        return found
    return Bounds(found.least, ceiling if found.most is None else min(found.most, ceiling))


def with_instances(plan: Plan, instances: Mapping[str, int]) -> Plan:
    """Return a plan with other numbers of instances for some pipelines."""
    return replace(
        plan,
        pipelines=tuple(
            replace(p, parallelism=instances.get(p.name, p.parallelism)) for p in plan.pipelines
        ),
    )


def resized(pipeline: Pipeline, parallelism: int) -> Pipeline:
    """Return a pipeline with another parallelism, raising its ceiling if necessary."""
    ceiling = None if pipeline.ceiling is None else max(pipeline.ceiling, parallelism)
    return replace(pipeline, parallelism=parallelism, ceiling=ceiling)


def executor_slots(context: Context) -> int | None:
    """Instances per executor at a time, by limits or measurement; None if unknown."""
    if context.limits.executor_slots is not None:
        return context.limits.executor_slots
    found = context.latest.executors.values() if context.latest else ()
    return min((e.slots for e in found), default=None)


def with_enough_executors(plan: Plan, context: Context) -> Plan:
    """Return a plan with as many executors as its instances need.

    Executors follow the instances only if the limits bound them; otherwise they stay as they are.
    """
    each, most = executor_slots(context), context.limits.executors
    if each is None or most is None:
        return plan
    return replace(plan, executors=max(1, min(most, -(-plan.slots // each))))
