"""Networks of M/M/k queues: the greedy choice against all choices."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from penstock.policies.shared.queueing import Server, best, fewest, within
from tests import speed


def some(rng: random.Random) -> list[Server]:
    return [
        Server(
            f"s{at}",
            rng.choice((0.0, 1.0, rng.uniform(0, 4))),
            least := rng.randint(1, 2),
            rng.choice((None, rng.randint(least, 8))),
        )
        for at in range(rng.randint(1, 3))
    ]


def choices(servers: Sequence[Server]) -> list[tuple[int, float]]:
    """Instances in all, and rows, of every choice."""
    ranges = (range(s.least, (s.most or 16) + 1) for s in servers)
    return [
        (sum(c), math.fsum(s.number(k) for s, k in zip(servers, c, strict=True)))
        for c in itertools.product(*ranges)
    ]


def test_the_fewest_and_the_best_are_those_of_all_choices() -> None:
    rng = random.Random(2015)
    for _ in range(300):
        servers = some(rng)
        every = choices(servers)
        floor = sum(s.load for s in servers)
        asked = floor + rng.uniform(0.01, 2.0)
        few = fewest(servers, asked)
        enough = [total for total, rows in every if rows <= asked]
        assert few.met == bool(enough)
        if enough:
            assert few.total == min(enough)
            assert few.number <= asked
        slots = rng.randint(2, 14)
        found = best(servers, slots)
        rows = min((rows for total, rows in every if total <= slots), default=math.inf)
        assert found.met == math.isfinite(rows)
        if found.met:
            assert found.number == pytest.approx(rows)
            assert found.total <= slots


def test_what_no_number_of_instances_reaches_is_not_met() -> None:
    found = fewest([Server("x", 2.5), Server("y", 0.5)], 2.9)
    assert not found.met
    assert found.instances == {"x": 3, "y": 1}
    assert not fewest([Server("x", 2.5, 1, 2)], 99.0).met
    assert fewest([Server("x", 2.5, 1, 2)], 99.0).instances == {"x": 2}
    assert fewest([Server("x", 0.0)], 0.0).met


def test_what_its_bounds_keep_from_being_met_has_all_that_gains_anything() -> None:
    found = fewest([Server("x", 13.0, 1, 20)], 13.05)
    assert (found.met, found.instances) == (False, {"x": 20})
    one, free = Server("x", 2.5, 1, 3), Server("y", 0.5)
    assert not fewest([one, free], 3.5).met
    every = fewest([one, free], 3.5).instances
    assert every["x"] == 3
    assert free.number(every["y"]) == pytest.approx(0.5, rel=1e-7)
    assert fewest([Server("x", 3.5, 1, 3), free], 99.0).instances == every  # x holds it all up


def test_more_load_never_means_fewer_instances() -> None:
    rng = random.Random(7)
    for _ in range(200):
        servers = some(rng)
        total = sum(s.load for s in servers)
        time_allowed = rng.choice((1.0001, 1.01, 1.5, 3.0))
        before: dict[str, int] = {}
        for factor in (0.2, 0.5, 0.9, 0.99, 1.0, 1.01, 1.1, 2.0, 4.0):
            more = [Server(s.name, factor * s.load, s.least, s.most) for s in servers]
            found = fewest(more, factor * total * time_allowed).instances
            assert sum(found.values()) >= sum(before.values())
            before = {**found}


def test_too_few_are_shared_by_load() -> None:
    servers = [Server("x", 6.0), Server("y", 3.0)]
    assert within(servers, 6) == {"x": 4, "y": 2}
    assert sum(within(servers, 14).values()) == 14


def test_ten_thousand_queues_are_quick() -> None:
    rng = random.Random(1)
    servers = [Server(f"s{at}", rng.uniform(0, 3)) for at in range(10_000)]
    assert best(servers, 40_000).total == 40_000
    assert speed.within(2.0, lambda: best(servers, 40_000))
