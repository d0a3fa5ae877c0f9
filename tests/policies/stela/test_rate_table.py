"""A table says what rates say, step after step."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.plan import Pipeline, Plan
from penstock.policies.shared import rates
from penstock.policies.shared.rates import PipelineRate
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.etp import EtpTable, congested, etp
from penstock.policies.stela.rate_table import RateTable
from tests.policies import dags

Flow = tuple[Topology, rates.Rates]


@st.composite
def measured(draw: st.DrawFn) -> Flow:
    """Rates as a window may show them: not all have settled in, and some are behind."""
    found, now = draw(dags.flows())
    rng = random.Random(draw(st.integers(0, 2**32)))

    def seen(rate: PipelineRate) -> PipelineRate:
        done = rate.processed * rng.choice((0.0, 0.9, 1.0, 1.1))
        most = max(done, rate.capacity * rng.choice((0.5, 1.0)))
        return PipelineRate(rate.arrival, done, most, rate.selectivity, rng.choice((0.0, 0.0, 7.0)))

    return found, {name: seen(rate) if rng.random() < 0.3 else rate for name, rate in now.items()}


STEPS = st.lists(st.tuples(st.integers(0, 99), st.sampled_from((1.5, 2.0, 4 / 3)), st.booleans()))
OVER = st.sampled_from((1.0, 1.2, 2.0))


@settings(deadline=None)
@given(measured(), STEPS, OVER)
def test_every_step_is_the_same_to_the_last_bit(
    flow: Flow, steps: list[tuple[int, float, bool]], over: float
) -> None:
    found, now = flow
    table = RateTable.of(found, now, over)
    etp_table = EtpTable.of(table)
    for number, factor, grows in steps:
        at = number % len(now)
        name = table.numbered.names[at]
        before, last, then = table, now, rates.grown if grows else rates.scaled
        now = then(found, now, name, factor)
        table = (table.grown if grows else table.scaled)(at, factor)
        assert table.rates == now
        assert before.rates == last  # a table that was made stays as it is
        full = {n for n, mark in zip(table.numbered.names, table.congested, strict=True) if mark}
        assert full == congested(now, over)
        assert table.throughput == rates.throughput(found, now)
        etp_table = etp_table.after(table)
        expected, total = etp(found, now, over), float(etp_table.weights.sum())
        for n in full:
            found_at = table.numbered.numbers[n]
            share = min(1.0, float(etp_table.sums[found_at]) / total) if total > 0 else 0.0
            assert share == expected[n]


@settings(deadline=None)
@given(dags.flows(), st.integers(0, 99), st.sampled_from((1.1, 2.0, 10.0)))
def test_no_step_delivers_more_than_the_gains_say(flow: Flow, number: int, factor: float) -> None:
    found, now = flow
    table = RateTable.of(found, now, 1.2)
    at = number % len(now)
    for then in (table.scaled(at, factor), table.grown(at, factor)):
        more = then.processed[at] - table.processed[at]
        hoped = table.throughput + more * table.gains()[at]
        assert then.throughput <= hoped * (1 + 1e-12)


def test_who_is_read_twice_counts_twice() -> None:
    dag = dags.graph({"s": (), "a": ("s",), "b": ("a", "s"), "c": ("b",)})
    plan = Plan((Pipeline(("s",)), Pipeline(("a", "b")), Pipeline(("c", "c-out"))), 1)
    found = Topology(dag, plan)
    assert found.feeds["a"] == {"s": 2}
    now = rates.steady_state(found, {"s": 100.0}, {}, {"s": 30.0})
    table = RateTable.of(found, now, 1.2).scaled(0, 2.0)
    assert table.rates == rates.scaled(found, now, "s", 2.0)
    assert table.rates["a"].arrival == 120
    assert RateTable.of(found, now, 1.2).gains() == [2.0, 1.0, 1.0]
