"""Cost of each operator of a dataflow: given, measured or declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Barrier
from penstock.engines.simulator import distributions
from penstock.engines.simulator.model import OperatorCost
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics, Snapshot
from penstock.store import history
from penstock.store.run_directory import local


def costs_of(
    graph: Graph,
    costs: Mapping[str, str] | None = None,
    selectivity: Mapping[str, float] | None = None,
    run_dir: Path | str | None = None,
) -> dict[str, OperatorCost]:
    """Return the cost of each operator by name.

    Given costs take precedence over measured ones, these over declared ones. costs, selectivity:
    given, by operator, costs as `distributions.parse` reads them; run_dir: a run whose last
    snapshot has measured costs. Raises `InvalidInput` if no operator has a cost, or a given one
    does not exist.
    """
    found = declared(graph)
    if run_dir is not None:
        found |= measured(graph, run_dir)
    for name in (*(costs or {}), *(selectivity or {})):
        if name not in graph:
            known = ", ".join(o.name for o in graph.operators)
            raise InvalidInput(f"cost of an unknown operator '{name}'; the operators are {known}")
    for name, text in (costs or {}).items():
        found[name] = replace(found.get(name, OperatorCost()), service=distributions.parse(text))
    for name, factor in (selectivity or {}).items():
        found[name] = replace(found.get(name, OperatorCost()), selectivity=factor)
    if not any(cost.service.mean for cost in found.values()):
        raise InvalidInput(
            f"no operator of '{graph.name}' has a known cost: give --cost NAME=2ms for those that "
            "take time, or --from RUN_DIR of a run that measured them"
        )
    return found


def declared(graph: Graph) -> dict[str, OperatorCost]:
    """Costs that operators declare: their estimate, or their function's cost."""
    found = {}
    for operator in graph.operators:
        if isinstance(operator.body, Barrier):
            found[operator.name] = OperatorCost(selectivity=1 / len(operator.inputs))
        owner: Any = getattr(getattr(operator.body, "function", None), "__self__", None)
        seconds = getattr(getattr(owner, "cost", None), "seconds", None)
        if operator.estimate is not None:
            estimate = operator.estimate
            found[operator.name] = OperatorCost(
                distributions.Constant(estimate.seconds), estimate.selectivity
            )
        elif isinstance(seconds, float):
            found[operator.name] = OperatorCost(distributions.Constant(seconds), owner.selectivity)
    return found


def measured(graph: Graph, run_dir: Path | str) -> dict[str, OperatorCost]:
    """Costs from a run's last snapshot with rows, a settled one if there is any."""
    last: Snapshot | None = None
    for snapshot in history.snapshots(local(run_dir)):
        worked = any(p.rows_in for p in snapshot.pipelines.values())
        if worked and (snapshot.settled or last is None or not last.settled):
            last = snapshot
    if last is None:
        raise InvalidInput(f"'{run_dir}' holds no run that measured an operator")
    seen: Mapping[str, OperatorMetrics | PipelineMetrics] = last.operators or last.pipelines
    found: dict[str, OperatorCost] = {}
    for name, metrics in seen.items():
        if name in graph and metrics.service is not None:
            known = metrics.rows_in and metrics.rows_out is not None
            ratio = (metrics.rows_out or 0) / metrics.rows_in if known and metrics.rows_in else 1.0
            found[name] = OperatorCost(
                distributions.of(metrics.service, metrics.service_cv), round(ratio, 4)
            )
    return found
