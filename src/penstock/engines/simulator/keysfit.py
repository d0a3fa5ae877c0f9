"""How unevenly keys come, from the rows of instances in a recorded run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.engines.simulator.model import Keys
from penstock.engines.simulator.observed import Observation

_SKEWS = np.arange(0.0, 2.01, 0.05)


def keys(name: str, seen: Sequence[Observation], notes: list[str]) -> Keys:
    """The keys of a stateful operator: number and size as its state says, skew as its rows do.

    Where a key goes is another matter here than on Spark, so for the skew it is not single
    instances that are compared but how far the fullest is above the average. What each instance
    had is kept: it also tells what fewer of them would have.
    """
    holding = [one for one in seen if one.stateful == name]
    number = max((one.state_rows or 0 for one in holding), default=0)
    size = max((one.state_bytes or 0 for one in holding), default=0)
    spread = [one for one in holding if len(one.shares) > 1]
    if not number:
        notes.append(f"the state of '{name}' was not measured: {Keys().number} keys are assumed")
    made = Keys(number or Keys().number, 0.0, size / number if number else Keys().bytes)
    if not spread:
        notes.append(f"'{name}' had one instance at a time: how uneven its keys are is not known")
        return made
    fullest: dict[int, list[float]] = {}
    for one in spread:
        fullest.setdefault(len(one.shares), []).append(max(one.shares))
    wanted = {count: float(np.median(found)) for count, found in fullest.items()}
    errors = [
        sum((_fullest(Keys(made.number, skew), n) - share) ** 2 for n, share in wanted.items())
        for skew in _SKEWS.tolist()
    ]
    skew = round(float(_SKEWS[int(np.argmin(errors))]), 2)
    return replace(made, skew=skew, dealt=_dealt([one for one in spread if one.hashed]))


def _dealt(seen: Sequence[Observation]) -> tuple[tuple[float, ...], ...]:
    """The shares of instances by how many there were, on average over windows."""
    found: dict[int, list[tuple[float, ...]]] = {}
    for one in seen:
        if len(one.shares) == one.shape.tasks:
            found.setdefault(len(one.shares), []).append(one.shares)
    return tuple(tuple(np.mean(found[n], axis=0).round(4).tolist()) for n in sorted(found))


def _fullest(one: Keys, instances: int) -> float:
    return float(one.shares(instances).max())
