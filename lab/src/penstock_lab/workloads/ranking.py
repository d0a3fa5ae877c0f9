"""Rankings of growing counts: the best of each part, then the best of all.

Counts only grow and are emitted at some or all changes. An entry that is among the best at the end
is among them when its count changes for the last time, and only a better one can displace it. So a
ranking needs no more memory than its size, and does not depend on the steps in which counts grow.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Parquet
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.operators import Estimate
from penstock.errors import InvalidInput
from penstock_lab.workloads.memo import Memo

NAMED = "name string, slot bigint, part int"
"""Columns that are counted and ranked: time slot, name, and the part a name is ranked in."""


def part(name: str, parts: int = 4) -> str:
    """SQL for the part of a name."""
    return f"pmod(hash({name}), {parts})"


def rank(flow: Dataflow, named: Stream, size: int, out: Path | str) -> None:
    """Append to a stream of names: count them, rank each part, rank all, write to the sink."""
    if size < 1:
        raise InvalidInput(f"a ranking of {size} places has none")
    counts = named.key_by("name", "slot", "part").aggregate(
        "count", n="count(*)", schema=f"{NAMED}, n bigint", estimate=Estimate(2e-6, 0.5)
    )
    parts = counts.key_by("part", "slot").process(
        "rank-part",
        lambda: Part(size),
        takes_updates=True,
        schema="slot bigint, name string, n bigint",
        estimate=Estimate(5e-5, 0.5),
    )
    whole = parts.process_all(
        "rank-all",
        lambda: Whole(size),
        schema="slot bigint, place int, name string, n bigint",
        estimate=Estimate(5e-5),
    )
    whole.sink("ranking", Parquet(str(Path(out) / "ranking")))


def expected(named: Iterable[tuple[int, str]], size: int) -> Iterator[tuple[int, int, str, int]]:
    """The ranking of every slot, computed from slots and names."""
    slots: dict[int, Counter[str]] = {}
    for slot, name in named:
        slots.setdefault(slot, Counter())[name] += 1
    for slot, counts in slots.items():
        for place, (name, n) in enumerate(best(counts, size).items(), start=1):
            yield slot, place, name, n


def best(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """The greatest counts, greatest first; ties are ordered by name."""
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:size])


@dataclass
class Part:
    """Processor that keeps the best of one part and slot and emits the entries that grew."""

    size: int

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "best", {})

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        before = self._memo.read()
        after = best(_grown(before, ((row.name, row.n) for row in rows)), self.size)
        self._memo.write(after)
        for name, n in after.items():
            if before.get(name) != n:
                yield key[1], name, n

    def close(self) -> None:
        pass


@dataclass
class Whole:
    """Processor that keeps the best of all parts and emits the ranks that changed."""

    size: int

    def init(self, handle: Any) -> None:
        self._slots = handle.getMapState("slots", "slot bigint", "best string")

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        grown: dict[int, list[tuple[str, int]]] = {}
        for row in rows:
            grown.setdefault(row.slot, []).append((row.name, row.n))
        for slot, entries in grown.items():
            known = self._slots.containsKey((slot,))
            before = json.loads(self._slots.getValue((slot,))[0]) if known else {}
            after = best(_grown(before, entries), self.size)
            self._slots.updateValue((slot,), (json.dumps(after),))
            old = list(before.items())
            for place, (name, n) in enumerate(after.items(), start=1):
                if old[place - 1 : place] != [(name, n)]:
                    yield slot, place, name, n

    def close(self) -> None:
        pass


def _grown(counts: Mapping[str, int], entries: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The counts updated with newer ones; a smaller count that arrives late is ignored."""
    grown = dict(counts)
    for name, n in entries:
        grown[name] = max(n, grown.get(name, 0))
    return grown
