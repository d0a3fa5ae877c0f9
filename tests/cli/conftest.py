"""The command, run in a directory of its own and without Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import policies
from penstock.cli import main
from penstock.plan.decision import Decision
from penstock.policies.base.policy import Context
from penstock.testing import MemoryEngine, fake_clock

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def penstock(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the command; its exit code, what is on standard output, and on standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main.main(words)
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "penstock.engines.spark.session.flow_session.session", lambda master, conf: None
    )
    monkeypatch.setattr("penstock.cli.explain._schemas", lambda graph, master, conf: ({}, ()))


def play(monkeypatch: pytest.MonkeyPatch, engine: MemoryEngine, at: Any = None) -> list[str | None]:
    """Let runs happen in an engine of ours, in no time; the masters asked for."""
    masters: list[str | None] = []
    monkeypatch.setattr("penstock.app._spark", lambda m, conf: masters.append(m) or engine)
    monkeypatch.setattr("penstock.app.Clock", lambda: fake_clock(engine, at))
    return masters


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Greedy:
    """One instance more, always."""

    name = "greedy"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        plan = context.plan
        first = plan.pipelines[0]
        more = plan.with_pipeline(first.name, parallelism=first.parallelism + 1)
        return Decision(more, "more is more", {"instances": plan.slots}), memory


@pytest.fixture
def greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    known = policies.get
    monkeypatch.setattr(policies, "get", lambda name: Greedy() if name == "greedy" else known(name))


SCRIPT = ("--change", "3s:count=4", "--change", "4s:split tweets")


@pytest.fixture
def mine(here: None, penstock: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of six seconds with a change and a refusal in it."""
    play(monkeypatch, MemoryEngine())
    assert penstock("run", "wordcount", "--for", "6s", "--run-dir", "mine", *SCRIPT)[0] == 0
    return Path("mine")
