"""What docs/results keeps of the records of an experiment: the values that are read.

The table and the pictures read a small part of what a run records. Only this part is kept, which
makes the files about ten times smaller, with a digest of all records of each case, by which
`confirm.py` knows whether a repeated case gives the same.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock_lab.experiments import drawn
from penstock_lab.experiments.experiment import Data, EngineName, Experiment, Record
from penstock_lab.experiments.table import as_json, tabulate

Path = tuple[str, ...]
"""The kind of a record, then the keys that lead to a value in it."""

_ALWAYS = ("case", "kind", "round")


def digests(records: Iterable[Record]) -> dict[str, str]:
    """A digest of all records of each case, without the wording of reasons."""
    found: dict[str, Any] = defaultdict(hashlib.sha256)
    for record in records:
        found[record["case"]].update(line(_without_reasons(record)).encode() + b"\n")
    return {case: made.hexdigest()[:16] for case, made in found.items()}


def _without_reasons(value: Any) -> Any:
    """A value without sentences, which may be reworded; their numbers are in other fields."""
    if isinstance(value, Mapping):
        return {k: _without_reasons(one) for k, one in value.items() if k != "reason"}
    return [_without_reasons(one) for one in value] if isinstance(value, list) else value


def line(record: Record) -> str:
    """A record as a line of a data file."""
    return json.dumps(record, separators=(",", ":"))


def needed(
    experiment: Experiment, found: Mapping[EngineName, Data]
) -> dict[EngineName, tuple[Record, ...]]:
    """The records without what neither the table nor a picture reads.

    Raises `ValueError` if the table or a picture of what is left were different.
    """
    reads = {engine: Reads() for engine in found}
    _made(
        experiment,
        {
            engine: replace(data, records=tuple(reads[engine].watched(r) for r in data.records))
            for engine, data in found.items()
        },
    )
    left = {
        engine: tuple(reads[engine].pruned(record) for record in data.records)
        for engine, data in found.items()
    }
    pruned = {engine: replace(data, records=left[engine]) for engine, data in found.items()}
    if _made(experiment, pruned) != _made(experiment, found):
        raise ValueError(
            f"{experiment.name}: the table or a picture needs values that are left out"
        )
    return left


def _made(experiment: Experiment, found: Mapping[EngineName, Data]) -> Any:
    """What is made of data: the table, and digests of the pictures."""
    pictures = [drawn.of(experiment.picture(data.rounds[0])) for data in found.values()]
    return as_json(experiment, tabulate(experiment, dict(found))), pictures


class Reads:
    """The values that were read of some records.

    leaves: paths of these values; listed: of mappings whose keys were looked at.
    """

    def __init__(self) -> None:
        self.leaves: set[Path] = set()
        self.listed: set[Path] = set()

    def watched(self, record: Record) -> Record:
        return _Watched(record, self, (str(record["kind"]),))

    def pruned(self, record: Record) -> Record:
        """The record with the values that were read."""
        kept = {key: record[key] for key in _ALWAYS if key in record}
        return {**kept, **self._part(record, (str(record["kind"]),))}

    def _part(self, values: Mapping[str, Any], at: Path) -> dict[str, Any]:
        found = {}
        for key, value in values.items():
            path, listed = (*at, key), at in self.listed
            if isinstance(value, Mapping):
                part = self._part(value, path)
                if part or listed or path in self.leaves or path in self.listed:
                    found[key] = part
            elif listed or path in self.leaves:
                found[key] = value
        return found


@dataclass(frozen=True)
class _Watched(Mapping[str, Any]):
    """A mapping that notes what is read of it."""

    values_: Mapping[str, Any]
    reads: Reads
    at: Path

    def __getitem__(self, key: str) -> Any:
        value, path = self.values_[key], (*self.at, key)
        self.reads.leaves.add(path)
        return _Watched(value, self.reads, path) if isinstance(value, Mapping) else value

    def __contains__(self, key: object) -> bool:
        if key in self.values_:
            self.reads.leaves.add((*self.at, str(key)))
        return key in self.values_

    def __iter__(self) -> Iterator[str]:
        if len(self.at) > 1:
            self.reads.listed.add(self.at)
        return iter(self.values_)

    def __len__(self) -> int:
        self.reads.listed.add(self.at)
        return len(self.values_)
