"""Who leaves, and where state goes, as pure functions."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.executors import chosen, spread


def test_named_executors_leave_and_nobody_else() -> None:
    assert chosen(("0", "1", "2"), 2, ("1",), Counter({"1": 9})) == ("1",)


def test_without_a_name_the_one_with_least_state_leaves() -> None:
    assert chosen(("0", "1", "2"), 2, (), Counter({"0": 3, "1": 1, "2": 3})) == ("1",)


def test_of_equals_the_youngest_leaves() -> None:
    assert chosen(("2", "9", "10"), 2, (), Counter()) == ("10",)


def test_nobody_leaves_where_enough_have_gone_already() -> None:
    assert chosen(("0", "1"), 2, (), Counter()) == ()


def test_state_goes_to_a_newcomer_and_no_more_than_its_share() -> None:
    moved = spread({0: "a", 1: "a", 2: "a", 3: "a"}, ["a", "b"])
    assert sorted(moved.values()) == ["b", "b"]


def test_state_of_one_who_left_is_taken_over() -> None:
    assert spread({0: "a", 1: "gone", 2: "b"}, ["a", "b"]) in ({1: "a"}, {1: "b"})


EXECUTORS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)
PLACES = st.lists(st.sampled_from(["a", "b", "c", "gone", None]), max_size=20)


@given(places=PLACES, executors=EXECUTORS)
def test_state_ends_up_even_and_moves_no_more_than_it_must(
    places: list[str | None], executors: list[str]
) -> None:
    current = dict(enumerate(places))
    moved = spread(current, executors)
    after = Counter({**current, **moved}.values())
    assert set(after) <= set(executors)
    loads = [after[name] for name in executors]
    assert max(loads) - min(loads) <= 1
    assert all(current[part] != where for part, where in moved.items())
    share, extra = divmod(len(places), len(executors))
    here = sorted((Counter(places)[name] for name in executors), reverse=True)
    stay = sum(min(n, share + (at < extra)) for at, n in enumerate(here))
    assert len(moved) == len(places) - stay
