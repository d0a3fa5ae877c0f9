"""The experiments of the papers; each gives a table, a picture and its raw data.

An experiment is a value in the `EXPERIMENTS` of a module below; `_MODULES` lists these modules.
"""

from __future__ import annotations

import difflib
import importlib

from penstock.errors import InvalidInput
from penstock_lab.experiments.experiment import Experiment

_MODULES = (
    *("nephele.figure_3", "nephele.figure_6", "nephele.task_hours", "nephele.figure_8"),
    *("stela.figure_4", "stela.figure_6", "stela.figure_8"),
    *(f"stepwise.figure_{number}" for number in (11, 12, 13, 14)),
    *(f"joker.figure_{number}" for number in (5, 8, 10, 11, 12, 16, 18)),
    *(f"es_stream.figure_{number}" for number in (9, 13, 15, 18)),
)


def every() -> tuple[Experiment, ...]:
    """All experiments, in the order of their modules."""
    found = (importlib.import_module(f"{__name__}.{name}") for name in _MODULES)
    return tuple(one for module in found for one in module.EXPERIMENTS)


def get(name: str) -> Experiment:
    """The experiment of that name."""
    known = {one.name: one for one in every()}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise InvalidInput(f"no experiment '{name}': {hint}there are {', '.join(known)}")
    return known[name]
