"""The best static plan of Es-Stream's simulated applications at a steady rate.

It has as many instances as Es-Stream's formula, on the fewest machines that hold them, and is
searched for by an instance more here and less there, from Es-Stream's own plan on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.policies.es_stream import marginal_analysis
from penstock_lab.experiments.es_stream import common
from penstock_lab.experiments.es_stream.common import Application
from penstock_lab.experiments.experiment import Data, Record, Setting
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import best_static


def arrived(app: Application, rate: float) -> int:
    """Number of instances by Es-Stream's formula at a rate."""
    share = common.SEED.share
    return sum(marginal_analysis.best_instances(rate * s, share) for s in app.services.values())


@dataclass(frozen=True)
class BestAllocation:
    """The allocation of this many instances to operators with the lowest mean latency."""

    app: Application
    rate: int
    seconds: float
    total: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        names, tried = self.app.operators, 0

        def dealt(found: Mapping[str, int]) -> dict[str, int]:
            """The last operator gets the remaining instances."""
            return {**found, names[-1]: self.total - sum(found.values())}

        def score(found: Mapping[str, int]) -> float:
            nonlocal tried
            tried += 1
            records = self._played(setting, dealt(found), 12.0, str(tried))
            data = Data(tuple({"case": "", **r} for r in records))
            return -common.latency(data, "", 3.0, 12.0)

        def allowed(found: Mapping[str, int]) -> bool:
            loads = {n: self.rate * s for n, s in self.app.services.items()}
            return all(k > loads[n] for n, k in dealt(found).items())

        share = common.SEED.share
        start = {
            n: marginal_analysis.best_instances(self.rate * self.app.services[n], share)
            for n in names[:-1]
        }
        choices = {n: range(1, self.total) for n in names[:-1]}
        best = best_static(choices, score, start, exhaustive=0, patience=1, allowed=allowed)

        def whole(at: int, found: Mapping[str, int]) -> list[Record]:
            return self._played(setting, dealt(found), self.seconds, f"whole {at}")

        def late(records: Sequence[Record]) -> float:
            data = Data(tuple({"case": "", **r} for r in records))
            return common.latency(data, "", self.seconds / 2, self.seconds)

        ends = [(found, whole(at, found)) for at, found in enumerate((best, start))]
        found, records = min(ends, key=lambda end: late(end[1]))
        return [{"kind": "found", **dealt(found)}, *records]

    def _played(
        self, setting: Setting, found: Mapping[str, int], seconds: float, place: str
    ) -> list[Record]:
        nodes = self.app.packed(self.total, self.rate)
        scenario = common.scenario(self.app, f"{self.rate}/s", seconds, found, nodes)
        within = replace(setting, scratch=setting.scratch / place, tell=lambda share: None)
        return list(Play(scenario)(within))
