"""What was tried and did not pay. It is not tried again until the load is another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.models.attempts import Configuration, configuration
from penstock.models.readings import Readings
from penstock.models.sections import Section
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class Load:
    """What a section has to do.

    rate: rows per second that come to it, or that it takes where the former is not known; busy: of
    its busiest pipeline; behind: whether rows wait anywhere in the flow.
    """

    rate: float | None = None
    busy: float | None = None
    behind: bool | None = None

    def changed(self, now: Load, threshold: float) -> bool:
        """Whether it is another load by more than a share of it, or rows wait where none did."""
        if self.behind is False and now.behind is True:
            return True
        pairs = ((self.rate, now.rate), (self.busy, now.busy))
        return any(
            abs(new - old) > threshold * old
            for old, new in pairs
            if old is not None and new is not None
        )


@dataclass(frozen=True)
class Failure:
    """A configuration of a section, and the load under which it failed."""

    section: Section
    configuration: Configuration
    load: Load


def load(section: Section, plan: Plan, readings: Readings, waiting: float) -> Load:
    """The load of a section under a plan."""
    heads = {plan.pipeline_of(entry).name for entry in section.entries}
    entering = [readings.pipelines[name] for name in heads if name in readings.pipelines]
    rates = [r.rate if r.arrival is None else r.arrival for r in entering]
    known = [rate for rate in rates if rate is not None]
    inside = [readings.pipelines.get(p.name) for p in section.pipelines(plan)]
    busy = [r.busy for r in inside if r is not None and r.busy is not None]
    return Load(
        sum(known) if len(known) == len(heads) else None,
        max(busy, default=None),
        readings.behind(waiting),
    )


def remembered(
    failures: Iterable[Failure], plan: Plan, readings: Readings, waiting: float, threshold: float
) -> tuple[Failure, ...]:
    """The failures that still count under the load of now."""
    return tuple(
        f
        for f in failures
        if not f.load.changed(load(f.section, plan, readings, waiting), threshold)
    )


def too_small(section: Section, before: Iterable[Pipeline], now: Load) -> Failure:
    """A configuration that was outgrown: it would not do for this load, however busy it is now."""
    return Failure(section, configuration(before), Load(now.rate))
