"""What measuring costs: flows that are observed every second against flows that are left alone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import harmonic_mean, median
from typing import Any

from bench.queries import Reports, throughput
from bench.result import Claim, Result
from penstock import Dataflow, Discard, Generator
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion
from penstock.store.recorder import History
from penstock.store.turn import Tick
from penstock.workloads import build

_FEW = 15
_WARM = 8
_ROUNDS = 4
_SLOW = "500/s"
_SETTLING, _LOOKED_AT = 8.0, 20.0
"""Seconds that a slow flow has to begin, and those that count."""

SCHEMA = "id bigint, key bigint, value double"


def _rows(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"id": index, "key": index % 1000, "value": rng.random(len(index))}


def _wordcount(folder: Path, load: str, limit: int | None) -> Dataflow:
    return build("wordcount", folder / "out", load=load, limit=limit)


def _twelve(folder: Path, load: str, limit: int | None) -> Dataflow:
    """Twelve operators: native ones, Python ones, one with state."""
    flow = Dataflow("twelve")
    rows = flow.source("rows", Generator(_rows, SCHEMA, load=load, limit=limit))
    for n in range(3):
        rows = rows.frame(f"native{n}", lambda df: df.withColumn("value", df.value * 1.1))
    for n in range(4):
        rows = rows.map(f"python{n}", _same, schema=SCHEMA)
    rows = rows.filter("keep", _even)
    rows = rows.frame("last", lambda df: df.select("id", "key", "value"))
    rows.key_by("key").aggregate("count", n="count(*)").sink("out", Discard())
    return flow


def _same(record: dict[str, Any]) -> dict[str, Any]:
    return record


def _even(record: dict[str, Any]) -> bool:
    return bool(record["id"] % 2 == 0)


FLOWS: dict[str, tuple[Callable[[Path, str, int | None], Dataflow], int, int]] = {
    "word count": (_wordcount, 60_000, 80),
    "twelve operators": (_twelve, 20_000, 280),
}
"""How each is made, the rows of a batch, and so many batches that it takes about a minute, in which
native operators are tried once; later it is once in minutes."""


class _Watched:
    """A flow in an engine of its own, observed every second and recorded, or left alone."""

    def __init__(
        self, spark: Any, flow: Dataflow, observed: bool, folder: Path, **pipeline: Any
    ) -> None:
        first = flow.graph.sources[0].name
        self._plan = fusion.default_plan(flow.graph, 2).with_pipeline(first, **pipeline)
        self._engine = SparkEngine(spark=spark, metering=observed)
        self._engine.start(flow.graph, self._plan, folder / "run")
        (self.pipeline,) = self._engine.pipelines.values()
        self._history = History(folder / "run", time.time) if observed else None
        self._look = time.monotonic()

    def turn(self) -> None:
        """Look, if it is time."""
        if self._history is None or time.monotonic() < self._look:
            return
        self._look += 1.0
        snapshot = self._engine.observe()
        self._history.append(Tick(snapshot.at, self._plan, snapshot))

    def stop(self) -> None:
        self._engine.stop(drain=False)
        if self._history is not None:
            self._history.close()


def _measure(
    spark: Any, name: str, observed: bool, folder: Path, batches: int | None = None
) -> tuple[float, float]:
    """Rows per second, and seconds of the driver's Python per second."""
    build_flow, batch, whole = FLOWS[name]
    limit = batch * (batches or whole)
    flow = build_flow(folder, "1000000/s", limit)
    watched = _Watched(spark, flow, observed, folder, admission=batch)
    reports = Reports(watched.pipeline.query)
    began, used = time.monotonic(), time.process_time()

    def done() -> bool:
        watched.turn()
        return bool(reports.rows >= limit)

    reports.until(done)
    share = (time.process_time() - used) / (time.monotonic() - began)
    watched.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return throughput(reports, _WARM), share


def _slowly(spark: Any, name: str, observed: bool, folder: Path) -> float:
    """Seconds of the driver's processors per second, the JVM's too, for a flow with little to do.

    On one machine the JVM is also the executor, so nothing can be told from it at saturation; here
    what both sides do for their rows is the same.
    """
    flow = FLOWS[name][0](folder, _SLOW, None)
    watched = _Watched(spark, flow, observed, folder, cadence=1.0)  # as many batches on both sides
    jvm = spark.sparkContext._gateway.proc.pid
    for seconds in (_SETTLING, _LOOKED_AT):
        began, used = time.monotonic(), time.process_time() + _processor(jvm)
        while time.monotonic() - began < seconds:
            watched.turn()
            time.sleep(0.05)
    share = (time.process_time() + _processor(jvm) - used) / (time.monotonic() - began)
    watched.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return share


def _processor(process: int) -> float:
    """Seconds that a process has had on processors."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


def run(spark: Any, folder: Path) -> Result:
    """Take turns, so that a JVM that gets faster on the way is the same to both, and add up."""
    rows, claims = [], []
    for name in FLOWS:
        found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for observed in (True, False):
            _measure(spark, name, observed, folder / f"{name}-warm-{observed}", _FEW)
        slow: dict[bool, list[float]] = {True: [], False: []}
        for number in range(_ROUNDS):
            for observed in (True, False) if number in (1, 2) else (False, True):
                place = folder / f"{name}-{number}-{observed}"
                found[observed].append(_measure(spark, name, observed, place))
                slow[observed].append(_slowly(spark, name, observed, place))
        rate = {o: harmonic_mean([r for r, _ in values]) for o, values in found.items()}
        driver = {o: median(s for _, s in values) for o, values in found.items()}
        rows += [
            {
                "flow": name,
                "observed": "every second" if observed else "no",
                "rows/s": rate[observed],
                "driver's Python (s/s)": driver[observed],
                f"driver at {_SLOW} (s/s)": median(slow[observed]),
                "rounds (rows/s)": " ".join(f"{r:,.0f}" for r, _ in found[observed]),
            }
            for observed in (False, True)
        ]
        claims += [
            Claim(f"throughput of {name}, observed / not", rate[True] / rate[False], least=0.97),
            Claim(
                f"driver's processor time for observing {name}",
                driver[True] - driver[False],
                most=0.05,
            ),
            Claim(
                f"the same with the JVM's for {name} at {_SLOW}",
                median(slow[True]) - median(slow[False]),
                most=0.05,
            ),
        ]
    return Result(
        "overhead",
        "What measuring costs: an engine that meters and is observed and recorded every second "
        "against one that does none of it, at saturation; and with little to do.",
        rows,
        claims,
    )
