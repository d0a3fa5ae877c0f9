"""However quickly slots are given out, everyone gets what the plain way would give."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.shared import rates
from penstock.policies.shared.rates import PipelineRate
from penstock.policies.shared.topology import Topology
from penstock.policies.stela import policy, slots
from tests.policies import dags
from tests.policies.stela import plainly

SEEDS = st.integers(0, 2**32)


def flow(rng: random.Random) -> tuple[Topology, rates.Rates, float]:
    """Any shape, with bounds; half of them with few numbers, so that many are equal."""
    inputs = dags.random_dag(rng, 1, 14)
    tight = rng.choice((0.0, 0.2, 0.8))
    most = {name: rng.randint(1, 6) for name in inputs if rng.random() < tight}
    dag = dags.graph(inputs, [name for name in inputs if rng.random() < 0.4], most)
    many = {name: min(rng.randint(1, 4), most.get(name, 4)) for name in inputs}
    found = Topology(dag, dags.plan(dag, many))
    alike = rng.random() < 0.5

    def number() -> float:
        return rng.choice((0.0, 10.0, 50.0, 100.0, 1000.0)) if alike else rng.uniform(0, 1000)

    capacity = {name: number() for name in found.pipelines}
    offered = {name: rng.choice((0.0, 100.0, number())) for name in found.sources}
    selectivity = {name: rng.choice((0.0, 0.5, 1.0, 1.0, 2.0)) for name in found.pipelines}
    now = dict(rates.steady_state(found, offered, selectivity, capacity))
    if rng.random() < 0.4:
        odd = [name for name in now if rng.random() < 0.5]
        now |= {name: _unsettled(now[name], rng) for name in odd}
    return found, now, rng.choice((1.0, 1.2, 1.2, 1.5, 3.0))


def _unsettled(rate: PipelineRate, rng: random.Random) -> PipelineRate:
    """What a window may show."""
    done = rate.processed * rng.choice((0.0, 0.9, 1.0, 1.1, 1.3))
    most = max(done, rate.capacity * rng.choice((0.5, 1.0)))
    return PipelineRate(rate.arrival, done, most, rate.selectivity, rng.choice((0.0, 0.0, 7.0)))


def order(
    allocation: slots.SlotAllocation, count: int, choose: slots.Choice
) -> tuple[slots.SlotAllocation, list[str]]:
    """How it ends, and who got one after the other."""
    seen: list[str] = []

    def watched(allocation: slots.SlotAllocation, memory: Any) -> tuple[str | None, Any]:
        name, memory = choose(allocation, memory)
        seen.extend([] if name is None else [name])
        return name, memory

    return slots.allocate(allocation, count, watched), seen


@pytest.mark.parametrize("by", sorted(policy.CHOICES))
@settings(deadline=None)
@given(seed=SEEDS)
def test_slots_go_to_the_same_in_the_same_order(by: str, seed: int) -> None:
    rng = random.Random(seed)
    found, now, over = flow(rng)
    count = rng.randint(1, 40)
    plain, expected = plainly.give_out(
        plainly.Growing(found, now, over), count, plainly.CHOICES[by]
    )
    end, seen = order(slots.SlotAllocation.of(found, now, over), count, policy.CHOICES[by])
    assert seen == expected
    assert end.rates == plain.rates
    assert end.congested == plain.congested
    assert [*end.given.items()] == [*plain.given.items()]


@settings(deadline=None)
@given(seed=SEEDS)
def test_no_instance_brings_more_than_was_hoped_for(seed: int) -> None:
    allocation = slots.SlotAllocation.of(*flow(random.Random(seed)))
    for name, most in zip(
        allocation.topology.pipelines,
        allocation.hoped([*allocation.topology.pipelines]),
        strict=True,
    ):
        assert allocation.give(name).table.throughput <= most * (1 + 1e-12)
