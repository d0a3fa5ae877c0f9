"""Operators that multiply integers, and, where they are keyed, count what they have multiplied.

Records have an `id`, two or more keys, and after the first operator a `result`. A region has one
keyed operator, because a pipeline holds one at most; the others of it carry its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.dataflow.connectors import Generator
from penstock.dataflow.flow import Stream
from penstock.dataflow.operators import Estimate
from penstock.errors import InvalidInput
from penstock_lab.workloads import costs
from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.memo import Memo
from penstock_lab.workloads.spoiling import check_share, lacking, without_gaps
from penstock_lab.workloads.tweets import check_ranks, zipf_slots

_MASK = (1 << 63) - 1
_SLOTS = 1 << 16
_KEEPING = 3e-5  # about what a record costs beside its multiplications where there is state


@dataclass(frozen=True)
class Numbers:
    """The `make` of a source: ids, and keys that are frequent as Zipf has it.

    For the first tenth of every `burst` seconds half of the records have the same keys. Those that
    are malformed have no id.
    """

    columns: tuple[str, ...] = ("a", "b")
    keys: int = 200
    exponent: float = 0.5
    which: int = 0
    of: int = 1
    malformed: float = 0.0
    burst: float = 0.0

    def __post_init__(self) -> None:
        check_ranks(self.keys, self.exponent)
        check_share(self.malformed)
        check_every(self.burst)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, Any]:
        slots = zipf_slots(self.keys, self.exponent).astype(np.int64)
        drawn = rng.integers(0, _SLOTS, size=(len(self.columns), len(index)), dtype=np.uint16)
        burst = bursts(at, self.burst)
        hot = burst.hot & (rng.random(len(index)) < 0.5)
        usual, same = slots[drawn], (burst.number * 7 + 13) % self.keys
        keys = dict(zip(self.columns, np.where(hot, same, usual), strict=True))
        return {"id": lacking(rng, index * self.of + self.which, self.malformed), **keys}

    def source(self, load: str, seed: int, limit: int | None) -> Generator:
        """The source that makes them."""
        schema = ", ".join(f"{name} bigint" for name in ("id", *self.columns))
        return Generator(self, schema, load, seed, limit)


def step(
    name: str, multiplications: int, carry: Sequence[str] = (), selectivity: float = 1.0
) -> costs.Step:
    """A stateless operator of so many multiplications a record."""
    return costs.Step(name, costs.cpu(multiplications), selectivity, tuple(carry))


def counts(text: str) -> tuple[int, ...]:
    """Numbers of multiplications, written with commas."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"'{text}' is no list of multiplications: write 1024,32,1024") from None
    if min(found) < 0:
        raise InvalidInput(f"'{text}': {min(found)} multiplications are below zero")
    return found


def factors(text: str) -> tuple[float, ...]:
    """Selectivities, written with commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"'{text}' is no list of selectivities: write 4,0.25") from None


@dataclass(frozen=True)
class Numbered:
    """A keyed operator that multiplies, and puts into the result the how many-th of its key it is.

    Records of a key have to come in their order, as they do before they are keyed by another.
    """

    work: costs.Step
    key: str

    def attach(self, stream: Stream) -> Stream:
        estimate = Estimate(self.work.cost.seconds + _KEEPING, self.work.selectivity)
        return stream.key_by(self.key).process(
            self.work.name, lambda: _Numbering(self), schema=self.work.schema, estimate=estimate
        )

    def foresee(self, table: pa.Table) -> pa.Table:
        """What it makes of a table of records, without the cost."""
        table = without_gaps(table, "id")
        place = table.select([self.key]).to_pandas().groupby(self.key).cumcount() + 1
        before = table["result"].to_numpy() if "result" in table.column_names else 0
        given = table.drop_columns([c for c in table.column_names if c == "result"])
        return self.work.foresee(given.append_column("result", pa.array(before + place)))


@dataclass(frozen=True)
class Tally:
    """A keyed operator that multiplies, and tells how many results a key has, and their sum.

    The sum, of which the last 63 bits count, is the same in whatever order the records come.
    """

    work: costs.Step
    key: str

    @property
    def schema(self) -> str:
        return f"{self.key} bigint, n bigint, total bigint"

    def attach(self, stream: Stream) -> Stream:
        estimate = Estimate(self.work.cost.seconds + _KEEPING, self.work.selectivity)
        return stream.key_by(self.key).process(
            self.work.name, lambda: _Tallying(self), schema=self.schema, estimate=estimate
        )

    def rows(self, table: pa.Table) -> Iterator[tuple[int, int, int]]:
        """The last it says of each key, given a table of records."""
        done = self.work.foresee(table)
        keys = done[self.key].to_numpy()
        names, place = np.unique(keys, return_inverse=True)
        totals = np.zeros(len(names), dtype=np.uint64)
        np.add.at(totals, place, done["result"].to_numpy().astype(np.uint64))
        numbers = np.bincount(place, minlength=len(names))
        last = (totals & np.uint64(_MASK)).tolist()
        return zip(names.tolist(), numbers.tolist(), last, strict=True)


class _Numbering:
    """The processor of `Numbered`."""

    def __init__(self, of: Numbered) -> None:
        self._of = of

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "multiplied", 0)

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        number = self._memo.read()
        try:
            for row in rows:
                record: Mapping[str, Any] = row.asDict()
                result = record.get("result", 0) + number + 1
                made = [*_values(self._of.work, {**record, "result": result})]
                number += 1
                yield from made
        finally:  # also where a record is malformed: what came before it is counted
            self._memo.write(number)

    def close(self) -> None:
        pass


class _Tallying:
    """The processor of `Tally`."""

    def __init__(self, of: Tally) -> None:
        self._of = of

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "tally", [0, 0])

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        number, total = self._memo.read()
        try:
            for row in rows:
                for *_, result in _values(self._of.work, row.asDict()):
                    number, total = number + 1, (total + result) & _MASK
                    yield key[0], number, total
        finally:
            self._memo.write([number, total])

    def close(self) -> None:
        pass


def _values(work: costs.Step, record: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """What follows from a record, as tuples in the order of the schema."""
    made = (work.single(record),) if work.selectivity == 1 else work.several(record)
    return (tuple(one.values()) for one in made)
