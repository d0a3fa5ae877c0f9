"""Stepwise profiling's figure 14: slice, k and the latency constraint, on four machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.drawing.figures import Figure, Level, Panel
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock_lab.experiments.stepwise import storm
from penstock_lab.experiments.stepwise.climb import Climb
from penstock_lab.experiments.stepwise.common import (
    PAPER,
    SLOWED,
    first,
    kept,
    line,
    marks,
    note,
    rounds,
    slowed,
    throughput,
    tuned,
)
from penstock_lab.experiments.stepwise.contest import NOTE, Contest

USUAL = "usual"
USUAL_K = 2.0
CHAIN = "chain"
"""The longest of stepwise-12 on six machines, where what k says decides on the last step."""
BEST = "best static"
SLICES, KS, LATENCIES = (0.1, 0.5), (1.5, 3.0), (0.3, 0.7)
"""Beside the usual 0.3, 2 and 0.5 s."""


def cases(
    slices: Sequence[float],
    ks: Sequence[float],
    latencies: Sequence[float],
    depth: int,
    tries: int,
    turn: float,
    settle: float,
    observations: int,
) -> Sequence[Case]:
    usual = Climb("TSA", "stepwise", 4, turn=turn, settle=settle, observations=observations)
    ways = {USUAL: usual}
    ways |= {f"slice {value:g}": replace(usual, options={"slice": value}) for value in slices}
    ways |= {f"k {value:g}": replace(usual, options={"k": value}) for value in ks}
    ways |= {f"{1000 * v:g} ms": replace(usual, latency=v) for v in latencies}
    chain = replace(usual, app=storm.mixed(depth), nodes=6)
    chains = (Case(_chain(k), replace(chain, options={"k": k})) for k in sorted({*ks, USUAL_K}))
    return (Case("TSA", Contest(ways, BEST, tries)), *chains)


def _beside(case: str) -> Read:
    return lambda data: throughput(data, case) / throughput(data, USUAL)


def _of_best(case: str) -> Read:
    return lambda data: throughput(data, case) / throughput(data, BEST)


def _begins(case: str) -> Read:
    return lambda data: first(data, case) / first(data, USUAL)


def _second(case: str) -> Read:
    """The first round that no source limits."""
    return lambda data: float(
        rounds(data, case)[1]["throughput"] / rounds(data, USUAL)[1]["throughput"]
    )


def _platform(case: str) -> Read:
    """Best round of the second step, in which all operators grow, relative to the first round."""

    def read(data: Data) -> float:
        found = [r for r in rounds(data, case) if r["changed"] in ("start", "source", "sinks")]
        return max(float(r["throughput"]) for r in found) / float(found[0]["throughput"])

    return read


def _tuned(case: str) -> Read:
    return lambda data: float(tuned(data, case))


def _tuned_more(data: Data) -> float:
    """Rounds of single instances with k = 1.5 minus those with k = 2."""
    return float(tuned(data, "k 1.5") - tuned(data, USUAL))


def _slowed(case: str) -> Read:
    return lambda data: slowed(data, case)


def _chain(k: float) -> str:
    return f"{CHAIN}, k {k:g}"


def _chain_tuned_more(data: Data) -> float:
    return float(tuned(data, _chain(1.5)) - tuned(data, _chain(USUAL_K)))


def _chain_beside(k: float) -> Read:
    return lambda data: throughput(data, _chain(k)) / throughput(data, _chain(USUAL_K))


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
        lines = [line(data, case, case, tone) for tone, case in enumerate(here)]
        best = (Level(throughput(data, BEST), BEST),) if BEST in data.cases else ()
        panels.append(
            Panel(
                "round",
                "tweets/s",
                (*lines, kept(data, here)),
                levels=best,
                marks=marks(data, here),
                title=title,
            )
        )
    return Figure(
        "Sentiment analysis on four machines: the profiler's parameters",
        tuple(panels),
        note=note(data, "figure 14"),
    )


_COARSE = (
    "the first round is bound by its one source whatever the slice is; later ones with coarse "
    "ratios carry less, until so many instances are added that the processors are the bound, which "
    "cost nothing here and throughput in the paper"
)

_FINE = (
    "the first round is bound by its one source whatever the slice is, so that finer ratios begin "
    "no better, and a second source is a gain with any of them"
)
_K = (
    "what takes more than 1.5 times its least time in the plan to be tuned takes more than twice "
    "as long too, so that the step is the same with both and ends when trials fail; none of them "
    "brings a gain that is significant"
)
_BUSY = (
    "the plan to be tuned keeps all processors busy here, and something takes more than three "
    "times its least time in it, so that single instances are tried, in vain"
)
_LATE = (
    "with the plan that is kept tweets take less than 300 ms, so that this bound slows down no "
    "more than 500 ms does"
)

FIGURE_14 = Experiment(
    "stepwise-14",
    "Slice, k and latency constraint of the profiler",
    PAPER,
    "figure 14",
    cases,
    (
        Claim(
            "slice 0.5: first round beside the usual",
            0.909,
            _begins("slice 0.5"),
            neutral=1.0,
            why=_COARSE,
        ),
        Claim(
            "slice 0.5: final throughput beside the usual",
            0.797,
            _beside("slice 0.5"),
            neutral=1.0,
            why=_COARSE,
        ),
        Claim("slice 0.5: second round beside the usual", None, _second("slice 0.5")),
        Claim(
            "slice 0.1: first round beside the usual",
            None,
            _begins("slice 0.1"),
            neutral=1.0,
            side="above",
            why=_FINE,
        ),
        Claim(
            "slice 0.1: best round of the second step beside its first",
            1.0,
            _platform("slice 0.1"),
            why=_FINE,
        ),
        Claim("slice 0.1: final throughput beside the usual", None, _beside("slice 0.1")),
        Claim("k 3: rounds of single instances", 0, _tuned("k 3"), why=_BUSY),
        Claim(
            "k 3: final throughput beside k 2",
            None,
            _beside("k 3"),
            neutral=1.0,
            side="below",
            why=_K,
        ),
        Claim(
            "k 1.5: rounds of single instances more than with k 2",
            None,
            _tuned_more,
            neutral=0.0,
            side="above",
            why=_K,
        ),
        Claim("k 2: rounds of single instances", None, _tuned(USUAL)),
        Claim("k 1.5: final throughput beside k 2", None, _beside("k 1.5")),
        Claim(f"k 2: {SLOWED}", None, _slowed(USUAL)),
        Claim(
            "chain of 12 on six machines, k 3: rounds of single instances",
            0,
            _tuned(_chain(3.0)),
            basis="varied",
        ),
        Claim(
            "chain of 12 on six machines, k 3: final throughput beside k 2",
            None,
            _chain_beside(3.0),
            neutral=1.0,
            side="below",
            basis="varied",
        ),
        Claim(
            "chain of 12 on six machines, k 1.5: rounds of single instances more than with k 2",
            None,
            _chain_tuned_more,
            neutral=0.0,
            side="above",
            basis="varied",
        ),
        Claim(
            "chain of 12 on six machines, k 1.5: final throughput beside k 2",
            None,
            _chain_beside(1.5),
        ),
        Claim(
            "chain of 12 on six machines, k 2: rounds of single instances",
            None,
            _tuned(_chain(USUAL_K)),
        ),
        Claim(f"chain of 12 on six machines, k 2: {SLOWED}", None, _slowed(_chain(USUAL_K))),
        Claim(
            "300 ms: final throughput beside 500 ms",
            None,
            _beside("300 ms"),
            neutral=1.0,
            side="below",
            why=_LATE,
        ),
        Claim("700 ms: final throughput beside 500 ms", None, _beside("700 ms")),
        *(
            Claim(f"{case}: final throughput beside the best static plan", None, _of_best(case))
            for case in (USUAL, "slice 0.5", "slice 0.1", "300 ms")
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
        "depth": 12,
        "tries": 60,
        "turn": 0.5,
        "settle": 8.0,
        "observations": 20,
    },
    quick={"tries": 8, "settle": 4.0, "observations": 8},
    no_spark="a search takes three minutes there (stepwise-11), and to see what moves its "
    "end by a tenth takes many of each of these seven",
)

EXPERIMENTS = (FIGURE_14,)
