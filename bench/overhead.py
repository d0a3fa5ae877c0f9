"""What measuring costs: flows that are observed every second against flows that are left alone."""

from __future__ import annotations

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
from penstock.workloads import build

_FEW = 15
_WARM = 8
_ROUNDS = 4

SCHEMA = "id bigint, key bigint, value double"


def _rows(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"id": index, "key": index % 1000, "value": rng.random(len(index))}


def _wordcount(folder: Path, limit: int) -> Dataflow:
    return build("wordcount", folder / "out", load="1000000/s", limit=limit)


def _twelve(folder: Path, limit: int) -> Dataflow:
    """Twelve operators: native ones, Python ones, one with state."""
    flow = Dataflow("twelve")
    rows = flow.source("rows", Generator(_rows, SCHEMA, load="1000000/s", limit=limit))
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


FLOWS: dict[str, tuple[Callable[[Path, int], Dataflow], int, int]] = {
    "word count": (_wordcount, 60_000, 80),
    "twelve operators": (_twelve, 20_000, 280),
}
"""How each is made, the rows of a batch, and so many batches that it takes about a minute, in which
native operators are tried once; later it is once in minutes."""


def _measure(
    spark: Any, name: str, observed: bool, folder: Path, batches: int | None = None
) -> tuple[float, float]:
    """Rows per second, and seconds of the driver's Python per second."""
    build_flow, batch, whole = FLOWS[name]
    limit = batch * (batches or whole)
    flow = build_flow(folder, limit)
    first = flow.graph.sources[0].name
    plan = fusion.default_plan(flow.graph, 2).with_pipeline(first, admission=batch)
    engine = SparkEngine(spark=spark, metering=observed)
    engine.start(flow.graph, plan, folder / "run")
    (pipeline,) = engine.pipelines.values()
    reports = Reports(pipeline.query)
    began, used, look = time.monotonic(), time.process_time(), time.monotonic()

    def done() -> bool:
        nonlocal look
        if observed and time.monotonic() >= look:
            look += 1.0
            engine.observe()
        return bool(reports.rows >= limit)

    reports.until(done)
    share = (time.process_time() - used) / (time.monotonic() - began)
    engine.stop(drain=False)
    shutil.rmtree(folder, ignore_errors=True)
    return throughput(reports, _WARM), share


def run(spark: Any, folder: Path) -> Result:
    """Take turns, so that a JVM that gets faster on the way is the same to both, and add up."""
    rows, claims = [], []
    for name in FLOWS:
        found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for observed in (True, False):
            _measure(spark, name, observed, folder / f"{name}-warm-{observed}", _FEW)
        for number in range(_ROUNDS):
            for observed in (True, False) if number in (1, 2) else (False, True):
                place = folder / f"{name}-{number}-{observed}"
                found[observed].append(_measure(spark, name, observed, place))
        rate = {o: harmonic_mean([r for r, _ in values]) for o, values in found.items()}
        driver = {o: median(s for _, s in values) for o, values in found.items()}
        rows += [
            {
                "flow": name,
                "observed": "every second" if observed else "no",
                "rows/s": rate[observed],
                "driver's Python (s/s)": driver[observed],
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
        ]
    return Result(
        "overhead",
        "What measuring costs: an engine that meters and is observed every second against one "
        "that does neither, at saturation.",
        rows,
        claims,
    )
