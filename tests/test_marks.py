"""Tests that are left out of the fast ones by the place where they are."""

from .conftest import LARGE, TESTS


def test_every_place_of_large_tests_exists() -> None:
    assert [place for place in LARGE if not (TESTS / place).exists()] == []
