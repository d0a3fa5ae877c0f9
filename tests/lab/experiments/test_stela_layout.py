"""Stela's topologies: what they carry, and that the simulator agrees."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from penstock.dataflow import validation
from penstock_lab.experiments.stela import topologies
from penstock_lab.experiments.stela.layout import Layout, slots
from penstock_lab.experiments.stela.topologies import (
    APPLICATIONS,
    DIAMOND,
    LINEAR,
    MICRO,
    NETWORK,
    PAGE_LOAD,
    PAUSED,
    PROCESSING,
    STAR,
    WAITING,
)


def test_a_reader_gets_all_that_is_written() -> None:
    assert STAR.visits == {"north": 1, "south": 1, "centre": 2, "east": 2, "west": 2}
    assert DIAMOND.visits["sink"] == 4
    assert NETWORK.visits["join"] == 1  # half of them have failed, the others have not
    assert (STAR.sources, STAR.sinks) == (("north", "south"), ("east", "west"))
    assert PROCESSING.sinks == ("failures", "times")


@pytest.mark.parametrize(
    "layout", [one for one in vars(topologies).values() if isinstance(one, Layout)]
)
def test_every_topology_is_a_valid_dataflow(layout: Layout) -> None:
    times = {name: 0.01 for name in layout.inputs if name not in layout.sources}
    validation.check(layout.scenario(times, 10.0).graph)


def test_a_machine_gets_as_many_instances_as_the_others_have() -> None:
    assert [slots(one) for one in (*MICRO, *APPLICATIONS)] == [3, 4, 4, 4, 4, 5]


def test_the_slowest_component_decides_what_is_carried() -> None:
    times = {"first": 0.01, "second": 0.03, "sink": 0.01}
    six = dict.fromkeys(LINEAR.inputs, 6)
    assert LINEAR.carries(times, six) == pytest.approx(200)
    assert LINEAR.throughput(times, six) == pytest.approx(200)
    assert LINEAR.throughput(times, {**six, "second": 12}) == pytest.approx(400)
    # 500 come, and no more than 500 can go through however many instances there are
    assert LINEAR.throughput(times, dict.fromkeys(six, 100)) == pytest.approx(500)


def test_most_tuples_of_a_join_go_to_one_of_its_instances() -> None:
    keys = NETWORK.keys["join"]
    assert keys.shares(4).tolist() == pytest.approx([0.65, 0.1, 0.1, 0.15])
    assert keys.shares(8).tolist() == pytest.approx([0.6, *[0.05] * 6, 0.1])
    first = NETWORK.throughput(NETWORK.times, NETWORK.first)
    wider = NETWORK.throughput(NETWORK.times, {**NETWORK.first, "join": 8})
    assert wider / first == pytest.approx(1.1, abs=0.001)


def test_twice_as_many_executors_of_a_source_that_pauses_emit_twice_as_much() -> None:
    for layout in (PAGE_LOAD, PROCESSING):
        before = layout.throughput(layout.times, layout.first)
        wider = layout.throughput(layout.times, {**layout.first, "views": 8})
        assert wider / before == pytest.approx(2.0)
    # 80 lines a second, of which two filters take a fifth each
    assert PAGE_LOAD.throughput(PAGE_LOAD.times, PAGE_LOAD.first) == pytest.approx(80 * 0.64)


def test_sources_vary_as_much_as_what_filters_let_through_by_chance() -> None:
    rng = np.random.default_rng(1)
    lines, windows = 800, 20_000
    through = rng.binomial(lines, 0.64, windows)
    assert PAGE_LOAD.varies / math.sqrt(lines) == pytest.approx(
        through.std() / through.mean(), rel=0.02
    )
    both = lines + rng.binomial(lines, 0.8, windows)  # one sink gets all of them
    assert PROCESSING.varies / math.sqrt(lines) == pytest.approx(both.std() / both.mean(), rel=0.02)


@pytest.mark.parametrize(
    "layout", [STAR, DIAMOND, PAGE_LOAD, PROCESSING, NETWORK, *WAITING, PAUSED]
)
def test_the_simulated_topology_carries_that(layout: Layout, tmp_path: Path) -> None:
    names = [n for n in layout.inputs if n not in layout.sources]
    times = layout.times or {name: 0.05 + 0.01 * at for at, name in enumerate(names)}
    scenario = layout.scenario(times, 100.0)
    engine = scenario.engine(3, step=5.0)
    engine.start(scenario.graph, scenario.plan, tmp_path)
    engine.advance(20.0)
    before = engine.observe().rows_delivered
    engine.advance(80.0)
    carried = (engine.observe().rows_delivered - before) / 80
    expected = layout.throughput(times, dict.fromkeys(layout.inputs, layout.executors))
    assert carried == pytest.approx(expected, rel=0.04)
