"""Estimated durations of experiments, measured on two cores.

Seconds for the full size by engine; for Spark, of one round. Progress uses only their proportions,
so the numbers are useful on other machines and for quick runs, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock_lab.experiments.experiment import EngineName
from penstock_lab.experiments.verdict import ROUNDS

SIMULATED: Mapping[str, float] = {
    "nephele-3": 50, "nephele-6": 15, "nephele-hours": 65, "nephele-8": 120,
    "stela-4": 340, "stela-6": 60, "stela-8": 18,
    "stepwise-11": 150, "stepwise-12": 70, "stepwise-13": 105, "stepwise-14": 170,
    "joker-5": 75, "joker-6": 95, "joker-8": 80, "joker-9": 45, "joker-10": 5, "joker-11": 5,
    "joker-12": 60, "joker-14": 35, "joker-16": 16, "joker-18": 24, "joker-32": 105,
    "es-stream-9": 30, "es-stream-13": 100, "es-stream-15": 8, "es-stream-18": 45,
}  # fmt: skip

ON_SPARK: Mapping[str, float] = {
    "nephele-6": 590, "nephele-hours": 810, "nephele-8": 530, "stela-4": 680, "stela-8": 580,
    "stepwise-11": 690, "joker-5": 900, "joker-11": 750, "joker-16": 465, "es-stream-9": 730,
    "es-stream-15": 780, "es-stream-18": 410,
}  # fmt: skip

USUAL = 60.0
"""Seconds assumed for an experiment that was never measured."""


def known(name: str, engine: EngineName) -> float | None:
    """Seconds of an experiment at full size; on Spark for all its rounds."""
    if engine == "simulator":
        return SIMULATED.get(name)
    once = ON_SPARK.get(name)
    return None if once is None else ROUNDS * once


def weights(names: tuple[str, ...], engine: EngineName) -> dict[str, float]:
    """Relative durations of experiments."""
    return {name: known(name, engine) or USUAL for name in names}


def about(seconds: float) -> str:
    """A duration in words: `10 s`, `80 s`, `6 min`, `1 h 20 min`."""
    if seconds < 95:
        return f"{max(10, 10 * round(seconds / 10))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
