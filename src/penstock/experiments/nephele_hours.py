"""Nephele's task hours: what PrimeTester costs under bounds of 20 to 100 ms (section V-A)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from penstock.engines.simulator.scenario import PRIME_RATES, prime_tester
from penstock.experiments import reading
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock.experiments.nephele import PAPER, Buffers, dynamic, fewest_testers, note
from penstock.experiments.nephele_6 import PEAK, SMALL, bounded, hours_beside
from penstock.experiments.play import Play
from penstock.report.figures import Bars, Figure, Level, Panel

BOUNDS = (20, 30, 40, 50, 100)
HOURS = {30: 46.4, 40: 44.3, 50: 41.8, 100: 37.6}


def task_hours(step: float) -> Sequence[Case]:
    elastic = [Case(f"{bound} ms", Play(bounded(bound, step), "latency")) for bound in BOUNDS]
    best = [
        Case(f"best static, {bound} ms", fewest_testers(partial(bounded, bound), step, PEAK))
        for bound in (BOUNDS[0], BOUNDS[-1])
    ]
    return (
        *elastic,
        *best,
        Case("static", Play(Buffers().on(prime_tester(step=step), PRIME_RATES[0]), Buffers())),
        Case("dynamic allocation", dynamic(prime_tester(step=step), 130, SMALL)),
    )


def _full(case: str) -> Read:
    """Hours as if steps had lasted a minute."""
    return lambda data: reading.task_hours(data, case) * 60 / data.parameters["step"]


def _falls(data: Data) -> float:
    """The share of the longer bounds that cost no more than the one before."""
    hours = [reading.task_hours(data, f"{bound} ms") for bound in BOUNDS]
    return sum(b <= a for a, b in itertools.pairwise(hours)) / (len(hours) - 1)


def picture_hours(data: Data) -> Figure:
    bounds = tuple(b for b in BOUNDS if f"{b} ms" in data.cases)
    here = tuple(_full(f"{b} ms")(data) for b in bounds)
    static = _full("static")(data) if "static" in data.cases else None
    levels = () if static is None else (Level(static, "175 static"),)
    return Figure(
        "PrimeTester: a longer bound costs less",
        (
            Panel(
                "bound",
                "task hours",
                categories=tuple(f"{b} ms" for b in bounds),
                bars=(Bars("here", here), Bars("seed", tuple(HOURS.get(b) for b in bounds))),
                levels=levels,
            ),
        ),
        note=note(data, "section V-A"),
    )


def _met(case: str) -> Read:
    return lambda data: reading.met(data, case)


TASK_HOURS = Experiment(
    "nephele-hours",
    "PrimeTester: task hours for bounds of 20 to 100 ms",
    PAPER,
    "section V-A",
    task_hours,
    (
        *(
            Claim(f"task hours at {bound} ms", hours, _full(f"{bound} ms"), "", None, "lower")
            for bound, hours in HOURS.items()
        ),
        Claim(
            "share of the hours at 30 ms that 100 ms saves",
            1 - 37.6 / 46.4,
            lambda data: 1 - hours_beside("100 ms", "30 ms")(data),
            neutral=0.0,
            why=_CHEAP,
        ),
        Claim(
            "20 ms beside 175 static testers",
            1.0,
            hours_beside("20 ms", "static"),
            better="lower",
        ),
        Claim(
            "share of the longer bounds that cost no more than the one before",
            1.0,
            _falls,
            why="in short steps, as the quick size has them, what it takes to catch up after each "
            "rise weighs more than what a longer bound saves",
        ),
        Claim("task hours at 20 ms", None, _full("20 ms")),
        Claim("task hours of the best static plan for 20 ms", None, _full("best static, 20 ms")),
        Claim("task hours of the best static plan for 100 ms", None, _full("best static, 100 ms")),
        Claim("task hours of dynamic allocation, at any bound", None, _full("dynamic allocation")),
        *(
            Claim(f"share of intervals that meet {bound} ms", None, _met(f"{bound} ms"))
            for bound in BOUNDS
        ),
    ),
    picture_hours,
    size={"step": 60.0},
    quick={"step": 20.0},
)

EXPERIMENTS = (TASK_HOURS,)
