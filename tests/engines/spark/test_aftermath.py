"""What is read off the output after a change, on hand-made times."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.changes.transitions import (
    PATIENCE,
    Aftermath,
    TransitionLog,
    gap,
    moved_share,
)
from penstock.plan.transition import Transition

FIRST = Transition(10.0, ("count: ceiling 2 -> 4",), 2.0, 2.0, phases=(("quiesce", 2.0),))
COUNT = frozenset({"count"})
AFTER = Aftermath(FIRST, 100.0, 102.0, COUNT, COUNT, frozenset({"out"}), waiting=50)


def test_the_gap_reaches_from_the_last_output_before_to_the_first_one_after() -> None:
    assert gap([98.0, 99.0, 103.5, 104.0], 100.0, 102.0) == 4.5


def test_output_during_the_change_cuts_the_gap() -> None:
    assert gap([99.0, 101.0, 103.5], 100.0, 102.0) == 2.5


def test_no_output_after_the_change_is_not_measured() -> None:
    assert gap([98.0, 99.0], 100.0, 102.0) is None
    assert gap([103.0], 100.0, 102.0) is None


def test_a_change_is_not_settled_before_output_comes_again() -> None:
    assert AFTER.settled({"count": [99.0], "out": [99.0]}, 10, 103.0) is None


def test_a_change_is_not_settled_while_its_backlog_is_larger_than_before() -> None:
    assert AFTER.settled({"count": [99.0, 103.0]}, 51, 104.0) is None


def test_a_settled_change_knows_its_gaps_and_its_catch_up() -> None:
    outputs = {"count": [97.0, 98.0, 99.0, 103.0], "out": [98.5, 103.25]}
    found = AFTER.settled(outputs, 50, 104.0)
    assert found is not None
    assert found.settled
    assert found.interruption == 4.0
    assert found.sink_gap == 4.75
    assert found.usual_gap == 1.0
    assert found.phases == (("quiesce", 2.0), ("catch-up", 2.0))


def test_where_nothing_waits_no_more_output_is_owed() -> None:
    found = AFTER.settled({"count": [99.0]}, 0, 103.0)
    assert found is not None
    assert found.settled
    assert found.interruption == 2.0


def test_a_backlog_that_stays_ends_the_watching_unsettled() -> None:
    found = AFTER.settled({"count": [99.0, 103.0]}, 1000, 102.0 + PATIENCE + 1)
    assert found is not None
    assert not found.settled
    assert found.interruption == 4.0
    assert "catch-up" not in dict(found.phases)


def test_a_backlog_that_cannot_be_seen_does_not_hold_a_change_open() -> None:
    hidden = replace(AFTER, waiting=None)
    found = hidden.settled({"count": [99.0, 103.0]}, None, 104.0)
    assert found is not None
    assert found.settled


def test_changes_replace_what_was_known_by_what_is_known_now() -> None:
    changes = TransitionLog()
    changes.begin(AFTER)
    changes.look({"count": [99.0]}, 1, 103.0)
    assert [t.settled for t in changes.done] == [False]
    changes.look({"count": [99.0, 103.0]}, 0, 103.5)
    assert [t.settled for t in changes.done] == [True]
    assert changes.watched is None


def test_the_next_change_closes_the_one_before() -> None:
    changes = TransitionLog()
    changes.begin(AFTER)
    changes.close({"count": [99.0, 103.0]})
    changes.begin(AFTER)
    assert [t.interruption for t in changes.done] == [4.0, 2.0]


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ((4, 4), (4, 4), 0.0),
        ((2, 2), (2, 1), 0.5),
        ((4, 2), (4, 4), 0.75),  # only part 0 stays with instance 0
        ((1, 1), (2, 2), 0.5),
    ],
)
def test_the_share_of_keys_that_move(
    before: tuple[int, int], after: tuple[int, int], share: float
) -> None:
    assert moved_share(before, after) == pytest.approx(share)


CUT = st.integers(1, 12).flatmap(lambda s: st.tuples(st.just(s), st.integers(1, s)))


@given(before=CUT, after=CUT)
def test_the_share_is_what_counting_keys_gives(
    before: tuple[int, int], after: tuple[int, int]
) -> None:
    def instance(key: int, cut: tuple[int, int]) -> int:
        parts, instances = cut
        return (key % parts) * instances // parts

    keys = range(before[0] * after[0])
    moved = sum(instance(key, before) != instance(key, after) for key in keys)
    assert moved_share(before, after) == pytest.approx(moved / len(keys))
