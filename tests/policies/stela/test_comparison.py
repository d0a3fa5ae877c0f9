"""Stela against the strategies that its paper compares it with."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean

import pytest

from penstock.plan.plan import Plan
from penstock.policies.shared import rates
from penstock.policies.shared.topology import Topology
from penstock.policies.stela import strategies
from penstock.policies.stela.policy import scale_out
from tests.policies import dags
from tests.policies.closed import Loop
from tests.policies.dags import parallelism


def run_on_the_engine(seed: int, run_dir: Path) -> dict[str, float]:
    """The same on the in-memory engine, with what it measures itself."""
    rng = random.Random(seed)
    inputs = dags.random_dag(rng, 4, 7)
    dag = dags.graph(inputs)
    costs = {n: rng.choice((0.002, 0.01, 0.02, 0.05)) for n in inputs}
    found: dict[str, float] = {}
    for name, ranking in {"stela": None, **strategies.RANKINGS}.items():
        plan = dags.plan(dag, executors=2)
        loop = Loop(dag, plan, run_dir / f"{seed}-{name}", costs, 60.0, window=2.0)
        before = loop.throughput()
        asked = loop.measure()
        decision = strategies.scale_out(asked, 1, ranking) if ranking else scale_out(asked, 1)
        loop.apply(decision.plan)
        found[name] = loop.throughput() / before
    return found


@pytest.mark.large
def test_on_the_engine_too(tmp_path: Path) -> None:
    runs = [run_on_the_engine(seed, tmp_path) for seed in range(6)]
    mean = {name: fmean(run[name] for run in runs) for name in runs[0]}
    for name in strategies.RANKINGS:
        assert mean["stela"] >= mean[name], mean


def compared(seed: int) -> dict[str, float]:
    """Throughput after a scale-out by each strategy over that before, in a random flow."""
    rng = random.Random(seed)
    inputs = dags.random_dag(rng)
    dag = dags.graph(inputs)
    found = Topology(dag, dags.plan(dag, executors=rng.randint(1, 3)))
    offered = dict.fromkeys(found.sources, 100.0)
    capacity = {n: rng.choice((10.0, 20.0, 40.0, 80.0, 400.0, 1000.0)) for n in found.pipelines}
    selectivity = {n: rng.choice((0.5, 1.0, 1.0, 1.5)) for n in found.pipelines}
    now = rates.steady_state(found, offered, selectivity, capacity)
    asked = dags.context(found, now)

    def settled(plan: Plan | None) -> float:
        many = parallelism(plan)
        more = {n: many[n] * c for n, c in capacity.items()}
        return rates.throughput(found, rates.steady_state(found, offered, selectivity, more))

    before = rates.throughput(found, now)
    after = {n: strategies.scale_out(asked, 1, r).plan for n, r in strategies.RANKINGS.items()}
    after["stela"] = scale_out(asked, 1).plan
    after["stela by gain"] = scale_out(asked, 1, by="gain").plan
    return {name: settled(plan) / before for name, plan in after.items()}


@pytest.mark.large
def test_on_average_it_beats_every_comparison_strategy() -> None:
    runs = [compared(seed) for seed in range(150)]
    mean = {name: fmean(run[name] for run in runs) for name in runs[0]}
    for name in strategies.RANKINGS:
        assert mean["stela"] > mean[name], mean
    assert mean["stela by gain"] > mean["stela"], mean
