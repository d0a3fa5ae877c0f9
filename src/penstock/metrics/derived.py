"""Figures that policies derive from measurements, each defined once.

Each is None if something it needs was not measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics


def rounded(ratio: float) -> float:
    """Round to twelve digits: the rest of a product or quotient is rounding error."""
    return float(f"{ratio:.12g}")


def rounded_array(ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round an array like `rounded`; each distinct value is rounded once."""
    values, places = np.unique(ratios, return_inverse=True)
    return np.array([rounded(value) for value in values.tolist()], np.float64)[places]


def utilisation(pipeline: PipelineMetrics) -> float | None:
    """Work that arrives per instance, in seconds per second; above 1 the backlog grows."""
    if pipeline.arrival_rate is None or pipeline.service is None:
        return None
    return rounded(pipeline.arrival_rate * pipeline.service / pipeline.parallelism)


def idle(pipeline: PipelineMetrics) -> bool:
    """True if no row arrives and none waits; nothing else can be measured then."""
    return pipeline.arrival_rate == 0 and not pipeline.backlog_rows


def at_work(pipeline: PipelineMetrics) -> float | None:
    """Share of the time in which an instance works on rows; 0 if there are none.

    Back-to-back batches keep a pipeline busy however few rows they have, so this is computed from
    the time per row where that is known.
    """
    nothing = 0.0 if idle(pipeline) else None
    if pipeline.service is None:
        return nothing if pipeline.busy is None else pipeline.busy
    if pipeline.rate_in is None:
        return nothing
    return rounded(pipeline.rate_in * pipeline.service / pipeline.parallelism)


def congestion(pipeline: PipelineMetrics) -> float | None:
    """Stela's ratio of rows that arrive to rows that are processed; infinite if none is."""
    if pipeline.arrival_rate is None or pipeline.rate_in is None:
        return None
    if pipeline.rate_in == 0:
        return math.inf if pipeline.arrival_rate > 0 else 1.0
    return pipeline.arrival_rate / pipeline.rate_in


def true_rate(pipeline: PipelineMetrics) -> float | None:
    """DS2's true processing rate: rows per second if every instance always worked."""
    if not pipeline.service:
        return None
    return pipeline.parallelism / pipeline.service


def capacity(operator: OperatorMetrics, parallelism: int) -> float | None:
    """Stepwise profiling's capacity (eq. 2): share of its time that an instance works."""
    if operator.service is None or operator.rate_in is None:
        return None
    return operator.service * operator.rate_in / parallelism


@dataclass(frozen=True)
class PipelineQueue:
    """The queue in front of a pipeline, in the terms of Kingman's formula.

    rate: rows that arrive per instance and second; service: seconds per row; wait: measured mean
    wait without the part that the cadence caused. Where a variation was not measured, the formula
    takes 1, that of a Poisson process.
    """

    parallelism: int
    rate: float
    service: float
    arrival_cv: float | None
    service_cv: float | None
    wait: float

    @property
    def utilisation(self) -> float:
        return self.rate * self.service

    @property
    def kingman(self) -> float:
        """The wait by Kingman's formula; infinite if more rows arrive than can be served."""
        rho = self.utilisation
        if rho >= 1:
            return math.inf
        return rho / (1 - rho) * self.service * self.variation

    @property
    def variation(self) -> float:
        """Mean of the squared coefficients of variation of arrivals and service."""
        found = (1.0 if cv is None else cv for cv in (self.arrival_cv, self.service_cv))
        return sum(cv**2 for cv in found) / 2

    @property
    def error(self) -> float | None:
        """Nephele's error e: measured wait over the formula's; None if that is 0 or infinite."""
        expected = self.kingman
        return self.wait / expected if 0 < expected < math.inf else None


def queue(pipeline: PipelineMetrics) -> PipelineQueue | None:
    """Return the queue in front of a pipeline."""
    if None in (pipeline.arrival_rate, pipeline.service, pipeline.wait):
        return None
    assert pipeline.arrival_rate is not None
    assert pipeline.service is not None
    assert pipeline.wait is not None
    return PipelineQueue(
        parallelism=pipeline.parallelism,
        rate=pipeline.arrival_rate / pipeline.parallelism,
        service=pipeline.service,
        arrival_cv=pipeline.arrival_cv,
        service_cv=pipeline.service_cv,
        wait=max(0.0, pipeline.wait - (pipeline.batching or 0.0)),
    )
