"""Ctrl-C: the first ends the flow well, the second at once, and handlers come back."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from penstock.control.interrupts import Interrupts


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_handlers_of_before_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_a_handler_that_python_does_not_know_becomes_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = []

    def install(number: signal.Signals, handler: object) -> None:
        installed.append((number, handler))  # None: the one before was not installed from Python

    monkeypatch.setattr(signal, "signal", install)
    with Interrupts():
        numbers = [number for number, _ in installed]
        installed.clear()
    assert sorted(installed) == sorted((number, signal.SIG_DFL) for number in numbers)


def test_the_first_ends_the_flow_the_second_ends_it_at_once_the_third_ends_the_process() -> None:
    with Interrupts() as interrupts:
        assert (interrupts.finish, interrupts.at_once) == (False, False)
        signal.raise_signal(signal.SIGINT)
        assert (interrupts.finish, interrupts.at_once) == (True, False)
        signal.raise_signal(signal.SIGINT)
        assert (interrupts.finish, interrupts.at_once) == (True, True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
