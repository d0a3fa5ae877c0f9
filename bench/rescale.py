"""What changes of a running flow cost its output."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.result import Claim, Result
from bench.running import (
    keyed,
    numbers,
    outputs,
    plan_of,
    restarted,
    running,
    settled,
    usual,
    warmed,
)
from penstock import Dataflow, Discard, Generator
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion

_FEW, _MANY = 100_000, 1_000_000
_NEIGHBOUR_SECONDS = 8


def _stateless() -> Dataflow:
    flow = Dataflow("plain")
    rows = flow.source("rows", Generator(numbers(1000), "key bigint, value bigint", "2000/s"))
    rows.frame("double", lambda df: df.selectExpr("key", "2 * value AS value")).sink(
        "out", Discard()
    )
    return flow


def _live(spark: Any, folder: Path, flow: Dataflow, name: str, **first: Any) -> dict[str, Any]:
    """Turn what needs no restart, several times, and compare the gaps with those without a turn."""
    plan = plan_of(flow, 2, **first)
    with running(spark, flow, plan, folder) as engine:
        warmed(engine, "out")
        query = str(engine.pipelines["rows"].query.runId)
        gaps, normal = [], usual(outputs(engine, "out"))
        for settings in (
            {"parallelism": 1},
            {"parallelism": 3},
            {"parallelism": 2, "admission": 50_000},
            {"admission": None, "cadence": 0.05},
            {"cadence": 0.0, "parallelism": 1},
            {"parallelism": 2},
        ):
            plan = plan.with_pipeline("rows", **settings)
            gaps.append(settled(engine, plan).interruption)
            before = len(outputs(engine, "out"))
            warmed(engine, "out", before + 6)
            normal += usual(outputs(engine, "out"), 5)
        same = str(engine.pipelines["rows"].query.runId) == query
    return {
        "change": name,
        "keys": 1000 if "ceiling" in first else "",
        "gap (ms)": 1000 * median(gaps),
        "usual gap (ms)": 1000 * median(normal),
        "ratio": median(gaps) / median(normal),
        "where the time goes": "nothing restarted" if same else "RESTARTED",
    }


def _moved(spark: Any, folder: Path, keys: int, shadow: bool) -> dict[str, Any]:
    """Move the ceiling there and back, against a bare stop and start of the same query."""
    flow = keyed(keys)
    plan = plan_of(flow, 2, ceiling=2)
    bare, gaps, phases = [], [], []
    with running(spark, flow, plan, folder, make_before_break=shadow) as engine:
        warmed(engine, "out")
        for ceiling in (4, 3, 2):
            bare.append(restarted(engine, "rows", "out"))
            warmed(engine, "out", len(outputs(engine, "out")) + 5)
            plan = plan.with_pipeline("rows", ceiling=ceiling)
            found = settled(engine, plan)
            gaps.append(found.interruption)
            phases.append(found.phases)
            warmed(engine, "out", len(outputs(engine, "out")) + 5)
        normal = median(usual(outputs(engine, "out"), 5))
    return {
        "change": f"ceiling, {'make before break' if shadow else 'stop, move, start'}",
        "keys": keys,
        "gap (ms)": 1000 * median(gaps),
        "usual gap (ms)": 1000 * normal,
        "bare restart (ms)": 1000 * median(bare),
        "ratio": median(gaps) / median(bare),
        "where the time goes": ", ".join(
            f"{name} {1000 * seconds:.0f}" for name, seconds in phases[len(phases) // 2]
        ),
    }


def _neighbours(spark: Any, folder: Path) -> dict[str, Any]:
    """Rows a second of a branch while the other one's state is moved, against before."""
    flow = Dataflow("branches")
    rows = flow.source("rows", Generator(numbers(50_000), "key bigint, value bigint", "4000/s"))
    for name in ("one", "two"):
        rows.key_by("key").aggregate(name, n="count(*)").sink(f"{name}-out", Discard())
    plan = fusion.default_plan(flow.graph, 2)
    for name in ("one", "two"):
        plan = plan.with_pipeline(name, parallelism=1, ceiling=2)
    rates, gaps = [], []
    with running(spark, flow, plan, folder) as engine:
        warmed(engine, "two-out", 20)
        for ceiling in (3, 2, 3):
            before = _rate(engine, _NEIGHBOUR_SECONDS)
            start, at = _position(engine), time.time()
            plan = plan.with_pipeline("one", ceiling=ceiling)
            found = settled(engine, plan)
            rates.append((_position(engine) - start) / (time.time() - at) / before)
            gaps.append(found.interruption)
    return {
        "change": "a neighbour's ceiling",
        "keys": 50_000,
        "gap (ms)": 1000 * median(gaps),
        "ratio": median(rates),
        "where the time goes": "ratio: throughput of the untouched branch, during / before",
    }


def _position(engine: SparkEngine) -> int:
    return sum(engine.pipelines["two"].positions.values())


def _rate(engine: SparkEngine, seconds: float) -> float:
    start, at = _position(engine), time.time()
    time.sleep(seconds)
    return (_position(engine) - start) / (time.time() - at)


def run(spark: Any, folder: Path) -> Result:
    rows = [
        _live(spark, folder / "plain", _stateless(), "instances, admission, cadence: no state"),
        _live(
            spark, folder / "keyed", keyed(1000), "the same, keyed, below the ceiling", ceiling=4
        ),
    ]
    for keys in (_FEW, _MANY):
        rows += [_moved(spark, folder / f"{keys}-{way}", keys, way) for way in (True, False)]
    rows.append(_neighbours(spark, folder / "neighbours"))
    columns = dict.fromkeys(name for row in rows for name in row)
    rows = [{name: row.get(name, "") for name in columns} for row in rows]
    best = min(rows[2]["ratio"], rows[3]["ratio"])
    return Result(
        "rescale",
        "Changes while records flow: the longest gap in the output against the usual gap between "
        "two batches, and for moved state against a bare stop and start of the same query.",
        rows,
        [
            Claim("gap of a stateless rescale / usual gap", rows[0]["ratio"], most=1.5),
            Claim(
                "gap of a keyed rescale below the ceiling / usual gap", rows[1]["ratio"], most=1.5
            ),
            Claim("gap of a moved ceiling, 100 k keys / bare restart", best, most=1.3),
            Claim(
                "throughput of an untouched pipeline, during / before", rows[-1]["ratio"], least=0.8
            ),
        ],
    )
