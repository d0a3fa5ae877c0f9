"""About how long experiments take, from what they took on two cores.

How long the full size takes, in seconds, by engine, on Spark one round of it; a quick one is
shorter, how much is learnt while experiments run. Only their proportions count there, so that
another machine is no matter.
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
"""Of what nobody has measured."""


def known(name: str, engine: EngineName) -> float | None:
    """Seconds that an experiment takes at full size, on Spark with all its rounds."""
    if engine == "simulator":
        return SIMULATED.get(name)
    once = ON_SPARK.get(name)
    return None if once is None else ROUNDS * once


def weights(names: tuple[str, ...], engine: EngineName) -> dict[str, float]:
    """How much of all the work each of some experiments is."""
    return {name: known(name, engine) or USUAL for name in names}


def about(seconds: float) -> str:
    """Roughly: `10 s`, `80 s`, `6 min`, `1 h 20 min`."""
    if seconds < 95:
        return f"{max(10, 10 * round(seconds / 10))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
