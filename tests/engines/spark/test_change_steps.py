"""Changes planned, carried out, crashed and recovered without Spark, on a model of a flow."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.dataflow.graph import Graph
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.changes import wiring as wirings
from penstock.engines.spark.changes.execution import Execution, Undone, recover
from penstock.engines.spark.changes.journal import Journal
from penstock.engines.spark.changes.planner import Situation, plan_change
from penstock.engines.spark.changes.steps import Step
from penstock.plan import fusion
from penstock.plan.plan import Plan
from tests.engines.spark.model_flow import Bomb, Crash, Disk, ModelFlow
from tests.strategies import dataflows, plans


class FragileJournal(Journal):
    """A journal during whose writes the process may die, with half a line written."""

    def __init__(self, folder: Path, bomb: Bomb) -> None:
        super().__init__(folder)
        self.bomb = bomb

    def _write(self, line: object) -> None:
        self.bomb.tick()
        try:
            self.bomb.tick()
        except BaseException:
            assert self._file is not None
            with self._file.open("a") as file:
                file.write(json.dumps(line)[:20])
            raise
        super()._write(line)  # type: ignore[arg-type]
        self.bomb.tick()


class Twice(Execution):
    """Runs every step twice, as a recovery may."""

    def _run(self, step: Step) -> None:
        super()._run(step)
        super()._run(step)


@st.composite
def plans_with_ceilings(draw: st.DrawFn, graph: Graph) -> Plan:
    plan = draw(plans(graph))
    for spec in plan.pipelines:
        operator = pipeline_graph.stateful(graph, spec.operators)
        if operator is not None and operator.keys:
            more = draw(st.sampled_from((None, 0, 1, 3)))
            ceiling = None if more is None else spec.parallelism + more
            plan = plan.with_pipeline(spec.name, ceiling=ceiling)
    return fusion.normalise(plan, graph)


class ChangingFlow(RuleBasedStateMachine):
    """A flow that is changed at any time, and dies or fails at any moment of a change."""

    @initialize(data=st.data(), seed=st.integers(0, 10**6))
    def begin(self, data: st.DataObject, seed: int) -> None:
        self.graph = data.draw(dataflows())
        self.choose = random.Random(seed)
        plan = data.draw(plans_with_ceilings(self.graph))
        self.folder = tempfile.TemporaryDirectory()
        self.disk = Disk(wirings.first(self.graph, plan), executors=plan.executors)
        self.flow = ModelFlow(self.graph, self.disk, self.choose, Bomb())
        self.flow.begin()

    def teardown(self) -> None:
        if hasattr(self, "flow"):
            self.flow.finish()
            self.flow.check_rows()
            self.folder.cleanup()

    @invariant()
    def one_wiring_is_whole(self) -> None:
        if hasattr(self, "flow"):
            self.flow.check_whole()

    @rule(batches=st.integers(1, 20))
    def rows_flow(self, batches: int) -> None:
        self.flow.go_on(batches)

    @rule(data=st.data(), twice=st.booleans())
    def change(self, data: st.DataObject, twice: bool) -> None:
        plan, steps = self._planned(data)
        self._carry_out(steps, Twice if twice else Execution)
        assert self.flow.wiring.plan == plan

    @rule(data=st.data(), at=st.integers(0, 60), again=st.one_of(st.none(), st.integers(0, 15)))
    def change_in_which_the_process_dies(
        self, data: st.DataObject, at: int, again: int | None
    ) -> None:
        before = self.flow.wiring
        plan, steps = self._planned(data)
        self.flow.bomb = Bomb(at)
        try:
            self._carry_out(steps)
        except Crash:
            self._restart(again)
        wiring = self.flow.wiring
        assert wiring.pipelines == before.pipelines or wiring.plan.pipelines == plan.pipelines

    @rule(data=st.data(), at=st.integers(0, 40))
    def change_in_which_a_step_fails(self, data: st.DataObject, at: int) -> None:
        before = self.flow.wiring
        _, steps = self._planned(data)
        number = before.number + 1
        self.flow.bomb = Bomb(at, RuntimeError)
        try:
            self._carry_out(steps)
        except Undone:
            assert self.flow.wiring == before
        except RuntimeError:  # after the commit there is no way back, the flow has to start again
            assert self.flow.wiring.number == number
            self._restart(None)

    @rule()
    def the_process_dies(self) -> None:
        self._restart(None)

    def _planned(self, data: st.DataObject) -> tuple[Plan, Sequence[Step]]:
        plan = data.draw(st.one_of(plans_with_ceilings(self.graph), self._adjusted()))
        can = [
            p.name
            for p in self.flow.wiring.plan.pipelines
            if pipeline_graph.stateful(self.graph, p.operators) is not None
            and self.flow.wiring.pipelines[p.name].checkpoint in self.disk.checkpoints
        ]
        overlap = data.draw(st.sets(st.sampled_from(can))) if can else set()
        steps = plan_change(Situation(self.graph, self.flow.wiring, frozenset(overlap)), plan)
        return plan, steps

    def _adjusted(self) -> st.SearchStrategy[Plan]:
        """The plan in force, with other settings of its keyed pipelines."""

        def adjusted(more: int, executors: int) -> Plan:
            plan = replace(self.flow.wiring.plan, executors=executors)
            for spec in plan.pipelines:
                operator = pipeline_graph.stateful(self.graph, spec.operators)
                if operator is not None and operator.keys:
                    parts = self.flow.wiring.pipelines[spec.name].partitions
                    ceiling = max(spec.parallelism, parts + more)
                    plan = plan.with_pipeline(spec.name, ceiling=ceiling)
            return fusion.normalise(plan, self.graph)

        return st.builds(adjusted, st.integers(-1, 2), st.integers(1, 3))

    def _carry_out(self, steps: Sequence[Step], kind: type[Execution] = Execution) -> None:
        fragile = self.flow.bomb if self.flow.bomb.error is Crash else Bomb()
        journal = FragileJournal(Path(self.folder.name) / "changes", fragile)
        kind(self.flow, steps).run(journal, "to test it")
        self.flow.bomb = Bomb()

    def _restart(self, again: int | None) -> None:
        """Start a new process on the same disk; it may die while it recovers."""
        for at in (again, None):
            self.flow = ModelFlow(self.graph, self.disk, self.choose, Bomb(at))
            journal = FragileJournal(Path(self.folder.name) / "changes", self.flow.bomb)
            try:
                recover(self.flow, journal)
            except Crash:
                continue
            break
        self.flow.bomb = Bomb()
        self.flow.begin()


TestChangingFlow = ChangingFlow.TestCase
TestChangingFlow.settings = settings(max_examples=60, stateful_step_count=8, deadline=None)
