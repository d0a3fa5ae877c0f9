"""Compares ways of scaling up on the same application and machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle, product

from penstock.plan import fusion
from penstock.predict import stress_load
from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.stepwise import storm
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
        best = BestUnderStress(first, self.tries, tuple(known))(self._part(setting, len(self.ways)))
        return [*found, *({"case": self.best, **record} for record in best)]

    def _part(self, setting: Setting, number: int) -> Setting:
        """The setting of one of them."""

        def tell(share: float) -> None:
            setting.tell((number + share) / (len(self.ways) + 1))

        return replace(setting, scratch=setting.scratch / str(number), tell=tell)


NOTE = (
    "Best static plan: the one with the highest throughput under stress, regardless of latency, "
    "among those that the rivals tried and those that a search tried. A plan that a rival "
    "observed in a round counts with that observation. The search starts from the best of these "
    "and from instances in proportion to the work of operators, enough to fill the processors "
    "one to four times. Spark's dynamic allocation does not apply, since the machines are "
    "fixed."
)

STARTS = (1, 2, 3, 4)
"""How many times the initial plans fill the processors; more balances machines better."""

Instances = Mapping[str, int]


@dataclass(frozen=True)
class BestUnderStress:
    """The static plan with the highest throughput, by a search from several plans."""

    climb: Climb
    tries: int
    known: tuple[Record, ...] = ()
    begin: int = 3

    def __call__(self, setting: Setting) -> Sequence[Record]:
        app, processors = storm.app(self.climb.app), 2 * self.climb.nodes
        starts = [*self.plans, *(filling(app, times * processors) for times in STARTS)]
        names = tuple(starts[-1])
        brief = replace(self.climb, turn=0.5, settle=3.0, observations=4)
        looked: dict[tuple[int, ...], float] = {}
        scratches = (setting.scratch / str(n) for n in count())

        def carried(found: Instances, one: Climb) -> list[Record]:
            quiet = replace(setting, scratch=next(scratches), tell=lambda share: None)
            return [*replace(one, way="static", plan=found)(quiet)]

        def score(found: Instances) -> float:
            key = tuple(found[name] for name in names)
            if key not in looked:
                setting.tell(0.9 * min(1.0, len(looked) / (self.tries + len(starts))))
                looked[key] = float(carried(found, brief)[0]["throughput"])
            return looked[key]

        start = max(starts, key=score)
        most = len(looked) + self.tries
        turned(start, most_of(app), score, lambda: len(looked) < most)
        best = sorted(looked, key=lambda found: looked[found], reverse=True)[: 1 + self.tries // 10]
        seen = dict.fromkeys([tuple(start[name] for name in names), *best])
        rounds = [carried(dict(zip(names, found, strict=True)), self.climb)[0] for found in seen]
        top = max([*rounds, *self.known], key=_throughput)
        return [{**top, "number": 1, "changed": "start", "final": True}]

    @property
    def plans(self) -> Sequence[Instances]:
        """The plans of rivals to start from, best first."""
        best = sorted(self.known, key=_throughput, reverse=True)
        plans = {
            tuple(r["instances"]): dict(zip(r["pipelines"], r["instances"], strict=True))
            for r in best
        }
        return [*plans.values()][: self.begin]


def _throughput(found: Record) -> float:
    return float(found["throughput"])


def turned(
    start: Instances,
    most: Mapping[str, int | None],
    score: Callable[[Instances], float],
    more: Callable[[], bool],
) -> Instances:
    """Coordinate search: change one number after the other, up or down by a quarter."""
    best, top, still = dict(start), score(start), 0
    for name, by in cycle(product(start, (1, -1))):
        if still == 2 * len(start) or not more():
            return best
        still += 1
        size = best[name] + by * max(1, best[name] // 4)
        ceiling = most[name]
        if size < 1 or (ceiling is not None and size > ceiling):
            continue
        found = {**best, name: size}
        if (scored := score(found)) > top:
            best, top, still = found, scored, 0
    return best


def most_of(app: storm.App) -> dict[str, int | None]:
    """Largest parallelism of each pipeline; None means unlimited."""
    plan = stress_load.first_plan(app.graph)
    return {p.name: fusion.bounds(app.graph, p.operators).most for p in plan.pipelines}


def filling(app: storm.App, processors: int) -> dict[str, int]:
    """Instances in proportion to the work per source record of each operator."""
    rows = app.rows()
    times = {n: rows[n] * step.service.mean for n, step in app.steps.items()}
    busy = sum(times[n] * step.cpu for n, step in app.steps.items())
    return {n: max(1, round(processors * time / busy)) for n, time in times.items()}
