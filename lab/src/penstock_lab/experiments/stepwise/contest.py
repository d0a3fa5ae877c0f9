"""Compares ways of scaling up on the same application and machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.stepwise.best_static import Best
from penstock_lab.experiments.stepwise.climb import Climb

ROUNDS = (
    "All ways of scaling up get as many rounds as stepwise profiling took. The threshold rule "
    "may end earlier, when nothing is above it."
)


@dataclass(frozen=True)
class Contest:
    """Runs several ways of scaling up one after the other, then the best static plan."""

    ways: Mapping[str, Climb]
    best: str
    tries: int

    @property
    def names(self) -> tuple[str, ...]:
        """The cases that it tells."""
        return (*self.ways, self.best)

    def __call__(self, setting: Setting) -> Sequence[Record]:
        found: list[Record] = []
        known: list[Record] = []
        first = next(iter(self.ways.values()))
        rounds = first.rounds
        for number, (name, climb) in enumerate(self.ways.items()):
            told = [*replace(climb, rounds=rounds)(self._part(setting, number))]
            took = [r for r in told if r["kind"] == "round"]
            if climb is first:
                rounds = len(took)
            known += took
            found += [{"case": name, **record} for record in told]
        best = Best(first, self.tries, tuple(known))(self._part(setting, len(self.ways)))
        return [*found, *({"case": self.best, **record} for record in best)]

    def _part(self, setting: Setting, number: int) -> Setting:
        """The setting of one of them."""

        def tell(share: float) -> None:
            setting.tell((number + share) / (len(self.ways) + 1))

        return replace(setting, scratch=setting.scratch / str(number), tell=tell)
