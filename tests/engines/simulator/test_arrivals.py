from __future__ import annotations

import numpy as np
import pytest

from penstock.dataflow import load_profile
from penstock.engines.simulator.arrivals import (
    Arrivals,
    Bursty,
    Deterministic,
    Poisson,
    Renewal,
    SimulatedSource,
    parse,
)
from penstock.errors import InvalidInput

KINDS = (Deterministic(), Poisson(), Bursty(5), Renewal(2.0), Renewal(0.3))


def source(
    arrivals: Arrivals, text: str, seed: int = 0, limit: int | None = None
) -> SimulatedSource:
    return SimulatedSource("in", load_profile.parse(text), arrivals, seed, (), limit)


@pytest.mark.parametrize("arrivals", KINDS)
@pytest.mark.parametrize("text", ["3000/s", "sine:100-4000@3.7s", "steps:0,5000@0.7s"])
def test_every_kind_follows_its_load(arrivals: Arrivals, text: str) -> None:
    taken = source(arrivals, text).take(40.0).time
    assert bool(np.all(np.diff(taken) >= 0))
    found, _ = np.histogram(taken, np.arange(0, 40.1, 4.0))
    due = np.diff(load_profile.parse(text).cumulative(np.arange(0, 40.1, 4.0)))
    assert np.abs(found - due).max() < 6 * 3 * np.sqrt(due.max())
    assert len(taken) == pytest.approx(due.sum(), rel=0.03)


@pytest.mark.parametrize("arrivals", KINDS)
def test_records_do_not_depend_on_how_they_are_taken(arrivals: Arrivals) -> None:
    whole = source(arrivals, "500/s").take(10.0).time
    piece = source(arrivals, "500/s")
    rng = np.random.default_rng(4)
    parts = []
    for until in (*np.sort(rng.random(30) * 10), 10.0, 10.0, 10.0):
        parts.append(piece.take(float(until), int(rng.integers(1, 400))).time)
    parts.append(piece.take(10.0).time)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert piece.taken == piece.offered(10.0) == len(whole)


def test_a_backlog_that_was_forgotten_is_the_same_when_it_is_made_again() -> None:
    one, other = source(Renewal(1.5), "300000/s"), source(Renewal(1.5), "300000/s")
    assert other.waiting(20.0) > 5_900_000  # more than is kept
    for until in range(1, 21):
        np.testing.assert_array_equal(other.take(until).time[:1000], one.take(until).time[:1000])
    assert one.taken == other.taken


@pytest.mark.parametrize(
    ("arrivals", "cv"),
    [(Poisson(), 1.0), (Renewal(0.3), 0.3), (Renewal(2.0), 2.0), (Bursty(5), 3.0)],
)
def test_gaps_vary_as_they_should(arrivals: Arrivals, cv: float) -> None:
    gaps = np.diff(source(arrivals, "5000/s").take(100.0).time)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


def test_seeds_and_limits() -> None:
    first = source(Poisson(), "100/s", seed=1).take(10.0).time
    assert not np.array_equal(source(Poisson(), "100/s", seed=2).take(10.0).time, first)
    limited = source(Poisson(), "100/s", seed=1, limit=50)
    np.testing.assert_array_equal(limited.take(10.0).time, first[:50])
    assert limited.offered(1000.0) == 50


@pytest.mark.parametrize(
    ("text", "arrivals"),
    [
        ("poisson", Poisson()),
        ("deterministic", Deterministic()),
        ("bursty", Bursty(10)),
        ("bursty:3", Bursty(3)),
        ("gamma:0.5", Renewal(0.5)),
    ],
)
def test_arrivals_are_read_from_a_word(text: str, arrivals: Arrivals) -> None:
    assert parse(text) == arrivals


@pytest.mark.parametrize("text", ["", "poison", "gamma", "gamma:x", "bursty:0", "poisson:2"])
def test_a_word_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)
