from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import MicroBatch, Model, Step
from penstock.engines.simulator.service import Exponential
from penstock.plan.plan import Pipeline, Plan
from tests.engines.contract import EngineContract, Harness
from tests.strategies import nothing

STEPS = {"split": Step(selectivity=2.5), "count": Step(Exponential(0.0005))}


def word_count(name: str = "wordcount") -> Graph:
    flow = Dataflow(name)
    words = flow.source("tweets", Generator(nothing, "value string")).frame("split", nothing)
    words.key_by("word").aggregate("count", n="count(*)").sink("counts", Memory())
    return flow.graph


class SimulatorHarness(Harness):
    batch: MicroBatch | None = None

    def make(self) -> SimulatorEngine:
        return SimulatorEngine(Model(STEPS, batch=self.batch), load="500/s", seed=3)

    def graph(self) -> Graph:
        return word_count()

    def other_graph(self) -> Graph:
        return word_count("another")

    def merged_plan(self) -> Plan:
        return Plan((Pipeline(("tweets", "split", "count", "counts")),))

    def split_plan(self) -> Plan:
        return Plan((Pipeline(("tweets", "split")), Pipeline(("count", "counts"))))

    def rescaled_plan(self) -> Plan:
        return self.merged_plan().with_pipeline("count", parallelism=3)

    def work(self, engine: Engine, rows: int) -> None:
        assert isinstance(engine, SimulatorEngine)
        goal = engine.observe().rows_ingested + rows
        seen = engine.observe()
        while seen.rows_ingested < goal or not seen.rows_delivered:
            engine.advance(0.1)
            seen = engine.observe()

    def expected_delivered(self, ingested: int) -> int:
        return ingested * 5 // 2


class BatchHarness(SimulatorHarness):
    batch = MicroBatch()


class TestContinuous(EngineContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        with SimulatorHarness(tmp_path / "run") as harness:
            yield harness


class TestMicroBatch(EngineContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        with BatchHarness(tmp_path / "run") as harness:
            yield harness
