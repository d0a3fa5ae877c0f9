from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engines.port import Engine
from penstock.engines.simulator.distributions import Exponential
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import MicroBatch, Model, OperatorCost
from penstock.testing.contract import EngineContract, Harness
from tests.engines.untouched import WordCountHarness

STEPS = {"split": OperatorCost(selectivity=2.5), "count": OperatorCost(Exponential(0.0005))}


class SimulatorHarness(WordCountHarness):
    batch: MicroBatch | None = None

    def make(self) -> SimulatorEngine:
        return SimulatorEngine(Model(STEPS, batch=self.batch), load="500/s", seed=3)

    def work(self, engine: Engine, rows: int) -> None:
        assert isinstance(engine, SimulatorEngine)
        goal = engine.observe().rows_ingested + rows
        seen = engine.observe()
        while seen.rows_ingested < goal or not seen.rows_delivered:
            engine.advance(0.1)
            seen = engine.observe()


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
