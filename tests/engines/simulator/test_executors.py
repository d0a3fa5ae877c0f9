"""Which instance runs where when executors come and go, and what a move costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.simulator.changes import InjectedFailure
from penstock.engines.simulator.distributions import Constant
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.executors import Placement, moved, place
from penstock.engines.simulator.model import Keys, Machine, MicroBatch, OperatorCost, Timing
from penstock.plan.plan import Pipeline, Plan

from .flows import apart, chain, keyed, started


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    size = draw(st.integers(1, 6))
    names = tuple(map(str, range(size)))
    hosts = draw(st.lists(st.lists(st.integers(0, size - 1), max_size=9), min_size=1, max_size=4))
    starting = draw(st.lists(st.sampled_from(names), unique=True, max_size=size - 1))
    there = {f"p{at}": np.array(where, np.intp) for at, where in enumerate(hosts)}
    return Placement(names, there, size, dict.fromkeys(starting, 9.0))


@given(placements())
def test_evening_out_takes_as_few_moves_as_it_can(before: Placement) -> None:
    after = before.balanced()
    there = [name not in before.starting for name in before.executors]
    then, now = before.loads()[there], after.loads()[there]
    assert now.sum() == then.sum()
    assert now.max() - now.min() <= 1
    moves = sum(map(len, moved(before, after).values()))
    # each of so many must lose what it has above the share, and as many keep one more as can
    share, rest = divmod(int(then.sum()), len(then))
    above = np.sort(np.maximum(then - share, 0))[::-1]
    assert moves == above.sum() - np.minimum(above[:rest], 1).sum()
    awaited = [not one for one in there]
    assert (before.loads()[awaited] == after.loads()[awaited]).all()
    assert after.balanced() is after


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 5))
def test_executors_that_come_get_their_share_and_who_stays_does_not_move(
    counts: list[int], first: int, more: int
) -> None:
    pipelines = tuple(Pipeline((f"p{at}",), count) for at, count in enumerate(counts))
    before = place(None, Plan(pipelines, first))
    wider = Plan(pipelines, first + more)
    loads = place(before, wider).loads()
    assert loads.max() - loads.min() <= 1
    kept = place(before, wider, stays=True)
    assert kept.loads()[first:].sum() == 0
    assert not moved(before, kept)


def test_what_is_given_away_is_of_the_pipeline_of_which_there_is_most() -> None:
    before = Placement(("0",), {"in": np.zeros(1, np.intp), "a": np.zeros(4, np.intp)}, 1)
    plan = Plan((Pipeline(("in",)), Pipeline(("a",), 4)), 4)
    after = place(before, plan)
    assert after.hosts["in"].tolist() == [0]
    assert sorted(after.hosts["a"].tolist()) == [0, 1, 2, 3]


def test_new_instances_go_where_the_least_is_to_do_while_there_is_room() -> None:
    before = Placement(("0", "1"), {"a": np.array([0]), "b": np.array([1, 1])}, 2)
    plan = Plan((Pipeline(("a",), 3), Pipeline(("b",), 2)), 2)
    assert place(before, plan).hosts["a"].tolist() == [0, 0, 0]
    # each of `a` will do 0.3 of a core, each of `b` 0.1, so that two of these are less than one
    work = {"a": 0.9, "b": 0.2}
    assert place(before, plan, work=work).hosts["a"].tolist() == [0, 1, 0]
    assert place(before, plan, work=work, room=2).hosts["a"].tolist() == [0, 0, 1]  # all are full


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_what_is_placed_anew_is_where_a_first_plan_would_put_it(
    counts: list[tuple[int, int]], executors: int
) -> None:
    then, now = (
        Plan(tuple(Pipeline((f"p{at}",), pair[which]) for at, pair in enumerate(counts)), executors)
        for which in (0, 1)
    )
    after, first = place(place(None, then), now, anew=True), place(None, now)
    assert after.executors == first.executors
    assert {n: w.tolist() for n, w in after.hosts.items()} == {
        n: w.tolist() for n, w in first.hosts.items()
    }


def test_what_is_placed_anew_keeps_off_an_executor_that_is_lost() -> None:
    plan = Plan((Pipeline(("a",), 4),), 2)
    before = place(None, plan).without("1", until=9.0)
    after = place(before, plan, anew=True)
    assert after.hosts["a"].tolist() == [0, 0, 0, 0]
    assert after.starting == {"2": 9.0}


def test_what_nobody_has_measured_is_placed_by_number() -> None:
    plan = Plan((Pipeline(("a",), 5), Pipeline(("b",), 4)), 3)
    assert place(None, plan, work={}).loads().tolist() == [3, 3, 3]


def test_executors_that_come_draw_one_instance_of_each_in_order() -> None:
    pipelines = tuple(Pipeline((name,), 4) for name in "abc")
    before = place(None, Plan(pipelines, 3))
    after = place(before, Plan(pipelines, 4), stays=True, drawn=("c", "b"))
    assert after.loads()[3] == 3
    assert {n: w.tolist() for n, w in moved(before, after).items()} == {"b": [0], "c": [0, 1]}


CROWDED = {"a": OperatorCost(Constant(0.01))}


def crowded(run_dir: Path, executors: int, **model: object) -> SimulatorEngine:
    plan = apart(("a", 4), executors=executors)
    return started(chain("a"), plan, CROWDED, "300/s", run_dir, window=10.0, nodes=4,
                   node=Machine(cores=1), queue=50, **model)  # fmt: skip


@pytest.mark.parametrize(("stays", "carried"), [(False, 400.0), (True, 100.0)])
def test_executors_that_come_are_used_unless_what_runs_stays(
    tmp_path: Path, stays: bool, carried: float
) -> None:
    engine = crowded(tmp_path, 1, stays=stays)
    engine.advance(30.0)
    assert engine.observe().throughput == pytest.approx(100.0, rel=0.02)
    transition = engine.apply(apart(("a", 4), executors=4))
    assert transition.interruption == (0.0 if stays else Timing().restart)
    assert transition.state_bytes_moved == 0
    engine.advance(20.0)
    seen = engine.observe()
    assert seen.throughput == pytest.approx(carried, rel=0.05)  # it has a backlog to work off
    assert [sum(e.instances.values()) for e in seen.executors.values()] == (
        [5, 0, 0, 0] if stays else [2, 1, 1, 1]
    )
    engine.stop()
    seen = engine.observe()
    assert seen.rows_delivered == seen.rows_ingested


@pytest.mark.parametrize(("by_load", "hosts", "carried"), [(False, [0, 2], 100.0),
                                                           (True, [1, 1], 200.0)])  # fmt: skip
def test_an_instance_is_put_beside_idle_ones_where_load_decides(
    tmp_path: Path, by_load: bool, hosts: list[int], carried: float
) -> None:
    """`a` is busy, alone with an idle one; three that have nothing to do are on the other."""
    steps = {"a": OperatorCost(Constant(0.01)), "b": OperatorCost(Constant(0.0))}
    engine = started(chain("a", "b"), apart(("a", 1), ("b", 3), executors=2), steps, "300/s",
                     tmp_path, window=5.0, node=Machine(cores=1), by_load=by_load)  # fmt: skip
    engine.advance(10.0)
    engine.apply(apart(("a", 2), ("b", 3), executors=2))
    engine.advance(20.0)
    seen = engine.observe()
    assert [e.instances.get("a", 0) for e in seen.executors.values()] == hosts
    assert seen.pipelines["a"].rate_in == pytest.approx(carried, rel=0.05)


def test_an_executor_that_takes_the_place_of_another_is_used_too(tmp_path: Path) -> None:
    engine = started(
        chain("a"), apart(("a", 4), executors=2), CROWDED, "300/s", tmp_path, window=5.0,
        node=Machine(cores=2), options={"failures": [InjectedFailure(5.0, executor="0")]},
    )  # fmt: skip
    engine.advance(20.0)
    assert engine.observe().pipelines["a"].rate_in == pytest.approx(200.0, rel=0.02)
    engine.advance(20.0)
    seen = engine.observe()
    assert seen.executors["2"].instances == {"a": 2}
    assert seen.pipelines["a"].rate_in == pytest.approx(400.0, rel=0.02)
    engine.advance(20.0)
    assert engine.observe().pipelines["a"].backlog_rows < 20
    engine.stop()
    seen = engine.observe()
    assert seen.rows_delivered == seen.rows_ingested


KEYS = Keys(10_000, bytes=1e5)  # 1 GB in all


def holding(run_dir: Path, executors: int, batch: MicroBatch | None = None) -> SimulatorEngine:
    engine = started(
        keyed(), apart(("count", 4), executors=executors),
        {"count": OperatorCost(Constant(1e-4), keys=KEYS)}, "4000/s", run_dir, window=5.0, nodes=4,
        batch=batch,
    )  # fmt: skip
    engine.advance(30.0)
    return engine


@pytest.mark.parametrize("batch", [None, MicroBatch()])
@pytest.mark.parametrize(("before", "after", "moving"), [(4, 1, 3), (1, 4, 3), (2, 1, 2)])
def test_state_that_changes_machines_is_paid_for(
    tmp_path: Path, before: int, after: int, moving: int, batch: MicroBatch | None
) -> None:
    engine = holding(tmp_path, before, batch)
    found = engine.apply(apart(("count", 4), executors=after))
    assert found.state_bytes_moved == pytest.approx(moving / 4 * 1e9, rel=0.02)
    assert found.state_rows_moved == pytest.approx(moving / 4 * 10_000, rel=0.02)
    assert found.interruption == pytest.approx(0.5 + moving / 4 * 1e9 / 100e6, rel=0.02)
    assert found.keys_moved is None  # each is served by the same instance as before
    engine.advance(5.0)
    assert engine.observe().latency["count->count"].p99 > 1.0


def test_batches_need_no_move_where_there_is_no_state(tmp_path: Path) -> None:
    engine = crowded(tmp_path, 1, batch=MicroBatch())
    engine.advance(10.0)
    assert engine.apply(apart(("a", 4), executors=4)).interruption == 0.0
    loads = [sum(e.instances.values()) for e in engine.observe().executors.values()]
    assert loads == [2, 1, 1, 1]


def test_state_that_is_dealt_anew_and_changes_machines_is_paid_for_once(tmp_path: Path) -> None:
    engine = holding(tmp_path, 4)
    found = engine.apply(apart(("count", 2), executors=2))
    # half of the keys get another instance, and one of the two others is on another machine
    assert found.keys_moved == pytest.approx(0.5, abs=0.02)
    assert found.state_bytes_moved == pytest.approx(0.75e9, rel=0.03)
    assert found.interruption == pytest.approx(0.5 + 7.5, rel=0.03)


def test_what_breaks_while_executors_are_started_is_reckoned_with(tmp_path: Path) -> None:
    engine = started(
        chain("a"), apart(("a", 4), executors=2), CROWDED, "100/s", tmp_path, nodes=4,
        options={"failures": [InjectedFailure(5.0, executor="0")]},
    )  # fmt: skip
    engine.advance(2.0)
    engine.apply(replace(apart(("a", 4), executors=2), executors=3))
    loads = {n: sum(e.instances.values()) for n, e in engine.observe().executors.items()}
    assert max(loads.values()) - min(loads.values()) <= 1
    engine.stop()
    seen = engine.observe()
    assert seen.rows_delivered == seen.rows_ingested
