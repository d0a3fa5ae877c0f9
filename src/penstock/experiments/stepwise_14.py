"""Stepwise profiling's figure 14: slice, k and the latency constraint, on four machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.experiments.climb import Climb
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock.experiments.stepwise import PAPER, first, line, note, rounds, throughput
from penstock.experiments.stepwise_static import NOTE, Best
from penstock.report.figures import Figure, Level, Panel

USUAL = "usual"
BEST = "best static"
SLICES, KS, LATENCIES = (0.1, 0.5), (1.5, 3.0), (0.3, 0.7)
"""Beside the usual 0.3, 2 and 0.5 s."""


def cases(
    slices: Sequence[float],
    ks: Sequence[float],
    latencies: Sequence[float],
    most_rounds: int,
    tries: int,
    turn: float,
    settle: float,
    observations: int,
) -> Sequence[Case]:
    most = {"most_rounds": most_rounds}
    usual = Climb("TSA", "stepwise", 4, 10, turn, settle, observations, options=most)
    found = [Case(USUAL, usual)]
    found += [
        Case(f"slice {value:g}", replace(usual, options={**most, "slice": value}))
        for value in slices
    ]
    found += [Case(f"k {value:g}", replace(usual, options={**most, "k": value})) for value in ks]
    found += [Case(f"{1000 * v:g} ms", replace(usual, latency=v)) for v in latencies]
    return (*found, Case(BEST, Best(usual, tries)))


def _beside(case: str) -> Read:
    return lambda data: throughput(data, case) / throughput(data, USUAL)


def _of_best(case: str) -> Read:
    return lambda data: throughput(data, case) / throughput(data, BEST)


def _begins(case: str) -> Read:
    return lambda data: first(data, case) / first(data, USUAL)


def _second(case: str) -> Read:
    """The first round in which a source is not the bound."""
    return lambda data: float(
        rounds(data, case)[1]["throughput"] / rounds(data, USUAL)[1]["throughput"]
    )


def _tuned(case: str) -> Read:
    """Rounds of the last step, in which single instances are tried."""
    return lambda data: float(sum("operator" in r["changed"] for r in rounds(data, case)))


def _rounds(case: str) -> Read:
    return lambda data: float(len(rounds(data, case)))


def picture(data: Data) -> Figure:
    groups = {
        "slice": [f"slice {v:g}" for v in SLICES],
        "k": [f"k {v:g}" for v in KS],
        "latency": [f"{1000 * v:g} ms" for v in LATENCIES],
    }
    panels = []
    for title, names in groups.items():
        here = [c for c in (USUAL, *names) if c in data.cases]
        lines = tuple(line(data, case, case, tone) for tone, case in enumerate(here))
        best = (Level(throughput(data, BEST), BEST),) if BEST in data.cases else ()
        panels.append(Panel("round", "tweets/s", lines, levels=best, title=title))
    return Figure(
        "Sentiment analysis on four machines: the profiler's parameters",
        tuple(panels),
        columns=3,
        note=note(data, "figure 14"),
    )


_COARSE = (
    "the first round is bound by its one source whatever the slice is; later ones with coarse "
    "ratios carry less, until so many instances are added that the processors are the bound, which "
    "cost nothing here and throughput in the seed"
)

FIGURE_14 = Experiment(
    "stepwise-14",
    "Slice, k and latency constraint of the profiler",
    PAPER,
    "figure 14",
    cases,
    (
        Claim("slice 0.5: first round beside the usual", 0.909, _begins("slice 0.5"), why=_COARSE),
        Claim(
            "slice 0.5: final throughput beside the usual",
            0.797,
            _beside("slice 0.5"),
            neutral=1.0,
            why=_COARSE,
        ),
        Claim("slice 0.5: second round beside the usual", None, _second("slice 0.5")),
        Claim("slice 0.1: first round beside the usual", None, _begins("slice 0.1")),
        Claim("slice 0.1: final throughput beside the usual", None, _beside("slice 0.1")),
        Claim("k 3: rounds of single instances", 0, _tuned("k 3")),
        Claim("k 1.5: rounds of single instances", None, _tuned("k 1.5")),
        Claim("k 2: rounds of single instances", None, _tuned(USUAL)),
        Claim("k 3: final throughput beside k 2", None, _beside("k 3")),
        Claim("k 1.5: final throughput beside k 2", None, _beside("k 1.5")),
        Claim("300 ms: final throughput beside 500 ms", None, _beside("300 ms")),
        Claim("700 ms: final throughput beside 500 ms", None, _beside("700 ms")),
        *(
            Claim(f"{case}: beside the best static plan", None, _of_best(case))
            for case in (USUAL, "slice 0.5", "slice 0.1")
        ),
        Claim("500 ms: rounds", None, _rounds(USUAL)),
        Claim("300 ms: rounds", None, _rounds("300 ms")),
        Claim("700 ms: rounds", None, _rounds("700 ms")),
    ),
    picture,
    notes=(NOTE,),
    size={
        "slices": SLICES,
        "ks": KS,
        "latencies": LATENCIES,
        "most_rounds": 40,
        "tries": 60,
        "turn": 0.5,
        "settle": 8.0,
        "observations": 20,
    },
    quick={"most_rounds": 8, "tries": 8, "settle": 4.0, "observations": 8},
    no_spark="a round on two cores varies by more than these parameters change",
)

EXPERIMENTS = (FIGURE_14,)
