"""The latency policy and what is measured from end to end; several constraints and branches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock import Dataflow, Discard, Generator
from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import LatencyMetrics
from penstock.policies.base.policy import Context
from penstock.policies.nephele.policy import LatencyPolicy
from tests.policies.nephele.looks import PLAIN, batches, context, decided, instances, metrics
from tests.policies.queues import chain, nothing

# --- measured from end to end ---------------------------------------------------------------------


def measured(seen: Context, mean: float) -> Context:
    """The same, with a latency of its only constraint."""
    (bound,), (shot,) = seen.graph.constraints, seen.snapshots
    found = LatencyMetrics(bound.name, bound.latency, mean, mean, mean, mean, 500)
    return replace(seen, snapshots=(replace(shot, latency={bound.name: found}),))


def windowed(kind: str) -> Graph:
    flow = Dataflow("windowed")
    rows = flow.source("numbers", Generator(nothing, "n bigint"))
    rows.map("x", nothing, schema="n bigint", latency=kind).sink("out", Discard())
    flow.constrain("numbers", "x", latency=1.0)
    return flow.graph


def test_a_constraint_that_is_missed_without_a_reason_loses_nothing() -> None:
    # the model has 0.11 s of 1 s, but 4.5 s were measured
    found = {"x": metrics("x", 4, 1.0, 0.01)}
    seen = context(chain("x"), found, x={"cadence": 0.1})
    assert instances(decided(seen, LatencyPolicy()), "x") == (2,)
    decision = decided(measured(seen, 4.5), LatencyPolicy())
    assert decision.plan is not None
    assert decision.plan.pipeline_of("x").parallelism == 4
    assert {p.cadence for p in decision.plan.pipelines} == {0.0}
    assert (
        "measured 4.5 s, bound 1 s, of which work and waits explain 0.11 s: the other 4.39 s "
        "count as work, nothing on its path is scaled down"
    ) in decision.reason
    assert (
        "0.1 s and 4.39 s besides without any waiting, more than the bound of 1 s"
        in decision.reason
    )
    assert decision.numbers["numbers->out rest"] == pytest.approx(4.39)
    assert decision.numbers["numbers->out measured"] == 4.5


def test_instances_are_asked_for_where_they_make_up_for_what_is_not_explained() -> None:
    # 0.1 s of work and 0.79 s that are not explained leave 0.11 s, of which 0.022 s may be waited
    seen = context(chain("x"), {"x": metrics("x", 4, 2.0, 0.17)})
    assert decided(seen).plan is None
    late = decided(measured(seen, 1.06))
    assert instances(late, "x") == (18,)  # a = 0.34: 2 + 0.34 / 0.022
    assert "measured 1.06 s, bound 1 s" in late.reason


def test_a_cadence_is_shortened_for_what_is_not_explained() -> None:
    graph = chain("x", latency=3.0)
    seen = context(graph, {"x": batches(4, 2.0, 0.2, 0.6)}, x={"cadence": 0.6})
    assert decided(seen, LatencyPolicy()).plan is not None  # only that of the source
    plan = decided(measured(seen, 3.2), LatencyPolicy()).plan
    assert plan is not None
    assert plan.pipeline_of("x").cadence < 0.6
    assert plan.pipeline_of("numbers").cadence == 0.0


def test_what_was_not_explained_counts_until_it_is_gone() -> None:
    """Else what is right while the constraint is missed would be undone when it is met."""
    seen = context(chain("x"), {"x": metrics("x", 19, 2.0, 0.02)})
    loose, _ = PLAIN.decide(measured(seen, 0.95), None)
    assert instances(loose, "x") == (4,)  # the model alone
    small = context(chain("x"), {"x": metrics("x", 4, 2.0, 0.17)}, now=50.0)
    _, memory = PLAIN.decide(measured(small, 1.07), None)
    kept, after = PLAIN.decide(measured(seen, 0.92), replace(memory, too_few={}))
    assert kept.plan is None
    assert after.rests["numbers->out"] == pytest.approx(0.8)


def test_a_miss_that_its_waits_explain_is_the_models_to_mend() -> None:
    seen = context(chain("x"), {"x": metrics("x", 4, 2.0, 1.5)})
    assert instances(decided(measured(seen, 1.6)), "x") == instances(decided(seen), "x")


def test_a_backlog_is_no_unexplained_rest() -> None:
    late = replace(metrics("x", 8, 5.0, 9.0), arrival_rate=50.0, service=0.1, backlog_rows=400)
    decision = decided(measured(context(chain("x"), {"x": late}), 30.0))
    assert decision.plan is None
    assert "numbers->out rest" not in decision.numbers


def test_the_time_from_a_read_to_the_next_write_is_work() -> None:
    """An operator says which it is; what it takes is what was measured beyond the rest."""
    found = {"x": metrics("x", 4, 2.0, 0.3)}
    plain, asked = (
        decided(measured(context(windowed(kind), found), 0.9))
        for kind in ("read-ready", "read-write")
    )
    assert instances(plain, "x") == (6,)  # 2 + 0.6 / 0.18
    assert instances(asked, "x") == (10,)  # 0.5 s are the window's: 2 + 0.6 / 0.08
    assert (
        "0.9 s, bound 1 s, of which work and waits explain 0.4 s: the other 0.5 s" in asked.reason
    )


@pytest.mark.parametrize(("emit", "x"), [("update", 6), ("final", 9)])
def test_a_window_that_was_not_measured_takes_half_of_its_length(emit: str, x: int) -> None:
    flow = Dataflow("windowed")
    rows = flow.source("numbers", Generator(nothing, "at timestamp, n bigint"))
    grouped = rows.key_by("n").window("600ms", on="at", watermark="200ms")
    grouped.aggregate("x", "count(*)", emit=emit, schema="n bigint").sink("out", Discard())
    flow.constrain("numbers", "out", latency=1.0)
    found = replace(metrics("x", 4, 2.0, 0.3), batch_seconds=None, service=0.02)
    seen = context(flow.graph, {"x": found})
    decision = decided(seen)
    # 0.02 s at work: 2 + 0.6 / 0.196, or with 0.3 s for the window and 0.2 s until it is closed
    assert instances(decision, "x") == (x,)
    assert ("counts 0.5 s from read to write as work" in decision.reason) == (emit == "final")
    # where rows are seen to take less, that counts
    assert instances(decided(measured(seen, 0.32)), "x") == (6,)


# --- several constraints, branches ----------------------------------------------------------------


def shared(first: float, second: float) -> Graph:
    flow = Dataflow("shared")
    rows = flow.source("numbers", Generator(nothing, "n bigint"))
    x = rows.map("x", nothing, schema="n bigint")
    x.map("y", nothing, schema="n bigint").sink("left", Discard())
    x.map("z", nothing, schema="n bigint").sink("right", Discard())
    flow.constrain("numbers", "left", latency=first)
    flow.constrain("numbers", "right", latency=second)
    return flow.graph


@pytest.mark.parametrize(("first", "second"), [(1.0, 4.0), (4.0, 1.0)])
def test_later_constraints_only_raise(first: float, second: float) -> None:
    found = {n: metrics(n, 4, 2.0, 0.3) for n in ("x", "y", "z")}
    graph = shared(first, second)
    x, y, z = instances(decided(context(graph, found)), "x", "y", "z")
    for other, bound in ((y, first), (z, second)):
        assert 0.6 / (x - 2) + 0.6 / (other - 2) <= 0.2 * (bound - 0.2) + 1e-9
    for constraint in graph.constraints:
        one = decided(context(replace(graph, constraints=(constraint,)), found)).plan
        assert one is None or x >= one.pipeline_of("x").parallelism


def test_each_branch_is_a_sequence_of_its_own() -> None:
    flow = Dataflow("diamond")
    rows = flow.source("numbers", Generator(nothing, "n bigint"))
    x, y = (rows.map(n, nothing, schema="n bigint") for n in "xy")
    x.union("both", y).sink("out", Discard())
    flow.constrain("numbers", "out", latency=1.0)
    found = {"x": metrics("x", 4, 2.0, 0.3, 0.6), "y": metrics("y", 4, 2.0, 0.3, 0.6)}
    decision = decided(context(flow.graph, found))
    # each path has 0.6 s of work, not 1.2 s, and 0.08 s to wait: 2 + 0.6 / 0.08 = 9.5
    assert instances(decision, "x", "y") == (10, 10)


def test_many_branches_are_quick_and_all_are_short_enough() -> None:
    flow = Dataflow("fan")
    rows = flow.source("numbers", Generator(nothing, "n bigint"))
    first, *rest = (rows.map(f"x{i}", nothing, schema="n bigint") for i in range(60))
    first.union("both", *rest).sink("out", Discard())
    flow.constrain("numbers", "out", latency=1.0)
    found = {f"x{i}": metrics(f"x{i}", 4, 2.0, 0.3) for i in range(60)}
    plan = decided(context(flow.graph, found)).plan
    assert plan is not None
    assert all(0.6 / (plan.pipeline_of(n).parallelism - 2) <= 0.18 for n in found)
