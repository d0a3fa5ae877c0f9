"""The best static plan of an application on some machines, by a long search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from penstock.experiments import storm
from penstock.experiments.climb import Climb
from penstock.experiments.experiment import Record, Setting
from penstock.experiments.rivals import best_static

NOTE = (
    "Best static: the plan that carries most under stress, whatever its latency, of those that a "
    "hill climb tried. It begins with instances in proportion to the work of operators, enough to "
    "fill the processors once to four times. Spark's dynamic allocation has nothing to decide, "
    "since the machines are given."
)

STARTS = (1, 2, 3, 4)
"""How often the plans to begin with fill the processors: with more, machines are more even."""


@dataclass(frozen=True)
class Best:
    """The static plan that carries most, by a search from some that fill the processors.

    Its score is the throughput under stress; what it takes to meet the latency is left out. What
    looks best is observed for as long as a round, since one look may flatter. tries: plans that
    are looked at; a tenth of them, and the one it begins with, are observed.
    """

    climb: Climb
    tries: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        app, processors = storm.app(self.climb.app), 2 * self.climb.nodes
        starts = [filling(app, times * processors) for times in STARTS]
        brief = replace(self.climb, turn=0.5, settle=3.0, observations=4)
        looked: dict[tuple[int, ...], float] = {}
        scratches = (setting.scratch / str(n) for n in count())

        def carried(found: Mapping[str, int], one: Climb) -> list[Record]:
            quiet = replace(setting, scratch=next(scratches), tell=lambda share: None)
            return [*replace(one, way="static", plan=found)(quiet)]

        def score(found: Mapping[str, int]) -> float:
            if len(looked) >= self.tries:
                return 0.0
            setting.tell(0.9 * len(looked) / self.tries)
            throughput = float(carried(found, brief)[0]["throughput"])
            looked[tuple(found.values())] = throughput
            return throughput

        start = max(starts, key=score)
        choices = {name: range(1, 2 * n + 3) for name, n in start.items()}
        best_static(choices, score, start, exhaustive=0, patience=0)
        best = sorted(looked, key=lambda found: looked[found], reverse=True)[: 1 + self.tries // 10]
        seen = dict.fromkeys([tuple(start.values()), *best])
        rounds = [carried(dict(zip(start, found, strict=True)), self.climb) for found in seen]
        return max(rounds, key=lambda found: float(found[0]["throughput"]))


def filling(app: storm.App, processors: int) -> dict[str, int]:
    """Instances in proportion to the time that a record of a source takes of each operator."""
    rows = app.rows()
    times = {n: rows[n] * step.service.mean for n, step in app.steps.items()}
    busy = sum(times[n] * step.cpu for n, step in app.steps.items())
    return {n: max(1, round(processors * time / busy)) for n, time in times.items()}
