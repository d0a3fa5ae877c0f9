"""The work of micro-benchmark operators, and the expected results without doing that work.

Each cost is paid per record and yields a number that depends on the record alone. The same numbers
can be computed for whole columns without paying the cost, so a run of minutes is checked in a
moment. Records have an `id`, further columns that are passed on (by default `value`, a JSON
payload) and, after the first step, a `result`.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from penstock.dataflow.flow import Stream
from penstock.errors import InvalidInput
from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.spoiling import check_share, lacking, without_gaps

Words = npt.NDArray[np.uint64]

RECORD = "id bigint, value string"
RESULT = "id bigint, result bigint"

_TYPES = {"value": "string"}
_MASK = (1 << 64) - 1
_A, _C = 6364136223846793005, 1442695040888963407  # Knuth's linear congruential generator


class Cost(Protocol):
    """A kind of work: `one` does it, `many` computes the results of a column without doing it.

    `seconds` is the approximate time per record, for simulations.
    """

    @property
    def seconds(self) -> float: ...

    def one(self, record: Mapping[str, Any]) -> int: ...

    def many(self, table: pa.Table) -> Words: ...


@dataclass(frozen=True)
class Cpu:
    """CPU-bound work: draw random numbers one by one, about 1 ms for 10,000."""

    numbers: int = 10_000

    @property
    def seconds(self) -> float:
        return 1e-7 * self.numbers

    def one(self, record: Mapping[str, Any]) -> int:
        state = int(record["id"])
        for _ in range(self.numbers):
            state = (state * _A + _C) & _MASK
        return state

    def many(self, table: pa.Table) -> Words:
        # n steps of the generator equal one step with another factor and summand (Brown, 1994).
        factor, summand, a, c, n = 1, 0, _A, _C, self.numbers
        while n:
            if n & 1:
                factor, summand = factor * a & _MASK, (summand * a + c) & _MASK
            a, c, n = a * a & _MASK, (c * a + c) & _MASK, n >> 1
        return _ids(table) * np.uint64(factor) + np.uint64(summand)


@dataclass(frozen=True)
class Parse:
    """Parsing work: read the JSON payload and add up its items."""

    seconds: float = 1e-5

    def one(self, record: Mapping[str, Any]) -> int:
        return sum(item["qty"] * item["price"] for item in json.loads(record["value"])["items"])

    def many(self, table: pa.Table) -> Words:
        if not len(table):
            return np.zeros(0, dtype=np.uint64)
        lines = "\n".join(table["value"].to_pylist()).encode()
        items = pyarrow.json.read_json(pa.BufferReader(lines))["items"].combine_chunks()
        item = items.flatten()
        amounts = pc.multiply(item.field("qty"), item.field("price")).to_numpy()
        order = pc.list_parent_indices(items).to_numpy()
        # Amounts are far below 2^53, so sums of floats are exact.
        return np.bincount(order, weights=amounts, minlength=len(items)).astype(np.uint64)


@dataclass(frozen=True)
class Wait:
    """Waiting, as for an external service: takes time and no CPU."""

    seconds: float = 0.005

    def one(self, record: Mapping[str, Any]) -> int:
        time.sleep(self.seconds)
        return int(record["id"])

    def many(self, table: pa.Table) -> Words:
        return _ids(table)


def cpu(numbers: int = 10_000) -> Cpu:
    """A cost of this many random numbers per record."""
    if numbers < 0:
        raise InvalidInput(f"cpu: {numbers} random numbers are below zero")
    return Cpu(numbers)


def parse() -> Parse:
    """A cost of one JSON parse per record."""
    return Parse()


def wait(seconds: float = 0.005) -> Wait:
    """A cost of this many seconds per record."""
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise InvalidInput(f"wait: {seconds:g} seconds is not a time")
    return Wait(seconds)


def named(cost: str, *, numbers: int = 10_000, wait_ms: float = 5) -> Cost:
    """The cost that an option names."""
    kinds: dict[str, Cost] = {"cpu": cpu(numbers), "parse": parse(), "wait": wait(wait_ms / 1000)}
    if cost not in kinds:
        raise InvalidInput(f"no cost '{cost}': there are {', '.join(kinds)}")
    return kinds[cost]


@dataclass(frozen=True)
class Step:
    """One operator: pay the cost, fold its number into the result, emit `selectivity` records.

    A record becomes floor(`selectivity`) records, plus one more with the probability of the
    remainder, which the record itself decides. `carry`: columns passed on besides id and result.
    """

    name: str
    cost: Cost
    selectivity: float = 1.0
    carry: tuple[str, ...] = ("value",)

    def __post_init__(self) -> None:
        if not (0 <= self.selectivity <= 1000):
            raise InvalidInput(f"a selectivity of {self.selectivity:g} is not between 0 and 1000")

    @property
    def schema(self) -> str:
        carried = (f"{name} {_TYPES.get(name, 'bigint')}" for name in self.carry)
        return ", ".join(("id bigint", *carried, "result bigint"))

    def attach(self, stream: Stream) -> Stream:
        """Append the step to a stream, as map, filter or flat map depending on its selectivity."""
        if self.selectivity == 1:
            return stream.map(self.name, self.single, schema=self.schema)
        return stream.flat_map(self.name, self.several, schema=self.schema)

    def single(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The single output record of a record."""
        return self._record(record, self._result(record))

    def several(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The output records of a record; copies differ in their result."""
        result = self._result(record)
        copies = int(self.selectivity) + (_chance(mix(result)) < self.selectivity % 1)
        for copy in range(copies):
            yield self._record(record, mix(result + copy) >> 1)

    def foresee(self, table: pa.Table) -> pa.Table:
        """Output of the step for a table of records, without paying the cost."""
        table = without_gaps(table, "id")
        before: Words = np.zeros(len(table), dtype=np.uint64)
        if "result" in table.column_names:
            before = table["result"].to_numpy().astype(np.uint64)
        paid = self.cost.many(table)
        results: Words = mix_many(before + paid + np.uint64(self._salt)) >> np.uint64(1)
        if self.selectivity != 1:
            chance = _chance_many(mix_many(results))
            copies = int(self.selectivity) + (chance < self.selectivity % 1).astype(np.int64)
            rows = np.repeat(np.arange(len(table)), copies)
            copy = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
            results = mix_many(results[rows] + copy.astype(np.uint64)) >> np.uint64(1)
            table = table.take(pa.array(rows))
        carried = {name: table[name] for name in ("id", *self.carry)}
        return pa.table({**carried, "result": results.astype(np.int64)})

    @property
    def _salt(self) -> int:
        return zlib.crc32(self.name.encode())

    def _result(self, record: Mapping[str, Any]) -> int:
        if record["id"] is None:
            raise ValueError("the record has no id")
        # Spark has no unsigned integers, so a result has 63 bits.
        return mix(self._salt + record.get("result", 0) + self.cost.one(record)) >> 1

    def _record(self, record: Mapping[str, Any], result: int) -> dict[str, Any]:
        return {"id": record["id"], **{c: record[c] for c in self.carry}, "result": result}


def rows(table: pa.Table) -> Iterator[tuple[int, int]]:
    """The rows of a sink with columns id and result."""
    return zip(table["id"].to_pylist(), table["result"].to_pylist(), strict=True)


def mix(x: int) -> int:
    """Spread a number over 64 bits (the finaliser of splitmix64)."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def mix_many(x: Words) -> Words:
    """`mix` applied to every number."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _ids(table: pa.Table) -> Words:
    return np.asarray(table["id"].to_numpy().astype(np.uint64))


def _chance(word: int) -> float:
    return (word >> 11) / (1 << 53)


def _chance_many(words: Words) -> npt.NDArray[np.float64]:
    return (words >> np.uint64(11)).astype(np.float64) / (1 << 53)


@dataclass(frozen=True)
class Orders:
    """Makes the records of a source: orders as JSON, about 300 bytes each.

    Record i has the id `i * of + which`, so sources share no ids; malformed records have none. For
    the first tenth of every `burst` seconds, half of the orders begin with an item on sale.
    """

    which: int = 0
    of: int = 1
    malformed: float = 0.0
    burst: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, Any]:
        ids = index * self.of + self.which
        items = _items()
        picks = rng.integers(0, len(items), size=(_ITEMS, len(index)))
        burst = bursts(at, self.burst)
        sale = burst.hot & (rng.random(len(index)) < 0.5)
        picks[0] = np.where(sale, burst.number * 97 % len(items), picks[0])
        parts = [items.take(pa.array(pick)) for pick in picks]
        joined = pc.binary_join_element_wise(*parts, ",")
        text = pa.array(ids).cast(pa.string())
        value = pc.binary_join_element_wise('{"order":', text, ',"items":[', joined, "]}", "")
        return {"id": lacking(rng, ids, self.malformed), "value": value}


_ITEMS = 4


@lru_cache(maxsize=1)
def _items() -> pa.Array:
    rng = np.random.Generator(np.random.PCG64(2))
    return pa.array(
        [
            f'{{"sku":"{sku:08x}","qty":{qty},"price":{price},"tags":["a{tag}","b{tag}"]}}'
            for sku, qty, price, tag in zip(
                rng.integers(0, 1 << 32, 1024).tolist(),
                rng.integers(1, 10, 1024).tolist(),
                rng.integers(50, 50_000, 1024).tolist(),
                rng.integers(0, 100, 1024).tolist(),
                strict=True,
            )
        ]
    )
