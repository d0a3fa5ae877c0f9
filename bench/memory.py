"""The driver's memory over ten minutes of a run in three pipelines."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.result import Claim, Result
from penstock.engines.spark.engine import SparkEngine
from penstock.plan.plan import Pipeline, Plan
from penstock.workloads import build

_MINUTES = 10


def _resident() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _heap(spark: Any) -> float:
    """Java heap in use after a collection, in MB."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    spark._jvm.java.lang.System.gc()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def run(spark: Any, folder: Path) -> Result:
    """Sample once a minute; compare medians of the last three minutes and of minutes 2 to 4."""
    graph = build("wordcount", folder / "out", load="2000/s").graph
    plan = Plan(
        (Pipeline(("tweets", "parse")), Pipeline(("split",)), Pipeline(("count", "counts")))
    )
    engine = SparkEngine(spark=spark)
    engine.start(graph, plan, folder / "run")
    rows = []
    for minute in range(1, _MINUTES + 1):
        end = time.time() + 60
        while time.time() < end:
            engine.observe()
            time.sleep(1)
        gc.collect()
        snapshot = engine.observe()
        rows.append(
            {
                "minute": minute,
                "Python resident (MB)": _resident(),
                "Java heap after collection (MB)": _heap(spark),
                "rows in": snapshot.rows_ingested,
            }
        )
    engine.stop()

    def growth(column: str) -> float:
        early = median(float(row[column]) for row in rows[1:4])
        return median(float(row[column]) for row in rows[-3:]) / early

    return Result(
        "memory",
        "Memory of the driver while word count runs for ten minutes in three pipelines.",
        rows,
        [
            Claim(
                "Python, last three minutes / minutes 2-4", growth("Python resident (MB)"), most=1.1
            ),
            Claim(
                "Java, last three minutes / minutes 2-4",
                growth("Java heap after collection (MB)"),
                most=1.1,
            ),
        ],
    )
