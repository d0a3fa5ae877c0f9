"""Pipelines that are emptied one after the other use the slots of those that are done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.spark.changes import quiescence
from penstock.engines.spark.queries import checkpoint
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import nothing

ROWS = 100


def flow(most: int | None) -> Graph:
    made = Dataflow("chain")
    stream = made.source("s", Generator(nothing, "n bigint"))
    stream = stream.map("a", dict, schema="n bigint")
    stream = stream.map("b", dict, schema="n bigint")
    stream.map("c", dict, schema="n bigint", max_parallelism=most).sink("out", Discard())
    return made.graph


class Pipe:
    """A pipeline that takes the rest of its channel once it is told to."""

    def __init__(self, spec: Pipeline, before: str, late: bool) -> None:
        self.spec, self.turns = spec, list[dict[str, Any]]()
        self.inputs = [SimpleNamespace(key="in", upstream=before, operator=spec.operators[0])]
        self.positions = {"in": 0 if late else ROWS}
        self.foreign, self.quiet, self.stopped = (), True, False
        self.settled, self.pending, self.held, self.stateful = True, False, False, None
        self.checkpoint, self.wired = None, SimpleNamespace(epoch=0)

    def turn(self, **changes: Any) -> None:
        self.turns.append(changes)

    def owes_mark(self, entry: Any) -> bool:
        return False

    def hold(self) -> None:
        self.held = True

    def stop(self) -> None:
        assert self.held  # so that it is stopped between two batches
        self.stopped = True


def emptied(monkeypatch: pytest.MonkeyPatch, most: int | None, late: str) -> dict[str, Pipe]:
    graph = flow(most)
    specs = [Pipeline(("a",), 2), Pipeline(("b",), 4), Pipeline(("c", "out"), 1)]
    plan = Plan((Pipeline(("s",)), *specs))
    pipes = {
        spec.name: Pipe(spec, before, spec.name in late)
        for spec, before in zip(specs, "sab", strict=True)
    }

    def wait(condition: Any) -> None:
        for pipe in pipes.values():
            if pipe.turns:
                pipe.positions["in"] = ROWS
        assert condition()

    engine: Any = SimpleNamespace(
        site=SimpleNamespace(
            graph=graph,
            tail=lambda names: [n for n in names if n != "out"][-1],
            channel=lambda name: SimpleNamespace(end=ROWS),
        ),
        pipelines=pipes,
        wiring=SimpleNamespace(plan=plan),
        wait=wait,
        take_in=lambda pipeline: None,
        limits={},
    )
    monkeypatch.setattr(checkpoint, "committed", lambda *_: {})
    found = quiescence.quiesce(engine, specs)
    assert found.positions == {"in": ROWS}
    assert all(pipe.stopped for pipe in pipes.values())
    return pipes


@pytest.mark.parametrize(("most", "instances"), [(None, 7), (3, 3), (20, 7)])
def test_who_is_left_has_the_slots_of_those_who_are_done(
    monkeypatch: pytest.MonkeyPatch, most: int | None, instances: int
) -> None:
    pipes = emptied(monkeypatch, most, "c")
    assert pipes["c"].turns[0] == {
        "parallelism": instances,
        "admission": None,
        "cadence": 0.0,
    }
    assert [pipe.turns[-1] for pipe in pipes.values()] == [{"open": False}] * 3


def test_who_has_nothing_left_is_only_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipes = emptied(monkeypatch, None, "b")
    assert pipes["b"].turns[0]["parallelism"] == 6
    assert [len(pipe.turns) for pipe in pipes.values()] == [1, 2, 1]
