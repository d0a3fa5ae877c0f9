"""Batches that may begin, and those that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.engines.spark.queries.batch_gate import Gate
from tests.engines.spark.flows import until


class Batch:
    """A batch that comes to a gate in a thread of its own."""

    def __init__(self, gate: Gate, number: int, ready: Callable[[], bool] = lambda: True) -> None:
        self.let_in: bool | None = None
        self._thread = threading.Thread(target=self._enter, args=(gate, number, ready), daemon=True)
        self._thread.start()

    def _enter(self, gate: Gate, number: int, ready: Callable[[], bool]) -> None:
        self.let_in = gate.enter(number, ready)

    def answer(self) -> bool | None:
        self._thread.join(10)
        return self.let_in


def test_an_open_gate_lets_a_batch_in() -> None:
    gate = Gate()
    assert gate.enter(3, lambda: True)
    assert gate.inside == 3
    gate.leave()
    assert gate.inside is None


def test_a_closed_gate_holds_the_next_batch_and_not_the_one_that_is_inside() -> None:
    gate = Gate()
    assert gate.enter(3, lambda: True)
    gate.close()
    assert (gate.inside, gate.held) == (3, None)
    gate.leave()
    batch = Batch(gate, 4)
    until(lambda: gate.held == 4, "the next batch to be held")
    assert gate.inside is None
    gate.open()
    assert batch.answer() is True
    assert (gate.inside, gate.held) == (4, None)


def test_a_batch_that_waits_is_turned_away_when_its_query_stops() -> None:
    gate = Gate()
    gate.close()
    batch = Batch(gate, 0)
    until(lambda: gate.held == 0, "the batch to be held")
    gate.end()
    assert batch.answer() is False
    gate.renew(-1)
    assert gate.held is None


def test_a_gate_stays_closed_through_a_restart() -> None:
    gate = Gate()
    gate.close()
    gate.renew(-1)
    batch = Batch(gate, 5)
    until(lambda: gate.held == 5, "the batch to be held")
    gate.end()
    assert batch.answer() is False


def test_a_batch_that_an_earlier_start_has_begun_is_always_let_in() -> None:
    gate = Gate()
    gate.close()
    gate.renew(7)
    assert gate.enter(7, lambda: True)
    gate.leave()
    batch = Batch(gate, 8)
    until(lambda: gate.held == 8, "the one after it to be held")
    gate.end()
    assert batch.answer() is False


def test_a_batch_waits_until_there_is_room() -> None:
    gate, room = Gate(), threading.Event()
    batch = Batch(gate, 1, room.is_set)
    assert batch.let_in is None
    room.set()
    assert batch.answer() is True


def test_a_batch_that_waits_for_room_is_held_like_any_other() -> None:
    gate = Gate()
    batch = Batch(gate, 1, lambda: False)
    gate.close()
    until(lambda: gate.held == 1, "the batch to be held")
    gate.end()
    assert batch.answer() is False
