"""What policies do in the whole loop, with the guard, under a load that stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import policies
from penstock.control.loop import control
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Machine, MicroBatch, Model, OperatorCost
from penstock.store.turn import Tick
from tests.engines.simulator.flows import apart, chain

COSTS = {"a": 0.006, "b": 0.015, "c": 0.009}
EXACT = 200
"""Rows a second that keep just three instances of b at work."""


def turned(
    policy: str,
    start: tuple[int, int, int],
    rate: int,
    seconds: float,
    home: Path,
    batch: MicroBatch | None = None,
) -> list[Tick]:
    """The turns of a loop over a chain of three, with a row's time from the first to the last."""
    graph = chain(*COSTS, latency="4s")
    steps = {name: OperatorCost(Constant(seconds)) for name, seconds in COSTS.items()}
    model = Model(steps, node=Machine(cores=24), batch=batch)
    engine = SimulatorEngine(model, load=f"{rate}/s", seed=1)
    engine.start(graph, apart(*zip(COSTS, start, strict=True), executors=1), home)
    ticks: list[Tick] = []

    def wait() -> bool:
        engine.advance(1.0)
        return engine.now <= seconds

    control(
        engine,
        graph,
        policies.get(policy),
        now=lambda: engine.now,
        wait=wait,
        record=ticks.append,
    )
    engine.stop(drain=False)
    assert not [tick.error for tick in ticks if tick.error]
    return ticks


def changes(ticks: list[Tick], since: float = 0.0) -> list[float]:
    return [tick.at for tick in ticks if tick.transition is not None and tick.at > since]


@pytest.mark.parametrize("policy", ["ds2:slack=0.1", "drs"])
def test_a_load_of_just_so_many_instances_has_none_come_and_go(policy: str, tmp_path: Path) -> None:
    ticks = turned(policy, (2, 4, 2), EXACT, 150, tmp_path)
    assert changes(ticks) == []


@pytest.mark.extended
def test_a_cadence_does_not_follow_where_windows_cut_batches(tmp_path: Path) -> None:
    ticks = turned("latency", (1, 1, 1), 30, 90, tmp_path, MicroBatch())
    assert len(changes(ticks)) <= 2
    assert changes(ticks, since=30) == []


@pytest.mark.parametrize("policy", ["round-robin", "least-link-load"])
def test_a_cool_down_does_not_decide_whose_turn_it_is(policy: str, tmp_path: Path) -> None:
    ticks = turned(policy, (1, 1, 1), EXACT, 180, tmp_path)
    assert ticks[-1].plan.pipeline_of("b").parallelism >= 3
    last, before = ticks[-1].snapshot, ticks[-21].snapshot
    rate = (last.rows_delivered - before.rows_delivered) / (last.at - before.at)
    assert rate > 0.9 * EXACT
