"""Stela's topologies: what they carry, and that the simulator agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.engines.simulator.layout import (
    APPLICATIONS,
    DIAMOND,
    LINEAR,
    MICRO,
    NETWORK,
    PROCESSING,
    STAR,
    Layout,
    slots,
)


def test_a_reader_gets_all_that_is_written() -> None:
    assert STAR.visits == {"north": 1, "south": 1, "centre": 2, "east": 2, "west": 2}
    assert DIAMOND.visits["sink"] == 4
    assert NETWORK.visits["scores"] == 2
    assert (STAR.sources, STAR.sinks) == (("north", "south"), ("east", "west"))
    assert PROCESSING.sinks == ("failures", "times")


def test_a_machine_gets_as_many_instances_as_the_others_have() -> None:
    assert [slots(one) for one in (*MICRO, *APPLICATIONS)] == [3, 5, 4, 4, 4, 4]


def test_the_slowest_component_decides_what_is_carried() -> None:
    times = {"first": 0.01, "second": 0.03, "third": 0.01, "sink": 0.01}
    six = dict.fromkeys(LINEAR.inputs, 6)
    assert LINEAR.carries(times, six) == pytest.approx(200)
    assert LINEAR.throughput(times, six) == pytest.approx(200)
    assert LINEAR.throughput(times, {**six, "second": 12}) == pytest.approx(400)
    # 500 come, and no more than 500 can go through however many instances there are
    assert LINEAR.throughput(times, dict.fromkeys(six, 100)) == pytest.approx(500)


@pytest.mark.parametrize("layout", [STAR, DIAMOND, PROCESSING])
def test_the_simulated_topology_carries_that(layout: Layout, tmp_path: Path) -> None:
    names = [n for n in layout.inputs if n not in layout.sources]
    times = {name: 0.05 + 0.01 * at for at, name in enumerate(names)}
    scenario = layout.scenario(times, 100.0)
    engine = scenario.engine(3, step=5.0)
    engine.start(scenario.graph, scenario.plan, tmp_path)
    engine.advance(20.0)
    before = engine.observe().rows_delivered
    engine.advance(80.0)
    carried = (engine.observe().rows_delivered - before) / 80
    expected = layout.throughput(times, dict.fromkeys(layout.inputs, layout.executors))
    assert carried == pytest.approx(expected, rel=0.04)
