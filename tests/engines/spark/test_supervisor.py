"""Which events the supervisor reports, with pipelines and executors that do as they are told."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engines.spark.supervisor import EventLog, Supervisor


class Pipe:
    """A pipeline that fails with an error until it is restarted."""

    def __init__(self, *foreign: str) -> None:
        self.name = "one"
        self.spec = SimpleNamespace(operators=("one",))
        self.foreign = tuple(SimpleNamespace(name=name) for name in foreign)
        self.valve = SimpleNamespace(open=False)
        self.error: Exception | None = None
        self.reported = False

    def failure(self) -> Exception | None:
        return self.error

    def restart(self) -> None:
        self.error = None


@pytest.fixture
def pipe() -> Pipe:
    return Pipe("topic")


@pytest.fixture
def executors() -> Any:
    return SimpleNamespace(fixed=False, dynamic=False, released=set(), there=["0", "1"])


@pytest.fixture
def supervisor(pipe: Pipe, executors: Any, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    monkeypatch.setattr("penstock.engines.spark.supervisor._EXECUTOR_CHECK", 0.0)
    executors.ids = lambda: tuple(executors.there)
    observer: Any = SimpleNamespace(take=lambda p: p.reported, last=lambda name: None)
    idle: Any = SimpleNamespace(watched=None)
    gauges: Any = SimpleNamespace()
    context: Any = SimpleNamespace(channels={})
    pipelines: Any = {"one": pipe}
    return Supervisor(
        context,
        pipelines,
        observer,
        gauges,
        idle,
        executors,
        EventLog(lambda: 7.5),
        threading.RLock(),
    )


def told(supervisor: Supervisor) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in supervisor._events.take()]


def test_a_restart_is_reported_with_its_reason_and_so_is_the_recovery(
    supervisor: Supervisor, pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    pipe.error = RuntimeError("ValueError: no")
    with caplog.at_level(logging.INFO, logger="penstock"):
        supervisor.tick()
        supervisor.tick()
        pipe.reported = True
        supervisor.tick()
        supervisor.tick()
    assert told(supervisor) == [
        ("restart", "pipeline one has failed and is restarted (try 1 of 3): ValueError: no"),
        ("recovered", "pipeline one runs again"),
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_source_that_cannot_be_reached_is_reported_until_it_is_back(
    supervisor: Supervisor, pipe: Pipe
) -> None:
    pipe.error = RuntimeError("org.apache.kafka.common.errors.TimeoutException: no broker")
    supervisor.tick()
    pipe.reported = True
    supervisor.tick()
    kinds = [kind for kind, _ in told(supervisor)]
    assert kinds == ["source unreachable", "restart", "recovered", "source back"]


def test_executors_that_come_and_go_are_reported_but_not_those_that_were_released(
    supervisor: Supervisor, executors: Any
) -> None:
    supervisor.tick()
    executors.there = ["0", "1", "2"]
    supervisor.tick()
    executors.there = ["2"]
    executors.released.add("0")
    supervisor.tick()
    assert told(supervisor) == [
        ("executor added", "executor 2"),
        ("executor lost", "executor 1"),
    ]
