"""The outcome of a run, as a value and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.control.dead_letters import DeadLetters
from penstock.dataflow.delivery import Delivery
from penstock.metrics.snapshot import OperatorMetrics
from penstock.notebook_display import Shown
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition

_NONE = DeadLetters(0, 0)


@dataclass(frozen=True)
class LatencySummary:
    """One constraint over the whole run, in seconds; None where no record was measured.

    `met` is the share of the constraint's windows whose mean stayed below the bound.
    """

    bound: float
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    met: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "bound_ms": _ms(self.bound),
            "mean_ms": _ms(self.mean),
            "p50_ms": _ms(self.p50),
            "p95_ms": _ms(self.p95),
            "p99_ms": _ms(self.p99),
            "met": None if self.met is None else round(self.met, 4),
        }


@dataclass(frozen=True)
class Summary(Shown):
    """What came of a run.

    `seconds` runs from the start until the flow had drained. `throughput_mean` is rows ingested
    over that time, `throughput_last` the last that was measured while the sources were on. `exact`
    is None where nothing can be said, e.g. without expectation or generated input; `exact_reason`
    says why it is not True. `dead_letters` sets those of this run against the rows that it took in.
    `changes_left` are scripted changes that the run ended before. `operators` are those of the last
    window that showed nothing but the plan in force.
    `delivery` is what each sink promises; `rows_repeated` are rows of batches that a sink with less
    than exactly once has got again, so up to so many are there more than once.
    """

    flow: str
    engine: str
    policy: str
    seconds: float
    rows_offered: int | None
    rows_ingested: int
    rows_delivered: int
    rows_dead: int
    throughput_mean: float
    throughput_last: float | None
    slot_seconds: float
    plan: Plan
    run_dir: str
    latency: Mapping[str, LatencySummary] = field(default_factory=dict)
    transitions: tuple[Transition, ...] = ()
    exact: bool | None = None
    exact_reason: str = ""
    interrupted: bool = False
    operators: Mapping[str, OperatorMetrics] = field(default_factory=dict)
    rows_late: int | None = None
    dead_letters: DeadLetters = _NONE
    changes_left: tuple[str, ...] = ()
    rows_repeated: int = 0
    delivery: Mapping[str, Delivery] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "engine": self.engine,
            "policy": self.policy,
            "seconds": round(self.seconds, 3),
            "rows_offered": self.rows_offered,
            "rows_ingested": self.rows_ingested,
            "rows_delivered": self.rows_delivered,
            "rows_dead": self.rows_dead,
            "rows_late": self.rows_late,
            "dead_letters": self.dead_letters.to_json(),
            "rows_repeated": self.rows_repeated,
            "throughput": {
                "mean": round(self.throughput_mean, 2),
                "last": None if self.throughput_last is None else round(self.throughput_last, 2),
            },
            "latency": {name: one.to_json() for name, one in self.latency.items()},
            "operators": {name: _operator(one) for name, one in self.operators.items()},
            "slot_seconds": round(self.slot_seconds, 3),
            "plan": self.plan.to_json(),
            "transitions": [t.to_json() for t in self.transitions],
            "changes_left": list(self.changes_left),
            "delivery": {name: one.value for name, one in self.delivery.items()},
            "exact": self.exact,
            "run_dir": self.run_dir,
            "interrupted": self.interrupted,
        }


def _operator(one: OperatorMetrics) -> dict[str, Any]:
    return {
        "rate_in": _rounded(one.rate_in),
        "rate_out": _rounded(one.rate_out),
        "selectivity": _rounded(one.selectivity),
        "service_ms": _rounded(one.service, 1000),
        "service_cv": _rounded(one.service_cv),
        "arrival_cv": _rounded(one.arrival_cv),
        "busy": _rounded(one.busy),
        "basis": "measured" if one.measured else "estimated",
    }


def _rounded(value: float | None, factor: float = 1.0) -> float | None:
    """Five significant digits."""
    return None if value is None else float(f"{factor * value:.5g}")


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
