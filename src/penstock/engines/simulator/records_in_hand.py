"""Records that a pipeline has taken and that have not left it yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.engines.simulator.arrays import Floats, Numbers
from penstock.engines.simulator.operator_work import Allotted, Counts, Work
from penstock.engines.simulator.records import NOTHING, Queue, Records, joined
from penstock.engines.simulator.source import Source


@dataclass(frozen=True)
class Inlet:
    """Where records enter a pipeline: an operator of it, and what they wait in before it.

    writer: the operator that they come from, the source itself for what comes from outside.
    """

    entry: str
    queue: Queue | Source
    writer: str


@dataclass(frozen=True)
class Jobs:
    """Taken records, with the time at which each will leave and the instance that has it.

    entry: which inlet each came through.
    """

    records: Records
    allotted: Allotted
    left: Floats
    server: Numbers
    entry: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, which: slice | Numbers) -> Jobs:
        return Jobs(
            self.records[which],
            self.allotted[which],
            self.left[which],
            self.server[which],
            self.entry[which],
        )

    def parted(self, end: float) -> tuple[slice | Numbers, Jobs]:
        """Which of them leave by `end`, and those that stay."""
        go = self.left <= end
        if go.all():
            return slice(None), NO_JOBS
        if not go.any():  # a batch of millions of records is not copied in every step
            return slice(0), self
        return np.flatnonzero(go), self[np.flatnonzero(~go)]

    @property
    def begun(self) -> Floats:
        return self.left - self.allotted.service

    def give_back(
        self, work: Work, inlets: Sequence[Inlet], rng: np.random.Generator | None = None
    ) -> None:
        """Put all of them back where they came from, as if they had never been taken.

        rng: draws keys for them; None where it does not depend on their instance who of all that
        was taken is given back, so that they may be dealt out anew.
        """
        for number, inlet in enumerate(inlets):
            mine = np.flatnonzero(self.entry == number)
            if len(mine):
                work.take_back(inlet.entry, self.allotted[mine])
                records = self.records[mine]
                if rng is not None:
                    records = work.keys_of(records, self.server[mine], rng)
                inlet.queue.put_back(records)


NO_JOBS = Jobs(
    NOTHING, Allotted(np.zeros(0), ()), np.zeros(0), np.zeros(0, np.intp), np.zeros(0, np.uint8)
)


def merged(first: Jobs, second: Jobs) -> Jobs:
    """Jobs of one pipeline together."""
    if not len(first) or not len(second):
        return first if len(first) else second
    return Jobs(
        joined((first.records, second.records)),
        together((first.allotted, second.allotted)),
        np.concatenate((first.left, second.left)),
        np.concatenate((first.server, second.server)),
        np.concatenate((first.entry, second.entry)),
    )


def together(parts: Sequence[Allotted]) -> Allotted:
    """Allotments of one pipeline, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Allotted(
        np.concatenate([a.service for a in parts]),
        tuple(_stacked(place, parts) for place in zip(*(a.visits for a in parts), strict=True)),
    )


def _stacked(place: Sequence[Counts | None], parts: Sequence[Allotted]) -> Counts | None:
    if all(counts is None for counts in place):
        return None
    return np.concatenate(
        [
            np.ones(len(a.service), np.int64) if counts is None else counts
            for counts, a in zip(place, parts, strict=True)
        ]
    )
