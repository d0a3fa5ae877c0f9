from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.errors import InvalidDataflow, Refused
from penstock.plan.plan import Pipeline, Plan
from penstock.testing import MemoryEngine
from penstock.testing.contract import EngineContract, Harness
from tests.engines.untouched import WordCountHarness
from tests.strategies import WORDS, dataflows, few, nothing, plans


class MemoryHarness(WordCountHarness):
    def make(self) -> MemoryEngine:
        return MemoryEngine(costs={"count": 0.001}, selectivity={"split": 2.5}, rate=500)

    def work(self, engine: Engine, rows: int) -> None:
        assert isinstance(engine, MemoryEngine)
        goal = engine.observe().rows_ingested + rows
        while engine.observe().rows_ingested < goal:
            engine.advance(0.1)


class TestMemoryEngine(EngineContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        with MemoryHarness(tmp_path / "run") as harness:
            yield harness


def linear(costs: dict[str, float], rate: object, plan: Plan | None, run_dir: Path) -> MemoryEngine:
    flow = Dataflow("linear")
    source = flow.source("in", Generator(nothing, WORDS))
    source.frame("a", nothing).frame("b", nothing).sink("out", Memory())
    engine = MemoryEngine(costs, {}, rate)  # type: ignore[arg-type]
    engine.start(flow.graph, plan, run_dir)
    return engine


CHAIN = Plan((Pipeline(("in", "a")), Pipeline(("b", "out"))))


def test_a_fast_flow_delivers_what_is_offered_and_is_idle(tmp_path: Path) -> None:
    engine = linear({"a": 0.001}, 100, CHAIN, tmp_path)
    engine.advance(10)
    seen = engine.observe()
    assert (seen.at, seen.window) == (10.0, 10.0)
    assert (seen.rows_offered, seen.rows_ingested, seen.rows_delivered) == (1000, 1000, 1000)
    assert seen.throughput == 100.0
    assert seen.pipelines["in"].busy == 0.1
    assert seen.pipelines["b"].busy == 0.0
    assert seen.pipelines["b"].backlog_rows == 0


def test_a_slow_pipeline_is_busy_and_its_queue_grows(tmp_path: Path) -> None:
    engine = linear({"b": 0.02}, 100, CHAIN, tmp_path)
    engine.advance(10)
    slow = engine.observe().pipelines["b"]
    assert slow.busy == 1.0
    assert slow.rate_in == 50.0
    assert slow.rate_out == 50.0
    assert slow.backlog_rows == 500
    assert slow.backlog_seconds == 10.0


def test_twice_the_parallelism_is_twice_the_capacity(tmp_path: Path) -> None:
    engine = linear({"b": 0.02}, 100, CHAIN.with_pipeline("b", parallelism=2), tmp_path)
    engine.advance(10)
    assert engine.observe().pipelines["b"].rate_in == 100.0
    assert engine.observe().pipelines["b"].busy == 1.0
    assert engine.observe().pipelines["b"].backlog_rows == 0


def test_a_slow_source_pipeline_holds_rows_back_outside(tmp_path: Path) -> None:
    engine = linear({"a": 0.02}, 100, CHAIN, tmp_path)
    engine.advance(10)
    seen = engine.observe()
    assert (seen.rows_offered, seen.rows_ingested, seen.rows_delivered) == (1000, 500, 500)
    assert seen.pipelines["in"].backlog_rows == 500


def test_a_row_that_takes_longer_than_a_step_is_finished_all_the_same(tmp_path: Path) -> None:
    engine = linear({"b": 0.4}, 100, CHAIN, tmp_path)
    engine.advance(4)
    assert engine.observe().rows_delivered == 10


def test_a_drain_takes_the_time_of_the_work_that_is_left(tmp_path: Path) -> None:
    engine = linear({"b": 0.02}, 100, CHAIN, tmp_path)
    engine.advance(10)
    engine.stop(drain=True)
    seen = engine.observe()
    assert (seen.at, seen.window) == (20.0, 10.0)
    assert seen.rows_delivered == 1000


def test_the_rate_may_be_a_function_of_time_or_a_load(tmp_path: Path) -> None:
    ramp = linear({}, lambda at: 10 * at, CHAIN, tmp_path / "function")
    ramp.advance(10)
    assert ramp.observe().rows_offered == 500
    text = linear({}, "250/s", CHAIN, tmp_path / "load")
    text.advance(4)
    assert text.observe().rows_offered == 1000


def test_observing_changes_nothing(tmp_path: Path) -> None:
    engine = linear({"b": 0.02}, 100, CHAIN, tmp_path)
    engine.advance(1)
    assert engine.observe() == engine.observe()


def test_a_change_of_plan_begins_a_new_window(tmp_path: Path) -> None:
    engine = linear({"b": 0.02}, 100, CHAIN, tmp_path)
    engine.advance(1)
    engine.apply(CHAIN.with_pipeline("b", parallelism=2))
    seen = engine.observe()
    assert seen.window == 0.0
    assert seen.pipelines["b"].busy is None
    assert seen.pipelines["b"].backlog_rows == 50


def test_a_crash_goes_back_to_the_last_change(tmp_path: Path) -> None:
    engine = linear({}, 100, CHAIN, tmp_path)
    engine.advance(1)
    engine.apply(CHAIN.with_pipeline("b", parallelism=2))
    engine.advance(1)
    resumed = linear({}, 100, None, tmp_path)
    assert resumed.observe().rows_delivered == 100
    assert resumed.plan == CHAIN.with_pipeline("b", parallelism=2)


def test_rows_kept_in_a_queue_are_there_after_a_restart(tmp_path: Path) -> None:
    engine = linear({"b": 0.02}, 100, CHAIN, tmp_path)
    engine.advance(10)
    engine.stop(drain=False)
    assert json.loads((tmp_path / "memory.json").read_text())["queues"] == [["a", "b", 500]]
    assert linear({"b": 0.02}, 100, None, tmp_path).observe().pipelines["b"].backlog_rows == 500


def test_an_invalid_dataflow_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataflow):
        MemoryEngine().start(Dataflow("empty").graph, None, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_time_stands_still_in_an_engine_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="the engine is new; this needs one that is running"):
        MemoryEngine().advance(1)


