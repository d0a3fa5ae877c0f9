"""The backup interval: wider under load, narrower without, never outside its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Generator
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.policies.base.policy import Context
from penstock.policies.baselines.static import Static
from penstock.policies.es_stream.commit_interval import BUSY, BackupMemory, Interval, WithBackup

BOUNDS = Interval(0.2, 5.0)


def flow() -> Dataflow:
    made = Dataflow("sums")
    rows = made.source("rows", Generator(lambda rng, i, at: {"k": i}, "k bigint"))
    rows.key_by("k").aggregate("sum", n="count(*)").sink("out", Discard())
    rows.frame("plain", lambda df: df).sink("other", Discard())
    return made


def context(load: float | None, cadence: float = 1.0, now: float = 100.0) -> Context:
    graph = flow().graph
    plan = fusion.finest_plan(graph).with_pipeline("sum", cadence=cadence)
    name = plan.pipeline_of("sum").name
    metrics = {name: PipelineMetrics(name, 1, batch_seconds=0.3)}
    snapshot = Snapshot(now, 5.0, 0, 0, 0, 0, pipelines=metrics, load=load)
    return Context(graph, plan, (snapshot,), now)


def decided(policy: WithBackup, seen: Context) -> Decision:
    return policy.decide(seen, BackupMemory(None, 0.0))[0]


@given(now=st.floats(0, 100), load=st.floats(0, 1), batch=st.floats(0, 100), least=st.floats(0, 10))
def test_the_interval_stays_in_its_bounds(
    now: float, load: float, batch: float, least: float
) -> None:
    found = Interval(least, least + 3).next(now, load, batch)
    assert least <= found <= least + 3


@given(now=st.floats(0.2, 5.0), batch=st.floats(0, 1))
def test_load_stretches_and_idleness_shrinks(now: float, batch: float) -> None:
    assert BOUNDS.next(now, 0.9, batch) >= now
    assert BOUNDS.next(now, 0.1, batch) <= now
    assert BOUNDS.next(now, 0.6, batch) == now


def test_a_steady_load_ends_at_a_bound() -> None:
    now = 0.2
    for _ in range(10):
        now = BOUNDS.next(now, 0.95, 0.1)
    assert now == 5.0
    for _ in range(10):
        now = BOUNDS.next(now, 0.05, 0.1)
    assert now == 0.2


def test_only_pipelines_with_state_are_turned() -> None:
    decision = decided(WithBackup(Static(), BOUNDS), context(0.95))
    assert decision.plan is not None
    assert decision.plan.pipeline_of("sum").cadence == 2.0
    assert decision.plan.pipeline_of("plain").cadence == 0.0
    assert f"95% of the slots are busy, above {BUSY:.0%}" in decision.reason
    assert "1s -> 2s" in decision.reason


def test_what_is_not_measured_changes_nothing() -> None:
    assert decided(WithBackup(Static(), BOUNDS), context(None)).plan is None


def test_a_window_has_to_pass_between_two_changes() -> None:
    policy = WithBackup(Static(), BOUNDS)
    _, memory = policy.decide(context(0.95, now=100.0), BackupMemory(None, 0.0))
    assert policy.decide(context(0.95, now=103.0), memory)[0].plan is None
    assert policy.decide(context(0.95, now=105.0), memory)[0].plan is not None


def test_the_other_policy_comes_first() -> None:
    class Eager:
        name = "eager"

        def decide(self, seen: Context, memory: object) -> tuple[Decision, object]:
            return Decision(seen.plan.with_pipeline("plain", parallelism=3), "eager"), memory

    decision = decided(WithBackup(Eager(), BOUNDS), context(0.95))
    assert decision.reason == "eager"


@pytest.mark.parametrize("text", ["5s", "5s..1s", "a..b", "-1s..2s"])
def test_bounds_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Interval.parse(text)


def test_bounds_are_read() -> None:
    assert Interval.parse("200ms..5s") == BOUNDS


def test_an_interval_outside_its_bounds_says_so() -> None:
    decision = decided(WithBackup(Static(), BOUNDS), context(0.6, cadence=0.0))
    assert decision.plan is not None
    assert decision.reason.endswith(": it was outside 200ms..5s")
