"""Stela's figures 4 and 7a: one more machine for star, linear and diamond."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_lab.experiments.experiment import Case, Experiment, simulated
from penstock_lab.experiments.stela import scale_out_spark
from penstock_lab.experiments.stela.common import AT_ONCE, FIXED, PAPER, Bounds, cases
from penstock_lab.experiments.stela.scale_out import (
    SAME,
    alone,
    better,
    calmer,
    picture_of,
    rest,
    seconds,
    slower,
)
from penstock_lab.experiments.stela.topologies import MICRO, STAR

RANGES: dict[str, Bounds] = {", alike": (0.03, 0.05), ", apart": (0.01, 0.1)}
"""Other bounds between which times are drawn, by what is said behind the name of a layout."""

GAINS = {"star": 0.65, "linear": 0.45, "diamond": 1.2}

_COSTS = (
    "the paper does not print what these components take; with times drawn between 20 and 60 ms "
    "the second slowest component limits what any plan gains, and Stela's is somewhat behind the "
    "best one (rows below)"
)
_DRAWS = (
    "What components of star, linear and diamond take is not printed, and is drawn between 20 and "
    "60 ms, which is a choice. Rows below say what it comes to with 30 to 50 ms (alike) and with "
    "10 to 100 ms (apart)."
)
_CHANCE = (
    "Convergence times vary from draw to draw, since throughput has to be twice above and twice "
    "below its mean."
)


def figure_4(draws: int) -> Sequence[Case]:
    others = (
        one
        for also, between in RANGES.items()
        for one in cases(MICRO, draws, ("stela", "default"), between, also)
    )
    return (*cases(MICRO, draws), *cases((STAR,), draws, (AT_ONCE,)), *others)


FIGURE_4 = Experiment(
    "stela-4",
    "Scale-out of star, linear and diamond",
    PAPER,
    "figures 4 and 7a",
    figure_4,
    (
        *simulated(
            *(better(name, seed, _COSTS) for name, seed in GAINS.items()),
            calmer("diamond", 0.08),
            calmer("linear", 1.0),
            *slower("star"),
            *seconds("diamond"),
            *seconds("star"),
            *(
                better(f"{name}{also}", seed, basis="varied")
                for name, seed in GAINS.items()
                for also in RANGES
            ),
            *(alone(name, "default", 1.0, basis="given") for name in ("linear", "diamond")),
            *rest(MICRO),
        ),
        *scale_out_spark.CLAIMS,
    ),
    picture_of(MICRO, "figures 4 and 7a"),
    size={"draws": 40},
    quick={"draws": 10},
    spark=scale_out_spark.cases,
    spark_size={"at": 45.0, "seconds": 100.0, "more": 2},
    notes=(_DRAWS, _CHANCE, SAME, FIXED, scale_out_spark.BEFORE),
)

EXPERIMENTS = (FIGURE_4,)
