"""What follows from measurements: each figure that a policy reasons with, defined once.

All are None where something they need was not measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.metrics.snapshot import OperatorMetrics, PipelineMetrics


def plain(ratio: float) -> float:
    """A ratio in twelve digits: what a product or a quotient adds behind them is an error."""
    return float(f"{ratio:.12g}")


def plains(ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The same of many, of which many are alike."""
    values, places = np.unique(ratios, return_inverse=True)
    return np.array([plain(value) for value in values.tolist()], np.float64)[places]


def utilisation(pipeline: PipelineMetrics) -> float | None:
    """Work that arrives for each instance, in seconds a second; above 1 the backlog grows."""
    if pipeline.arrival_rate is None or pipeline.service is None:
        return None
    return plain(pipeline.arrival_rate * pipeline.service / pipeline.parallelism)


def idle(pipeline: PipelineMetrics) -> bool:
    """Whether nothing comes and nothing waits. Then there is nothing else to know."""
    return pipeline.arrival_rate == 0 and not pipeline.backlog_rows


def at_work(pipeline: PipelineMetrics) -> float | None:
    """Share of the time that an instance is at work on rows; 0 where there are none.

    Batches that follow one another fill all the time, however few rows they have; so this is by
    what rows take where that is known.
    """
    nothing = 0.0 if idle(pipeline) else None
    if pipeline.service is None:
        return nothing if pipeline.busy is None else pipeline.busy
    if pipeline.rate_in is None:
        return nothing
    return plain(pipeline.rate_in * pipeline.service / pipeline.parallelism)


def congestion(pipeline: PipelineMetrics) -> float | None:
    """Stela's ratio: rows that come for each row that is processed; infinite if none is."""
    if pipeline.arrival_rate is None or pipeline.rate_in is None:
        return None
    if pipeline.rate_in == 0:
        return math.inf if pipeline.arrival_rate > 0 else 1.0
    return pipeline.arrival_rate / pipeline.rate_in


def true_rate(pipeline: PipelineMetrics) -> float | None:
    """DS2's true processing rate: rows per second if every instance were at work all the time."""
    if not pipeline.service:
        return None
    return pipeline.parallelism / pipeline.service


def capacity(operator: OperatorMetrics, parallelism: int) -> float | None:
    """Stepwise profiling's capacity, eq. 2: time at work over time, of one instance on average."""
    if operator.service is None or operator.rate_in is None:
        return None
    return operator.service * operator.rate_in / parallelism


@dataclass(frozen=True)
class Queue:
    """The queue before a pipeline, in the terms of Kingman's formula.

    rate: rows that arrive for one instance per second; service: seconds for a row; wait: the mean
    wait that was measured, without what is spent gathering for the cadence. Where variation was
    not measured, the formula takes that of Poisson.
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
        """The wait that Kingman's formula gives; infinite where more arrives than can be served."""
        rho = self.utilisation
        if rho >= 1:
            return math.inf
        return rho / (1 - rho) * self.service * self.variation

    @property
    def variation(self) -> float:
        """The mean of the squared coefficients of variation of arrivals and of service."""
        found = (1.0 if cv is None else cv for cv in (self.arrival_cv, self.service_cv))
        return sum(cv**2 for cv in found) / 2

    @property
    def error(self) -> float | None:
        """Nephele's e: the measured wait for each second of the formula's; None where that is 0."""
        expected = self.kingman
        return self.wait / expected if 0 < expected < math.inf else None


def queue(pipeline: PipelineMetrics) -> Queue | None:
    """The queueing inputs of a pipeline."""
    if None in (pipeline.arrival_rate, pipeline.service, pipeline.wait):
        return None
    assert pipeline.arrival_rate is not None
    assert pipeline.service is not None
    assert pipeline.wait is not None
    return Queue(
        parallelism=pipeline.parallelism,
        rate=pipeline.arrival_rate / pipeline.parallelism,
        service=pipeline.service,
        arrival_cv=pipeline.arrival_cv,
        service_cv=pipeline.service_cv,
        wait=max(0.0, pipeline.wait - (pipeline.batching or 0.0)),
    )
