"""The engine of the documentation keeps the contract of all engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.errors import InvalidInput
from penstock.plan.plan import Pipeline, Plan
from penstock.testing.contract import EngineContract, Harness

from .blocks import titled

NAMES: dict[str, Any] = {"__name__": "inline"}
exec(compile(titled("inline.py").text, "inline.py", "exec"), NAMES)


def numbers(name: str = "numbers") -> Graph:
    flow = Dataflow(name)
    source = Generator(lambda rng, index, at: {"n": index}, "n bigint", "500/s")
    stream = flow.source("numbers", source).filter("even", lambda r: r["n"] % 2 == 0)
    stream.flat_map("twice", lambda r: [(r["n"],)] * 2, schema="n bigint").sink("out", Discard())
    return flow.graph


class InlineHarness(Harness):
    has_channels = False

    def make(self) -> Engine:
        engine: Engine = NAMES["InlineEngine"]()
        return engine

    def graph(self) -> Graph:
        return numbers()

    def other_graph(self) -> Graph:
        return numbers("others")

    def merged_plan(self) -> Plan:
        return Plan((Pipeline(("numbers", "even", "twice", "out")),))

    def split_plan(self) -> Plan:
        return Plan((Pipeline(("numbers", "even")), Pipeline(("twice", "out"))))

    def rescaled_plan(self) -> Plan:
        return self.merged_plan().with_pipeline("even", parallelism=3)

    def work(self, engine: Any, rows: int) -> None:
        goal = engine.observe().rows_ingested + rows
        while engine.observe().rows_ingested < goal:
            engine.advance(0.1)

    def expected_delivered(self, ingested: int) -> int:
        return 2 * ((ingested + 1) // 2)


class TestInlineEngine(EngineContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        with InlineHarness(tmp_path / "run") as harness:
            yield harness


def test_an_operator_that_it_cannot_call_is_refused(tmp_path: Path) -> None:
    flow = Dataflow("keyed")
    source = flow.source("in", Generator(lambda rng, index, at: {}, "n bigint"))
    source.key_by("n").deduplicate("once").sink("out", Discard())
    with pytest.raises(InvalidInput, match="'once' is no Python operator without state"):
        NAMES["InlineEngine"]().start(flow.graph, None, tmp_path / "run")
