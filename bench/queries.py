"""Plain queries to compare with, and how both sides are measured alike."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from penstock.dataflow.connectors import Generator
from penstock.dataflow.load_profile import parse
from penstock.engines.spark.channels.valve import Valve
from penstock.engines.spark.queries.checkpoint import rows_of
from penstock.engines.spark.session.pickling import pickled


def generated(
    spark: Any, generator: Generator, folder: Path, parallelism: int, admission: int | None
) -> Any:
    """The generator as a plain streaming DataFrame, for queries written by hand."""
    from penstock.engines.spark.channels.python_sources import GeneratorSource

    spark.dataSource.register(GeneratorSource)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "generator.pickle").write_bytes(pickled(generator))
    clock = time.time()
    valve = Valve(parallelism=parallelism, admission=admission, clocks={"in": clock})
    valve.save(folder / "in.valve")
    frame = (
        spark.readStream.format("penstock-generator")
        .schema(generator.schema.ddl)
        .options(valve=str(folder / "in.valve"), input="in", first="0", inputs="1")
        .options(generator=str(folder / "generator.pickle"))
        .load()
    )
    return frame, clock


class Reports:
    """Collects the progress reports of a query, since Spark keeps only the last hundred."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self.batches: dict[int, dict[str, Any]] = {}

    def poll(self) -> None:
        for report in self._query._jsq.recentProgress():
            number = report.batchId()
            if number not in self.batches and report.numInputRows() > 0:
                self.batches[number] = json.loads(report.json())

    @property
    def rows(self) -> int:
        return sum(self.row_range(b)[1] - self.row_range(b)[0] for b in self.batches.values())

    def row_range(self, batch: dict[str, Any]) -> tuple[int, int]:
        (source,) = batch["sources"]
        end, start = rows_of(source["endOffset"]), rows_of(source["startOffset"])
        if end is None:  # a source of Spark's own
            return 0, batch["numInputRows"]
        return (start[1] if start else 0), end[1]

    def until(self, done: Callable[[], bool], limit: float = 600) -> None:
        stop = time.time() + limit
        while not done():
            self.poll()
            if self._query.exception() is not None:
                raise self._query.exception()
            if time.time() > stop:
                raise TimeoutError("the benchmark's query takes too long")
            time.sleep(0.05)


def span(batch: dict[str, Any]) -> tuple[float, float]:
    """When a batch began and when it was committed."""
    begin = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()
    return begin, begin + batch["durationMs"]["triggerExecution"] / 1000


def throughput(reports: Reports, skip: int) -> float:
    """Rows per second from the end of the first `skip` batches to the end of the last."""
    batches = [reports.batches[n] for n in sorted(reports.batches)]
    rows = sum(b - a for a, b in (reports.row_range(x) for x in batches[skip:]))
    return rows / (span(batches[-1])[1] - span(batches[skip - 1])[1])


def mean_latency(reports: Reports, load: str, clock: float, since: float) -> float:
    """Mean time from a record being due to the commit of its batch, for batches begun `since`."""
    profile = parse(load)
    total, rows = 0.0, 0
    for batch in reports.batches.values():
        begin, end = span(batch)
        first, stop = reports.row_range(batch)
        if begin < since or stop <= first:
            continue
        due = profile.arrival(np.arange(first, stop)) + clock
        total += float((end - due).sum())
        rows += stop - first
    return total / rows
