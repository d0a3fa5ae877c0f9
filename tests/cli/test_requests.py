"""The commands that change a running flow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import Refused
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.stela.policy import Stela
from penstock.testing import MemoryEngine

from ..control.doubles import (
    running,
)
from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


def test_a_running_flow_is_changed_from_another_terminal(penstock: Run) -> None:
    engine = MemoryEngine()
    with running(Path("mine"), engine):
        code, out, err = penstock("scale", "mine", "double=4", "executors=2")
        assert (code, err) == (0, "")
        assert out == ("numbers: parallelism 1 -> 4; executors 1 -> 2 (0.00 s, interrupted 0 ms)\n")
        assert penstock("split", "mine", "double")[0] == 0
        assert len(engine.plan.pipelines) == 2
        assert penstock("fuse", "mine", "numbers", "double")[0] == 0
        assert len(engine.plan.pipelines) == 1
        assert penstock("pause", "mine")[1].startswith("numbers: admission unlimited -> 0 (")
        code, out, _ = penstock("resume", "mine", "--json", "--timeout", "20s")
        answer = json.loads(out)
        assert (code, answer["done"]) == (0, True)
        assert answer["transition"]["changes"] == ["numbers: admission 0 -> unlimited"]


def test_what_is_refused_exits_2(penstock: Run) -> None:
    with running(Path("mine"), MemoryEngine()):
        code, out, err = penstock("scale", "mine", "dubble=4")
        assert (code, out) == (2, "")
        assert err == "penstock: 'dubble' is no operator of 'numbers'; did you mean 'double'?\n"
        code, out, _ = penstock("split", "mine", "numbers", "--json")
        assert code == 2
        assert json.loads(out)["error"].startswith("there is nothing to split")
    code, _, err = penstock("pause", "mine")
    assert code == 2
    assert err.startswith("penstock: nothing is running in mine")


def test_words_that_cannot_be_asked_are_told_at_once(penstock: Run) -> None:
    assert "cannot read the setting 'pause'" in penstock("scale", "mine", "pause")[2]
    assert "'four' is no whole number" in penstock("scale", "mine", "count=four")[2]
    assert "cannot read the duration 'long'" in penstock("pause", "mine", "--timeout", "long")[2]
    assert penstock("fuse", "mine", "parse")[0] == 2


def test_scaling_on_demand_and_switching_the_policy(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scale_out(self: Stela, context: Context, executors: int) -> Decision:
        return Decision(Plan(context.plan.pipelines, 1 + executors), "there is work for them")

    def scale_in(self: Stela, context: Context, executors: int) -> Decision:
        raise Refused("one executor is the least")

    monkeypatch.setattr(Stela, "scale_out", scale_out)
    monkeypatch.setattr(Stela, "scale_in", scale_in)
    engine = MemoryEngine()
    with running(Path("mine"), engine):
        code, out, _ = penstock("scale-out", "mine", "2", "--json")
        assert (code, engine.plan.executors) == (0, 3)
        answer = json.loads(out)["transition"]
        assert answer["reason"] == "asked: scale-out 2; there is work for them"
        code, _, err = penstock("scale-in", "mine", "1")
        assert (code, err) == (2, "penstock: one executor is the least\n")
        assert penstock("policy", "mine", "off")[1] == "the policy of this run is now: off\n"
    assert "'none' is no whole number" in penstock("scale-in", "mine", "none")[2]
    assert "cannot read the request 'policy maybe'" in penstock("policy", "mine", "maybe")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scale-in", "5"], "no scale-in: removing 5 of 1 executors would leave none to run on"),
        (["scale-out", "1"], "no scale-out: not measured: "),
    ],
)
def test_scaling_on_demand_that_is_not_done_exits_2(
    penstock: Run, words: list[str], said: str
) -> None:
    class Blind(MemoryEngine):
        def observe(self) -> Snapshot:
            return replace(super().observe(), pipelines={}, settled=True)

    engine = Blind()
    with running(Path("mine"), engine):
        code, out, err = penstock(words[0], "mine", *words[1:])
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert err.startswith(f"penstock: {said}")
        code, out, _ = penstock(words[0], "mine", *words[1:], "--json")
        assert (code, engine.plan.executors) == (2, 1)
        assert json.loads(out)["error"].startswith(said)
