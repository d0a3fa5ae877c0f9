"""Operators that multiply integers; keyed ones also count their records.

Records have an `id`, two or more keys and, after the first operator, a `result`. A region has one
keyed operator, since a pipeline can hold only one; its other operators pass the key on.
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
_KEEPING = 3e-5  # approximate cost per record besides the multiplications, with state


@dataclass(frozen=True)
class Numbers:
    """Makes the records of a source: ids, and keys with Zipf frequencies.

    For the first tenth of every `burst` seconds, half of the records have the same keys. Malformed
    records have no id.
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
        """The source that generates these records."""
        schema = ", ".join(f"{name} bigint" for name in ("id", *self.columns))
        return Generator(self, schema, load, seed, limit)


def step(
    name: str, multiplications: int, carry: Sequence[str] = (), selectivity: float = 1.0
) -> costs.Step:
    """A stateless operator with this many multiplications per record."""
    return costs.Step(name, costs.cpu(multiplications), selectivity, tuple(carry))


def counts(text: str) -> tuple[int, ...]:
    """Parse numbers of multiplications separated by commas."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"'{text}' is no list of multiplications: write 1024,32,1024") from None
    if min(found) < 0:
        raise InvalidInput(f"'{text}': {min(found)} multiplications are below zero")
    return found


def factors(text: str) -> tuple[float, ...]:
    """Parse selectivities separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"'{text}' is no list of selectivities: write 4,0.25") from None


@dataclass(frozen=True)
class Numbered:
    """A keyed operator that multiplies and adds the record's number within its key.

    Records of a key have to arrive in order, so no other key may come before it.
    """

    work: costs.Step
    key: str

    def attach(self, stream: Stream) -> Stream:
        estimate = Estimate(self.work.cost.seconds + _KEEPING, self.work.selectivity)
        return stream.key_by(self.key).process(
            self.work.name, lambda: _Numbering(self), schema=self.work.schema, estimate=estimate
        )

    def foresee(self, table: pa.Table) -> pa.Table:
        """Output for a table of records, without paying the cost."""
        table = without_gaps(table, "id")
        place = table.select([self.key]).to_pandas().groupby(self.key).cumcount() + 1
        before = table["result"].to_numpy() if "result" in table.column_names else 0
        given = table.drop_columns([c for c in table.column_names if c == "result"])
        return self.work.foresee(given.append_column("result", pa.array(before + place)))


@dataclass(frozen=True)
class Tally:
    """A keyed operator that multiplies and emits count and sum of the results of a key.

    The sum is taken modulo 2^63, so it does not depend on the order of the records.
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
        """The final row of each key for a table of records."""
        done = self.work.foresee(table)
        keys = done[self.key].to_numpy()
        names, place = np.unique(keys, return_inverse=True)
        totals = np.zeros(len(names), dtype=np.uint64)
        np.add.at(totals, place, done["result"].to_numpy().astype(np.uint64))
        numbers = np.bincount(place, minlength=len(names))
        last = (totals & np.uint64(_MASK)).tolist()
        return zip(names.tolist(), numbers.tolist(), last, strict=True)


class _Numbering:
    """Processor of `Numbered`."""

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
        finally:  # malformed records too: those before them are counted
            self._memo.write(number)

    def close(self) -> None:
        pass


class _Tallying:
    """Processor of `Tally`."""

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
    """The output of a record, as tuples in the order of the schema."""
    made = (work.single(record),) if work.selectivity == 1 else work.several(record)
    return (tuple(one.values()) for one in made)
