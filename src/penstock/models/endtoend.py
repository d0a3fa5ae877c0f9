"""A latency constraint as it was measured from end to end, against what is known of its parts.

The times of the pipelines, waiting and work, do not add up to all that a row takes: an operator may
keep it until the next write, and something may take time that nobody measures. What is left over is
no matter of instances, and has to be reckoned with like work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.dataflow import duration
from penstock.dataflow.operator import Aggregate, Latency, Operator
from penstock.metrics.snapshot import PipelineMetrics

_DIGITS = 1e-6


@dataclass(frozen=True)
class EndToEnd:
    """Seconds from one end of a constraint to the other, and how many of them its parts explain."""

    bound: float
    mean: float
    explained: float

    @property
    def missed(self) -> bool:
        return self.mean > self.bound

    @property
    def rest(self) -> float:
        """What the parts do not explain, but for the last digits."""
        rest = self.mean - self.explained
        return rest if rest > _DIGITS * self.mean else 0.0


def passed(metrics: PipelineMetrics | None) -> float:
    """Seconds in a pipeline, from a row's arrival to its output, as they were measured."""
    if metrics is None:
        return 0.0
    worked = metrics.service if metrics.batch_seconds is None else metrics.batch_seconds
    return (metrics.wait or 0.0) + (worked or 0.0)


def explained(
    names: Iterable[str],
    upstream: Mapping[str, tuple[str, ...]],
    seconds: Mapping[str, float],
) -> float:
    """The longest way through pipelines that take so many seconds, each after all that feed it."""
    longest: dict[str, float] = {}
    for name in names:
        before = (longest[up] for up in upstream[name] if up in longest)
        longest[name] = max(before, default=0.0) + seconds[name]
    return max(longest.values(), default=0.0)


def read_write(operators: Iterable[Operator]) -> bool:
    """Whether one of them is asked for the time from a read to the next write."""
    return any(one.latency is Latency.READ_WRITE for one in operators)


def declared(operators: Iterable[Operator]) -> float:
    """Seconds from a read to the next write, as far as they are written in the dataflow.

    A row that waits for the end of its window waits for half of one on average, or of its slide,
    and then for the watermark. Other operators do not say.
    """
    return math.fsum(_window(one.body) for one in operators if one.latency is Latency.READ_WRITE)


def _window(body: object) -> float:
    if not isinstance(body, Aggregate) or body.window is None or body.emit != "final":
        return 0.0
    step = body.window.slide or body.window.size
    return duration.seconds(step) / 2 + duration.seconds(body.window.watermark or 0)
