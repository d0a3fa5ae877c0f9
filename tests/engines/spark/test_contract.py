"""The Spark engine keeps the contract of the port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Dataflow, Generator, Memory, Pipeline, Plan
from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.engines.spark.engine import SparkEngine
from penstock.testing.contract import EngineContract, Harness
from tests.engines.spark.flows import SCHEMA, numbers, until

pytestmark = pytest.mark.spark


def _flow(name: str) -> Dataflow:
    flow = Dataflow(name)
    records = flow.source("numbers", Generator(numbers, SCHEMA, load="2000/s"))
    twice = records.frame("twice", lambda df: df.selectExpr("key", "id", "explode(array(1, 2))"))
    twice.key_by("id", "key").deduplicate("once").sink("out", Memory())
    return flow


class SparkHarness(Harness):
    """Each number goes in once, is doubled, and comes out once: state and counts both matter."""

    def __init__(self, spark: Any, run_dir: Path) -> None:
        super().__init__(run_dir)
        self._spark = spark

    def make(self) -> Engine:
        return SparkEngine(spark=self._spark)

    def graph(self) -> Graph:
        return _flow("contract").graph

    def other_graph(self) -> Graph:
        return _flow("another").graph

    def merged_plan(self) -> Plan:
        return Plan((Pipeline(("numbers", "twice", "once", "out"), 2, ceiling=4),))

    def split_plan(self) -> Plan:
        return Plan((Pipeline(("numbers", "twice"), 2), Pipeline(("once", "out"), 2, ceiling=4)))

    def rescaled_plan(self) -> Plan:
        return Plan((Pipeline(("numbers", "twice", "once", "out"), 3, ceiling=4),))

    def work(self, engine: Engine, rows: int) -> None:
        before = engine.observe()

        def moved() -> bool:
            now = engine.observe()
            taken = now.rows_ingested >= before.rows_ingested + rows
            return taken and now.rows_delivered > before.rows_delivered

        until(moved, f"{rows} more rows")

    def expected_delivered(self, ingested: int) -> int:
        return ingested


class TestSparkEngine(EngineContract):
    @pytest.fixture
    def harness(self, spark: Any, tmp_path: Path) -> Iterator[Harness]:
        with SparkHarness(spark, tmp_path / "run") as harness:
            yield harness
