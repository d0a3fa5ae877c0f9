"""Flows for benchmarks that no workload has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

from penstock import Dataflow, Discard, Generator

KEYS = 200


class Running(StatefulProcessor):
    """Adds up the values of a key; every row leaves with the sum so far."""

    def init(self, handle: Any) -> None:
        schema = StructType([StructField("total", LongType())])
        self._total = handle.getValueState("total", schema)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        total = int(self._total.get()[0]) if self._total.exists() else 0
        for row in rows:
            total += int(row["value"])
            yield Row(key=key[0], total=total)
        self._total.update((total,))

    def close(self) -> None:
        pass


def _numbers(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"key": rng.zipf(1.5, len(index)) % KEYS, "value": index}


def running(out: Path | str, *, load: str = "500/s") -> Dataflow:
    """Keys that come unevenly, through a stateful operator in Python."""
    flow = Dataflow("running")
    rows = flow.source("rows", Generator(_numbers, "key bigint, value bigint", load))
    keyed = rows.map("same", dict, schema="key bigint, value bigint").key_by("key")
    keyed.process("total", Running, schema="key bigint, total bigint").sink("out", Discard())
    flow.constrain("same", "total", latency="3s")
    return flow
