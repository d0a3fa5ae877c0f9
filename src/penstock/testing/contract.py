"""What every engine must do, as tests for pytest.

An engine's test module subclasses `EngineContract` and gives it a fixture `harness`, which yields
a `Harness` for that engine from inside a `with` statement:

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def harness(self, tmp_path):
            with MyHarness(tmp_path / "run") as harness:
                yield harness

Put `pytest.register_assert_rewrite("penstock.testing.contract")` into your `conftest.py` to see
the values of a failed assertion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from penstock.dataflow.graph import Graph
from penstock.engines.port import Engine
from penstock.errors import InvalidPlan, PenstockError, Refused, RunDirectoryError
from penstock.plan.plan import Pipeline, Plan

ROWS = 100
"""Rows to wait for in each step; no test depends on how long that takes."""


class Harness(ABC):
    """What the contract needs to know of an engine; on leaving the `with`, it stops its engines."""

    has_channels = True
    """Whether records wait between pipelines and snapshots show them."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._made: list[Engine] = []

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        for engine in self._made:
            with suppress(PenstockError):
                engine.stop(drain=False)

    def engine(self) -> Engine:
        """A new engine, which is stopped at the end of the test."""
        self._made.append(self.make())
        return self._made[-1]

    @abstractmethod
    def make(self) -> Engine:
        """Make an engine in the state *new*."""

    @abstractmethod
    def graph(self) -> Graph:
        """The dataflow the contract runs; each call gives an equal one."""

    @abstractmethod
    def other_graph(self) -> Graph:
        """A dataflow with another fingerprint."""

    @abstractmethod
    def merged_plan(self) -> Plan:
        """A valid plan for `graph()`."""

    @abstractmethod
    def split_plan(self) -> Plan:
        """A valid plan that differs from `merged_plan()` in that a pipeline is split."""

    @abstractmethod
    def rescaled_plan(self) -> Plan:
        """A valid plan that differs from `merged_plan()` in a parallelism only."""

    def invalid_plan(self) -> Plan:
        """A plan that does not fit `graph()`."""
        return Plan((Pipeline(("no-such-operator",)),))

    @abstractmethod
    def work(self, engine: Engine, rows: int) -> None:
        """Wait until the engine has taken in at least `rows` more rows, and has delivered some."""

    @abstractmethod
    def expected_delivered(self, ingested: int) -> int:
        """Number of rows delivered in all once `ingested` rows have gone through."""