@few
@given(st.data())
def test_whatever_plans_were_in_force_every_row_is_delivered_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    graph = data.draw(dataflows())
    names = st.sampled_from([o.name for o in graph.operators])
    costs = data.draw(st.dictionaries(names, st.sampled_from((0.001, 0.01, 0.3)), max_size=4))
    inner = st.sampled_from([o.name for o in graph.operators if o not in graph.sources])
    selectivity = data.draw(st.dictionaries(inner, st.sampled_from((0.0, 0.3, 2.5)), max_size=3))

    engine = MemoryEngine(costs, selectivity, 37)
    engine.start(graph, None, tmp_path_factory.mktemp("run"))
    for plan in data.draw(st.lists(plans(graph), min_size=1, max_size=4)):
        engine.advance(0.35)
        engine.apply(plan)
    engine.stop(drain=True)
    ingested = {source.name: engine._seen[source.name] for source in graph.sources}
    assert engine.observe().sinks == _expected(graph, selectivity, ingested)


def _expected(
    graph: Graph, selectivity: dict[str, float], ingested: dict[str, int]
) -> dict[str, int]:
    """Rows at each sink, computed operator by operator without time, plans or queues."""
    tenths = {name: round(10 * factor) for name, factor in selectivity.items()}
    into = dict.fromkeys(graph.topological, 0) | ingested
    for name in graph.topological:
        for reader in graph.successors[name]:
            into[reader] += into[name] * tenths.get(name, 10) // 10
    return {sink.name: into[sink.name] for sink in graph.sinks}


def test_the_default_plan_of_a_new_run_is_the_greatest_fusion(tmp_path: Path) -> None:
    engine = linear({}, 1, None, tmp_path)
    assert engine.plan == Plan((Pipeline(("in", "a", "b", "out")),))


def test_a_paused_source_takes_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    engine = linear({"b": 0.002}, 1000, CHAIN, tmp_path)
    engine.advance(1)
    engine.apply(CHAIN.with_pipeline("in", admission=0))
    engine.advance(1)
    seen = engine.observe()
    assert (seen.rows_offered, seen.rows_ingested, seen.rows_delivered) == (2000, 1000, 1000)
    engine.apply(CHAIN)
    engine.advance(1)
    assert engine.observe().rows_ingested == 3000


def test_a_drain_empties_what_takes_nothing(tmp_path: Path) -> None:
    engine = linear({}, 1000, CHAIN.with_pipeline("b", admission=0), tmp_path)
    engine.advance(1)
    assert engine.observe().rows_delivered == 0
    engine.stop()
    assert engine.observe().rows_delivered == 1000
