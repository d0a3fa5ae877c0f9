"""Attempts: a change of one section that may or may not pay, as a value that knows its undo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.models.sections import Section
from penstock.plan.plan import Pipeline, Plan

Configuration = frozenset[tuple[tuple[str, ...], int]]
"""Which operators run together with which parallelism; what an engine adds does not count."""


@dataclass(frozen=True)
class Attempt:
    """Other pipelines for a section, with the reason in words and numbers.

    promise: the share by which its throughput should rise, None if that is no reason for it.
    """

    section: Section
    before: tuple[Pipeline, ...]
    after: tuple[Pipeline, ...]
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    promise: float | None = None

    @property
    def configuration(self) -> Configuration:
        return configuration(self.after)

    @property
    def slots(self) -> int:
        """Instances more than before."""
        return sum(p.parallelism for p in self.after) - sum(p.parallelism for p in self.before)

    @property
    def undo(self) -> Attempt:
        return replace(
            self,
            before=self.after,
            after=self.before,
            why=f"{self.section.name} back",
            promise=None,
        )


def configuration(pipelines: Iterable[Pipeline]) -> Configuration:
    """What counts of some pipelines when two plans are compared."""
    return frozenset((p.operators, p.parallelism) for p in pipelines)


def carried_out(plan: Plan, attempts: Iterable[Attempt]) -> Plan:
    """A plan with the sections of some attempts as these want them, whatever they were."""
    wanted = {a.section: a.after for a in attempts}
    inside = {name for section in wanted for name in section.operators}
    kept = (p for p in plan.pipelines if p.operators[0] not in inside)
    return replace(plan, pipelines=(*kept, *(p for after in wanted.values() for p in after)))


def listed(words: Iterable[str], joint: str = "; ", most: int = 5) -> str:
    """The first few of many, and how many more there are."""
    found = list(words)
    left = len(found) - most
    return joint.join([*found[:most], *([f"and {left} more"] if left > 0 else [])])