class EngineContract:
    """The contract of the engine port; needs a fixture `harness`."""

    @pytest.fixture
    def engine(self, harness: Harness) -> Engine:
        """An engine that runs under the merged plan."""
        engine = harness.engine()
        engine.start(harness.graph(), harness.merged_plan(), harness.run_dir)
        return engine

    # --- running -------------------------------------------------------------------------------

    def test_a_started_engine_ingests_and_delivers_rows(
        self, harness: Harness, engine: Engine
    ) -> None:
        harness.work(engine, ROWS)
        seen = engine.observe()
        assert seen.rows_ingested >= ROWS
        assert 0 < seen.rows_delivered <= harness.expected_delivered(seen.rows_ingested)
        assert sum(seen.sinks.values()) == seen.rows_delivered
        assert not seen.drained

    def test_a_snapshot_has_an_entry_for_every_pipeline_of_the_plan(
        self, harness: Harness, engine: Engine
    ) -> None:
        harness.work(engine, ROWS)
        seen = engine.observe()
        names = {pipeline.name for pipeline in engine.plan.pipelines}
        assert set(seen.pipelines) == names
        assert seen.source_pipelines
        assert seen.source_pipelines <= names

    def test_channels_are_the_edges_between_pipelines(
        self, harness: Harness, engine: Engine
    ) -> None:
        """Named by the operator that writes and the operator that reads."""
        if not harness.has_channels:
            pytest.skip("nothing waits between the pipelines of this engine")
        engine.apply(harness.split_plan())
        harness.work(engine, ROWS)
        graph, plan = harness.graph(), engine.plan
        crossing = {
            f"{writer}>{reader}": (writer, reader)
            for writer in graph.topological
            for reader in graph.successors[writer]
            if plan.pipeline_of(writer) != plan.pipeline_of(reader)
        }
        found = engine.observe().channels
        assert {key: (one.writer, one.reader) for key, one in found.items()} == crossing
        for one in found.values():
            assert one.backlog_rows is not None
            assert one.backlog_rows >= 0
            if one.latency is not None and one.batching is not None:
                assert 0 <= one.batching <= one.latency + 1e-9

    def test_totals_never_go_back(self, harness: Harness, engine: Engine) -> None:
        before = engine.observe()
        harness.work(engine, ROWS)
        after = engine.observe()
        assert after.at >= before.at
        assert after.rows_ingested >= before.rows_ingested + ROWS
        assert after.rows_delivered >= before.rows_delivered

    def test_without_a_plan_a_new_run_gets_one_and_flows(self, harness: Harness) -> None:
        engine = harness.engine()
        engine.start(harness.graph(), None, harness.run_dir)
        harness.work(engine, ROWS)
        assert engine.plan.pipelines

    # --- changing the plan ---------------------------------------------------------------------

    def test_the_plan_in_force_is_the_one_it_was_started_with(
        self, harness: Harness, engine: Engine
    ) -> None:
        assert _groups(engine.plan) == _groups(harness.merged_plan())

    def test_a_changed_parallelism_is_in_force_and_named_in_the_transition(
        self, harness: Harness, engine: Engine
    ) -> None:
        harness.work(engine, ROWS)
        transition = engine.apply(harness.rescaled_plan(), "more is due")
        assert _parallelism(engine.plan) == _parallelism(harness.rescaled_plan())
        assert transition.reason == "more is due"
        assert any("parallelism" in change for change in transition.changes)
        assert 0 <= transition.interruption <= transition.duration
        harness.work(engine, ROWS)

    def test_a_plan_equal_to_the_one_in_force_costs_nothing(
        self, harness: Harness, engine: Engine
    ) -> None:
        transition = engine.apply(engine.plan)
        assert transition.changes == ()
        assert transition.interruption == 0
        assert transition.rows_replayed == 0

    def test_an_invalid_plan_is_refused_and_everything_flows_on(
        self, harness: Harness, engine: Engine
    ) -> None:
        before = engine.plan
        with pytest.raises(InvalidPlan):
            engine.apply(harness.invalid_plan())
        assert engine.plan == before
        harness.work(engine, ROWS)

    def test_an_engine_refused_an_invalid_plan_at_the_start_can_be_started_with_a_valid_one(
        self, harness: Harness
    ) -> None:
        engine = harness.engine()
        with pytest.raises(InvalidPlan):
            engine.start(harness.graph(), harness.invalid_plan(), harness.run_dir)
        engine.start(harness.graph(), harness.merged_plan(), harness.run_dir)
        harness.work(engine, ROWS)

    def test_a_split_and_a_merge_lose_and_double_nothing(
        self, harness: Harness, engine: Engine
    ) -> None:
        harness.work(engine, ROWS)
        split = engine.apply(harness.split_plan())
        assert any(change.startswith("split") for change in split.changes)
        assert _groups(engine.plan) == _groups(harness.split_plan())
        harness.work(engine, ROWS)
        merge = engine.apply(harness.merged_plan())
        assert any(change.startswith("merge") for change in merge.changes)
        assert _groups(engine.plan) == _groups(harness.merged_plan())
        harness.work(engine, ROWS)
        engine.stop(drain=True)
        _assert_all_delivered(harness, engine)

    # --- stopping ------------------------------------------------------------------------------

    def test_a_drain_delivers_everything_that_was_ingested(
        self, harness: Harness, engine: Engine
    ) -> None:
        harness.work(engine, ROWS)
        engine.stop(drain=True)
        assert engine.observe().rows_ingested >= ROWS
        _assert_all_delivered(harness, engine)

    def test_stopping_twice_is_harmless(self, harness: Harness, engine: Engine) -> None:
        harness.work(engine, ROWS)
        engine.stop(drain=True)
        before = engine.observe()
        engine.stop(drain=True)
        engine.stop(drain=False)
        after = engine.observe()
        assert after.rows_delivered == before.rows_delivered
        assert after.drained

    def test_stopped_without_a_drain_it_says_so(self, harness: Harness, engine: Engine) -> None:
        harness.work(engine, ROWS)
        engine.stop(drain=False)
        seen = engine.observe()
        assert not seen.drained
        assert seen.rows_delivered <= harness.expected_delivered(seen.rows_ingested)

    # --- the wrong state -----------------------------------------------------------------------

    def test_a_new_engine_cannot_be_changed_or_observed(self, harness: Harness) -> None:
        engine = harness.engine()
        with pytest.raises(Refused):
            engine.apply(harness.merged_plan())
        with pytest.raises(Refused):
            engine.observe()

    def test_a_running_engine_cannot_be_started(self, harness: Harness, engine: Engine) -> None:
        with pytest.raises(Refused):
            engine.start(harness.graph(), None, harness.run_dir)
        harness.work(engine, ROWS)

    def test_a_stopped_engine_cannot_be_started_or_changed(
        self, harness: Harness, engine: Engine
    ) -> None:
        engine.stop(drain=False)
        with pytest.raises(Refused):
            engine.start(harness.graph(), None, harness.run_dir)
        with pytest.raises(Refused):
            engine.apply(harness.rescaled_plan())

    # --- the run directory ---------------------------------------------------------------------

    @pytest.mark.parametrize("drain", [True, False])
    def test_a_resumed_run_goes_on_with_its_totals_under_its_last_plan(
        self, harness: Harness, engine: Engine, drain: bool
    ) -> None:
        harness.work(engine, ROWS)
        engine.apply(harness.split_plan())
        harness.work(engine, ROWS)
        engine.stop(drain=drain)
        before = engine.observe()

        resumed = harness.engine()
        resumed.start(harness.graph(), None, harness.run_dir)
        assert _groups(resumed.plan) == _groups(harness.split_plan())
        assert resumed.observe().rows_ingested >= before.rows_ingested
        harness.work(resumed, ROWS)
        resumed.stop(drain=True)
        assert resumed.observe().rows_ingested >= before.rows_ingested + ROWS
        _assert_all_delivered(harness, resumed)

    def test_a_resumed_run_can_be_given_another_plan(
        self, harness: Harness, engine: Engine
    ) -> None:
        harness.work(engine, ROWS)
        engine.stop(drain=False)
        resumed = harness.engine()
        resumed.start(harness.graph(), harness.split_plan(), harness.run_dir)
        assert _groups(resumed.plan) == _groups(harness.split_plan())
        harness.work(resumed, ROWS)
        resumed.stop(drain=True)
        _assert_all_delivered(harness, resumed)

    def test_the_run_directory_of_another_dataflow_is_refused_and_left_alone(
        self, harness: Harness, engine: Engine
    ) -> None:
        harness.work(engine, ROWS)
        engine.stop(drain=True)
        before = _content(harness.run_dir)
        with pytest.raises(RunDirectoryError):
            harness.engine().start(harness.other_graph(), None, harness.run_dir)
        assert _content(harness.run_dir) == before


def _assert_all_delivered(harness: Harness, engine: Engine) -> None:
    seen = engine.observe()
    assert seen.drained
    assert seen.ending
    assert seen.rows_delivered == harness.expected_delivered(seen.rows_ingested)


def _groups(plan: Plan) -> set[tuple[str, ...]]:
    return {pipeline.operators for pipeline in plan.pipelines}


def _parallelism(plan: Plan) -> dict[str, int]:
    return {pipeline.name: pipeline.parallelism for pipeline in plan.pipelines}


def _content(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
