"""Stepwise profiling's figure 13: machines that a throughput of the word count takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.drawing.figures import Figure, Level, Line, Panel
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock_lab.experiments.stepwise.climb import Climb
from penstock_lab.experiments.stepwise.common import PAPER, note, throughput
from penstock_lab.experiments.stepwise.contest import NOTE, ROUNDS, Contest

WAYS = ("stepwise", "Stela")
BEST = "best static"
TARGET = 6000
STEP = 500
"""Tweets a second between two targets."""


def cases(
    nodes: Sequence[int], tries: int, turn: float, settle: float, observations: int
) -> Sequence[Case]:
    climb = Climb("WC", "", turn=turn, settle=settle, observations=observations)
    found = []
    for n in nodes:
        ways = {f"{way} on {n}": replace(climb, way=way, nodes=n) for way in WAYS}
        found.append(Case(f"{n} machines", Contest(ways, f"{BEST} on {n}", tries)))
    return tuple(found)


def needed(data: Data, way: str, target: float) -> int | None:
    """The fewest machines that carry a throughput; None if none of the sizes does."""
    enough = [n for n in data.parameters["nodes"] if throughput(data, f"{way} on {n}") >= target]
    return min(enough, default=None)


def _carried(case: str) -> Read:
    return lambda data: throughput(data, case)


def _needed(way: str, target: float) -> Read:
    def read(data: Data) -> float | None:
        found = needed(data, way, target)
        return None if found is None else float(found)

    return read


def saved(data: Data, target: float) -> float | None:
    """Share of machines that stepwise profiling saves; None if one of them cannot carry it."""
    own, other = (needed(data, way, target) for way in WAYS)
    return None if own is None or other is None else 1 - own / other


def _most_saved(data: Data) -> float | None:
    most = max(throughput(data, f"{WAYS[1]} on {n}") for n in data.parameters["nodes"])
    found = (saved(data, STEP * n) for n in range(1, int(most // STEP) + 1))
    return max((s for s in found if s is not None), default=None)


def picture(data: Data) -> Figure:
    nodes = tuple(float(n) for n in data.parameters["nodes"])
    lines = []
    for tone, way in enumerate((*WAYS, BEST)):
        here = [n for n in nodes if f"{way} on {n:g}" in data.cases]
        found = tuple(throughput(data, f"{way} on {n:g}") for n in here)
        lines.append(Line(way, tuple(here), found, tone=tone))
    panel = Panel("machines", "tweets/s", tuple(lines), levels=(Level(TARGET, "6,000 tweets/s"),))
    return Figure("Word count: what machines carry", (panel,), note=note(data, "figure 13"))


_FOUR = (
    "Given: the costs of the word count are chosen such that four machines can carry 6,000 "
    "tweets/s, since the paper does not print them."
)

_MISSED = (
    "four machines are made to carry 6,000 tweets/s, and the best static plan does so on four, "
    "with 6,119 (row below). Stepwise profiling ends with 5,703 there, 5 % short, and the next "
    "size that is tried is six"
)

_MISPLACED = (
    "the throughput that Stela finds does not grow evenly with machines: instances that it "
    "misplaces stay there"
)

FIGURE_13 = Experiment(
    "stepwise-13",
    "Machines for a target throughput of the word count",
    PAPER,
    "figure 13",
    cases,
    (
        Claim(
            "most machines saved against Stela",
            0.571,
            _most_saved,
            better="higher",
            why="stepwise profiling takes six machines for 6,000 tweets/s where the paper's took "
            "four, so that less is saved beside Stela's ten",
        ),
        Claim(
            "machines for 6,000 tweets/s, stepwise",
            4,
            _needed("stepwise", TARGET),
            why=_MISSED,
            basis="given",
        ),
        Claim(
            "machines for 6,000 tweets/s, Stela",
            8,
            _needed("Stela", TARGET),
            why=_MISPLACED,
        ),
        Claim("machines for 6,000 tweets/s, best static", None, _needed(BEST, TARGET)),
        *(
            Claim(f"throughput on {n} machines, {way}", None, _carried(f"{way} on {n}"))
            for n in (4, 8, 14)
            for way in (*WAYS, BEST)
        ),
    ),
    picture,
    notes=(_FOUR, ROUNDS, NOTE),
    size={
        "nodes": (2, 4, 6, 8, 10, 12, 14),
        "tries": 30,
        "turn": 0.5,
        "settle": 6.0,
        "observations": 12,
    },
    quick={"nodes": (2, 4, 8), "tries": 8, "settle": 4.0, "observations": 8},
    no_spark="it varies the number of machines, and there is one",
)

EXPERIMENTS = (FIGURE_13,)
