"""The difference of two plans, as actions and as a value that can be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from penstock.dataflow import duration
from penstock.errors import InvalidPlan
from penstock.plan.plan import Pipeline, Plan


@dataclass(frozen=True)
class ParallelismChange:
    """A pipeline gets another number of instances."""

    kind: ClassVar[str] = "rescale"
    pipeline: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.pipeline}: parallelism {self.before} -> {self.after}"


@dataclass(frozen=True)
class AdmissionChange:
    """A pipeline gets another limit on the rows of a batch; None is no limit."""

    kind: ClassVar[str] = "admit"
    pipeline: str
    before: int | None
    after: int | None

    def __str__(self) -> str:
        before, after = (_or_word(rows, "unlimited") for rows in (self.before, self.after))
        return f"{self.pipeline}: admission {before} -> {after}"


@dataclass(frozen=True)
class CadenceChange:
    """A pipeline gets another time between batches, in seconds."""

    kind: ClassVar[str] = "cadence"
    pipeline: str
    before: float
    after: float

    def __str__(self) -> str:
        before, after = duration.text(self.before), duration.text(self.after)
        return f"{self.pipeline}: cadence {before} -> {after}"


@dataclass(frozen=True)
class CeilingChange:
    """A pipeline gets another number of state partitions; None leaves it to the engine."""

    kind: ClassVar[str] = "ceiling"
    pipeline: str
    before: int | None
    after: int | None

    def __str__(self) -> str:
        before, after = (_or_word(parts, "automatic") for parts in (self.before, self.after))
        return f"{self.pipeline}: ceiling {before} -> {after}"


@dataclass(frozen=True)
class Regrouping:
    """Operators are grouped into other pipelines: a split, a merge, or both."""

    before: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]

    @property
    def kind(self) -> str:
        if len(self.before) == 1 and len(self.after) > 1:
            return "split"
        if len(self.before) > 1 and len(self.after) == 1:
            return "merge"
        return "regroup"

    def __str__(self) -> str:
        before, after = (
            " | ".join("+".join(operators) for operators in side) or "nothing"
            for side in (self.before, self.after)
        )
        return f"{self.kind} {before} into {after}"


@dataclass(frozen=True)
class ExecutorsChange:
    """The plan gets another number of executors; `leaving` names those that go, if chosen."""

    kind: ClassVar[str] = "executors"
    before: int
    after: int
    leaving: tuple[str, ...] = ()

    def __str__(self) -> str:
        without = f", without {', '.join(self.leaving)}" if self.leaving else ""
        return f"executors {self.before} -> {self.after}{without}"


Action = (
    ParallelismChange
    | AdmissionChange
    | CadenceChange
    | CeilingChange
    | Regrouping
    | ExecutorsChange
)


@dataclass(frozen=True)
class Change:
    """The difference between two plans; false if they are equal."""

    before: Plan
    after: Plan

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """The actions that lead from `before` to `after`, ordered as the pipelines of `before`.

        Empty if and only if the plans are equal. A pipeline that no action names is the same in
        both. The settings of a regrouped pipeline are compared with those of the pipeline that
        held its first operator.
        """
        return tuple(self._actions())

    def _actions(self) -> Iterator[Action]:
        for old, new in _components(self.before, self.after):
            groups = tuple(p.operators for p in old), tuple(p.operators for p in new)
            if groups[0] == groups[1]:
                for was, now in zip(old, new, strict=True):
                    yield from _setting_changes(was, now)
                continue
            yield Regrouping(*groups)
            for now in new:
                held = next((p for p in old if now.name in p.operators), None)
                if held is not None:
                    yield from _setting_changes(held, now, regrouped=True)
        if self.before.executors != self.after.executors:
            yield ExecutorsChange(self.before.executors, self.after.executors, self.after.leaving)

    @property
    def undo(self) -> Change:
        """The change back to `before`."""
        return Change(self.after, self.before)

    def apply(self, plan: Plan) -> Plan:
        """Return `after`; raise `InvalidPlan` if `plan` is not `before`."""
        if plan != self.before:
            raise InvalidPlan(
                f"the change ({self}) was made for another plan than the one in force"
            )
        return self.after

    def __bool__(self) -> bool:
        return bool(self.actions)

    def __str__(self) -> str:
        return "; ".join(map(str, self.actions)) or "no change"

    def to_json(self) -> dict[str, Any]:
        """Both plans as JSON, and the actions as text for people."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "actions": [str(action) for action in self.actions],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        if not isinstance(data, Mapping) or not {"before", "after"} <= set(data):
            raise InvalidPlan("a change is written as {'before': plan, 'after': plan}")
        return cls(Plan.from_json(data["before"]), Plan.from_json(data["after"]))


def _components(
    before: Plan, after: Plan
) -> Iterator[tuple[tuple[Pipeline, ...], tuple[Pipeline, ...]]]:
    """Yield pipelines that differ (old, new), grouped by the operators they share."""
    gone = Counter(before.pipelines) - Counter(after.pipelines)
    come = Counter(after.pipelines) - Counter(before.pipelines)
    sides = [*gone.elements(), *come.elements()]
    olds = gone.total()
    holders: dict[str, list[int]] = {}
    for at, pipeline in enumerate(sides):
        for name in pipeline.operators:
            holders.setdefault(name, []).append(at)
    seen: set[int] = set()
    for seed in range(len(sides)):
        if seed in seen:
            continue
        group, stack = {seed}, [seed]
        while stack:
            names = sides[stack.pop()].operators
            linked = {at for name in names for at in holders[name]} - group
            group |= linked
            stack += linked
        seen |= group
        yield (
            tuple(sides[at] for at in sorted(group) if at < olds),
            tuple(sides[at] for at in sorted(group) if at >= olds),
        )


def _setting_changes(old: Pipeline, new: Pipeline, *, regrouped: bool = False) -> Iterator[Action]:
    if old.parallelism != new.parallelism:
        yield ParallelismChange(new.name, old.parallelism, new.parallelism)
    if old.admission != new.admission:
        yield AdmissionChange(new.name, old.admission, new.admission)
    if old.cadence != new.cadence:
        yield CadenceChange(new.name, old.cadence, new.cadence)
    # Regrouping moves state, and its ceiling with it, to another pipeline: not a change by itself.
    moved = regrouped and None in (old.ceiling, new.ceiling)
    if old.ceiling != new.ceiling and not moved:
        yield CeilingChange(new.name, old.ceiling, new.ceiling)


def _or_word(value: int | None, word: str) -> str:
    return word if value is None else str(value)
