"""Es-Stream's figures 9 to 12: latency at steady and at rising rates.

All rivals have as many instances as Es-Stream arrives at: EvenScheduler has them evenly over the
operators, DRS puts them where its model of the flow says, and the best static plan is searched for.
R-Storm puts instances that talk to each other on the same machine; the simulator has no network
that this would spare, so it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.experiments import es_stream
from penstock.experiments.es_stream import COUNT, PAPER, TOP, Application
from penstock.experiments.experiment import (
    Case,
    Claim,
    Data,
    Experiment,
    Job,
    Read,
    Record,
    Setting,
)
from penstock.experiments.play import Play
from penstock.experiments.rivals import best_static
from penstock.models import instances
from penstock.plan.limits import Limits
from penstock.policies.drs import Drs
from penstock.report.figures import Bars, Figure, Panel

WAYS = ("es-stream", "drs", "even", "best static")
LATENCIES = {
    ("COMMCount", 1800): {"es-stream": 2.1, "drs": 2.9, "even": 6.4},
    ("Top_N", 2700): {"es-stream": 5.9, "drs": 7.1, "even": 14.2},
}


def arrived(app: Application, rate: float) -> int:
    """The instances of Es-Stream's formula at a rate."""
    share = es_stream.SEED.share
    return sum(instances.best(rate * s, share) for s in app.services.values())


def cases(rates: Sequence[int], seconds: float) -> Sequence[Case]:
    found = []
    for app in (COUNT, TOP):
        for rate in rates:
            total = arrived(app, rate)
            even = es_stream.scenario(app, f"{rate}/s", seconds, app.even(total))
            limits = Limits(slots=total + 1, executors=es_stream.NODES)
            plays: dict[str, Job] = {
                "es-stream": Play(even, es_stream.SEED, limits=replace(limits, slots=None)),
                "drs": Play(even, Drs(budget=True), limits=limits),
                "even": Play(even),
                "best static": Best(app, rate, seconds, total),
            }
            found += [Case(f"{way}, {app.name}, {rate}", job) for way, job in plays.items()]
    return found


@dataclass(frozen=True)
class Best:
    """So many instances, dealt to the operators so that the mean latency is the shortest."""

    app: Application
    rate: int
    seconds: float
    total: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        names, tried = self.app.operators, 0

        def dealt(found: Mapping[str, int]) -> dict[str, int]:
            """The last operator gets what the others leave."""
            return {**found, names[-1]: self.total - sum(found.values())}

        def score(found: Mapping[str, int]) -> float:
            nonlocal tried
            tried += 1
            records = self._played(setting, dealt(found), 15.0, str(tried))
            data = Data(tuple({"case": "", **r} for r in records))
            return -es_stream.latency(data, "", 5.0, 15.0)

        def allowed(found: Mapping[str, int]) -> bool:
            loads = {n: self.rate * s for n, s in self.app.services.items()}
            return all(k > loads[n] for n, k in dealt(found).items())

        share = es_stream.SEED.share
        start = {n: instances.best(self.rate * self.app.services[n], share) for n in names[:-1]}
        choices = {n: range(1, self.total) for n in names[:-1]}
        best = best_static(choices, score, start, exhaustive=0, patience=1, allowed=allowed)
        found = dealt(best)
        whole = self._played(setting, found, self.seconds, "whole")
        return [{"kind": "found", **found}, *whole]

    def _played(
        self, setting: Setting, found: Mapping[str, int], seconds: float, place: str
    ) -> list[Record]:
        scenario = es_stream.scenario(self.app, f"{self.rate}/s", seconds, found)
        within = replace(setting, scratch=setting.scratch / place, tell=lambda share: None)
        return list(Play(scenario)(within))


# --- reading ------------------------------------------------------------------------------------


def steady(way: str, app: str, rate: int) -> Read:
    """The mean latency of the second half of a run, in milliseconds."""

    def read(data: Data) -> float:
        end = float(data.parameters["seconds"])
        return es_stream.latency(data, f"{way}, {app}, {rate}", end / 2, end)

    return read


def beside(way: str, app: str, rate: int) -> Read:
    """The latency of a rival over that of Es-Stream."""

    def read(data: Data) -> float | None:
        mine, other = steady("es-stream", app, rate)(data), steady(way, app, rate)(data)
        return None if mine is None or other is None else other / mine

    return read


def picture(data: Data) -> Figure:
    rates = data.parameters["rates"]
    panels = []
    for app in (COUNT.name, TOP.name):
        bars = tuple(Bars(way, tuple(steady(way, app, r)(data) for r in rates)) for way in WAYS)
        names = tuple(f"{r:,}" for r in rates)
        panels.append(
            Panel("tuples/s", "mean latency (ms)", categories=names, bars=bars, title=app, log=True)
        )
    return Figure(
        "Latency at steady rates", tuple(panels), note=es_stream.note(data, "figures 9 to 12")
    )


_QUEUES = (
    "all of them have enough for their rate here, and what is left is the time of the operators; "
    "that instances which do little cost the others processor time, memory and packets, which "
    "makes most of the seed's difference, is not simulated"
)
_SHORT = (
    "the seed's own rates leave 1.9 ms of work for a tuple of Top_N, so most of its 5.9 ms are "
    "waits and ways that its model does not have"
)


def _claims() -> list[Claim]:
    found = []
    for (app, rate), seeds in LATENCIES.items():
        what = f"{app} at {rate:,}/s"
        own = seeds["es-stream"]
        found.append(
            Claim(f"{what}: latency", own, steady("es-stream", app, rate), "ms", why=_SHORT)
        )  # fmt: skip
        for way in ("drs", "even"):
            found.append(
                Claim(f"{what}: {way} beside Es-Stream", seeds[way] / own,
                      beside(way, app, rate), neutral=1.0, why=_QUEUES)
            )  # fmt: skip
        found.append(Claim(f"{what}: best static beside Es-Stream", None,
                           beside("best static", app, rate)))  # fmt: skip
    return found


def _rise(way: str, app: str) -> Read:
    """Milliseconds more at the highest rate than at the lowest."""

    def read(data: Data) -> float | None:
        rates = data.parameters["rates"]
        low, high = (steady(way, app, r)(data) for r in (rates[0], rates[-1]))
        return None if low is None or high is None else high - low

    return read


LATENCY = Experiment(
    "es-stream-9",
    "Latency at steady and at rising rates",
    PAPER,
    "figures 9 to 12",
    cases,
    (
        *_claims(),
        *(
            Claim(f"{app.name}: latency from the lowest rate to the highest, {way}", None,
                  _rise(way, app.name), "ms")
            for app in (COUNT, TOP)
            for way in ("es-stream", "drs", "even")
        ),
    ),
    picture,
    size={"rates": (900, 1800, 2700, 3600), "seconds": 180.0},
    quick={"rates": (1800, 2700), "seconds": 60.0},
    no_spark="a batch takes longer on Spark than all of these latencies",
)  # fmt: skip


EXPERIMENTS = (LATENCY,)
