"""The seeds' experiments: one command gives the table and the picture.

An experiment is a value in the `EXPERIMENTS` of a module here; a new module is a name in
`_MODULES`.
"""

from __future__ import annotations

import difflib
import importlib

from penstock.errors import InvalidInput
from penstock_lab.experiments.experiment import Experiment

_MODULES = (
    *("nephele_3", "nephele_6", "nephele_hours", "nephele_8", "stela_4", "stela_6", "stela_8"),
    *("stepwise_11", "stepwise_12", "stepwise_13", "stepwise_14"),
    *("joker_5", "joker_8", "joker_10", "joker_11", "joker_12", "joker_16", "joker_18"),
    *("es_stream_9", "es_stream_13", "es_stream_15", "es_stream_18"),
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
