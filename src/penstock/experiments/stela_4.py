"""Stela's figures 4 and 7a: star, linear and diamond get a machine more."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engines.simulator.topologies import MICRO
from penstock.experiments import stela_spark
from penstock.experiments.experiment import Case, Claim, Experiment, simulated
from penstock.experiments.stela import FIXED, PAPER, Bounds, cases
from penstock.experiments.stela_out import (
    SAME,
    alone,
    calmer,
    gain,
    picture_of,
    rest,
    seconds,
    shares,
    slower,
)

RANGES: dict[str, Bounds] = {", alike": (0.03, 0.05), ", apart": (0.01, 0.1)}
"""Other bounds between which times are drawn, by what is said behind the name of a layout."""

GAINS = {"star": 1.65, "linear": 1.45, "diamond": 2.2}

_COSTS = (
    "the seed does not print what these components take; with times drawn between 20 and 60 ms "
    "the gain is limited by the second slowest component"
)
_DRAWS = (
    "What components of star, linear and diamond take is not printed, and is drawn between 20 and "
    "60 ms, which is a choice. Rows below say what it comes to with 30 to 50 ms (alike) and with "
    "10 to 100 ms (apart)."
)


def figure_4(draws: int) -> Sequence[Case]:
    others = (
        one
        for also, between in RANGES.items()
        for one in cases(MICRO, draws, ("stela", "default"), between, also)
    )
    return (*cases(MICRO, draws), *others)


FIGURE_4 = Experiment(
    "stela-4",
    "Scale-out of star, linear and diamond",
    PAPER,
    "figures 4 and 7a",
    figure_4,
    (
        *simulated(
            *(shares(name, seed, _COSTS) for name, seed in GAINS.items()),
            calmer("diamond", 0.08),
            calmer("linear", 1.0),
            slower("star"),
            *seconds("diamond"),
            *seconds("star"),
            *(
                Claim(
                    f"{name}{also}: throughput of Stela beside the default scheduler",
                    seed,
                    gain(f"{name}{also}", "stela", "default"),
                    basis="varied",
                )
                for name, seed in GAINS.items()
                for also in RANGES
            ),
            *(alone(name, "default", 1.0, basis="given") for name in ("linear", "diamond")),
            *rest(MICRO),
        ),
        *stela_spark.CLAIMS,
    ),
    picture_of(MICRO, "figures 4 and 7a"),
    size={"draws": 10},
    quick={"draws": 5},
    spark=stela_spark.cases,
    spark_size={"at": 45.0, "seconds": 100.0, "more": 2},
    notes=(_DRAWS, SAME, FIXED, stela_spark.BEFORE),
)

EXPERIMENTS = (FIGURE_4,)
