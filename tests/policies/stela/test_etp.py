from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from penstock.policies.shared import rates
from penstock.policies.shared.rates import PipelineRate
from penstock.policies.shared.topology import Topology
from penstock.policies.stela.etp import SinkReach, congested, etp
from tests.policies import dags
from tests.strategies import few

# Figure 2 of the Stela paper: 4 is a sink; 3 leads to 7 and 8 through 5, and to 9 and 10 through 6.
FIGURE = {
    "1": (), "2": ("1",), "3": ("2",), "4": ("2",), "5": ("3",), "6": ("3",),
    "7": ("5",), "8": ("5",), "9": ("6",), "10": ("6",),
}  # fmt: skip
SPEEDS = {
    "1": (4000, 3000), "2": (3000, 3000), "3": (3000, 1000), "4": (3000, 2000), "5": (1000, 1000),
    "6": (1000, 250), "7": (1000, 1000), "8": (1000, 1000), "9": (250, 250), "10": (250, 250),
}  # fmt: skip


def figure() -> tuple[Topology, rates.Rates]:
    found = dags.topology(FIGURE)
    return found, {n: PipelineRate(float(i), float(p), float(p)) for n, (i, p) in SPEEDS.items()}


def test_the_printed_example() -> None:
    found, speeds = figure()
    # 2 is not congested, so 3 and 4 shut 1 off from every sink
    assert congested(speeds, 1.0) == {"1", "3", "4", "6"}
    assert rates.throughput(found, speeds) == 4500
    shares = etp(found, speeds, 1.0)
    assert [f"{shares[n]:.0%}" for n in ("3", "4", "6", "1")] == ["44%", "44%", "11%", "0%"]
    order = sorted(congested(speeds, 1.0), key=lambda n: (-shares[n], n))
    assert order == ["3", "4", "6", "1"]


def test_a_sink_behind_two_paths_counts_once() -> None:
    diamond = dags.topology({"s": (), "a": ("s",), "b": ("s",), "c": ("a", "b"), "d": ("s",)})
    found = rates.steady_state(diamond, {"s": 100.0}, {}, {})
    assert etp(diamond, found) == {
        "s": 1.0,
        "a": 200 / 300,
        "b": 200 / 300,
        "c": 200 / 300,
        "d": 1 / 3,
    }


def test_a_pipeline_with_a_sink_that_others_read_counts_its_own_too() -> None:
    chain = dags.topology({"s": (), "a": ("s",)}, sinks=["s"])
    found = rates.steady_state(chain, {"s": 100.0}, {}, {"a": 50.0})
    assert etp(chain, found) == {"s": 100 / 150, "a": 50 / 150}  # a is congested


def test_exactly_the_threshold_is_not_congested() -> None:
    assert congested({"a": PipelineRate(120.0, 100.0, 100.0)}) == frozenset()
    assert congested({"a": PipelineRate(120.1, 100.0, 100.0)}) == {"a"}
    assert congested({"a": PipelineRate(1.0, 0.0, 0.0), "b": PipelineRate(0.0, 0.0, 0.0)}) == {"a"}


def test_without_throughput_nothing_depends_on_anything() -> None:
    chain = dags.topology({"s": (), "a": ("s",)})
    assert etp(chain, rates.steady_state(chain, {}, {}, {})) == {"s": 0.0, "a": 0.0}


def paths(found: Topology, name: str) -> list[tuple[str, ...]]:
    """All paths from a pipeline on, without itself: the slow way."""
    ends: list[tuple[str, ...]] = [()]
    for reader in found.downstream[name]:
        ends += [(reader, *rest) for rest in paths(found, reader)]
    return ends


@few
@given(dags.flows())
def test_it_is_the_share_of_the_sinks_at_the_end_of_open_paths(
    flow: tuple[Topology, rates.Rates],
) -> None:
    found, now = flow
    closed, delivered = congested(now), rates.delivered(found, now)
    total = sum(delivered.values())
    shares, reach = etp(found, now), SinkReach.of(found, closed)
    for name in found.pipelines:
        open_paths = [p for p in paths(found, name) if not closed.intersection(p)]
        ends = {name, *itertools.chain.from_iterable(open_paths)} & set(found.sinks)
        assert reach.names(name) == ends
        expected = sum(delivered[n] for n in ends) / total if total else 0.0
        assert shares[name] == pytest.approx(expected)
        assert 0 <= shares[name] <= 1
