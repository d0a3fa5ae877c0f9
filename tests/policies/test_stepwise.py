"""Stepwise profiling: the rounds of the paper, and closed loops."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Discard, Pipeline, Plan
from penstock.app import profile
from penstock.dataflow.graph import Graph
from penstock.engines.memory import MemoryEngine
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import LatencyMetrics, PipelineMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.stepwise.policy import Stepwise
from penstock.policies.stepwise.rounds import BEAT
from tests.control.doubles import FakeTime
from tests.engines.spark.flows import source
from tests.speed import seconds
from tests.strategies import dataflows, few


def linear() -> Graph:
    flow = Dataflow("linear")
    stream = source(flow)
    for name in ("a", "b", "c"):
        stream = stream.frame(name, lambda df: df)
    stream.sink("out", Discard())
    return flow.graph


def sizes(plan: Plan) -> tuple[int, ...]:
    return tuple(p.parallelism for p in plan.pipelines)


class Table:
    """A platform given as a function from a plan to throughput, latency over its bound, and times.

    Every turn is a window of one second; what is measured varies by one per cent.
    """

    def __init__(
        self,
        graph: Graph,
        answer: Callable[[Plan], tuple[float, float]],
        service: Callable[[Plan, str], float] = lambda plan, name: 0.001,
        plan: Plan | None = None,
    ) -> None:
        self.graph, self.answer, self.service = graph, answer, service
        self.plan = plan or fusion.finest_plan(graph)
        self.rng = random.Random(7)
        self.limits = Limits()
        self.at = 0.0
        self.memory: Any = None
        self.tried: list[tuple[int, ...]] = []
        self.said: list[str] = []
        self.refuse = False
        self.offered: float | None = None

    def snapshot(self) -> Snapshot:
        self.at += 1.0
        rate, late = self.answer(self.plan)
        rate *= self.rng.uniform(0.99, 1.01)
        pipelines = {
            p.name: PipelineMetrics(
                p.name,
                p.parallelism,
                batches=2,
                rows_in=int(rate),
                rate_in=rate,
                arrival_rate=self.offered,
                service=self.service(self.plan, p.name),
            )
            for p in self.plan.pipelines
        }
        seconds = late * 0.5
        latency = LatencyMetrics("a->c", 0.5, seconds, seconds, seconds, seconds, 10)
        names = frozenset(self.plan.pipeline_of(s.name).name for s in self.graph.sources)
        return Snapshot(
            self.at,
            1.0,
            None,
            0,
            0,
            0,
            pipelines=pipelines,
            latency={"a->c": latency},
            source_pipelines=names,
        )

    def turn(self, policy: Stepwise) -> Decision:
        seen = self.snapshot()
        context = Context(self.graph, self.plan, (seen,), self.at, self.limits)
        decision, self.memory = policy.decide(context, self.memory)
        assert decision.plan is None or {*decision.numbers} - {"undo"}, decision
        self.said.append(decision.reason)
        if decision.plan is not None:
            fusion.check(decision.plan, self.graph)
            if not self.refuse:
                self.plan = decision.plan
        return decision

    def run(self, policy: Stepwise, turns: int = 2000) -> None:
        for _ in range(turns):
            self.turn(policy)
            if self.memory.phase == "done":
                return
        raise AssertionError("profiling did not end")


def test_the_linear_run_takes_four_rounds() -> None:
    """(1,1,1,1), (1,2,2,2), (1,3,3,3), which is worse, and (1,2,2,2) again with slower sources."""
    graph = linear()
    table = {(1, 1, 1, 1): 958.6, (1, 2, 2, 2): 1876.0, (1, 3, 3, 3): 1500.0}

    def answer(plan: Plan) -> tuple[float, float]:
        slowed = plan.pipeline_of("numbers").admission is not None
        return table[sizes(plan)], 0.8 if slowed else 1.3

    platform = Table(graph, answer)
    platform.run(Stepwise(settle=0))
    found = platform.memory.profile
    assert [sizes(r.plan) for r in found.rounds] == [
        (1, 1, 1, 1),
        (1, 2, 2, 2),
        (1, 3, 3, 3),
        (1, 2, 2, 2),
    ]
    assert [r.kind for r in found.rounds] == ["start", "sinks", "sinks", "throttle"]
    slowed = found.rounds[-1].plan.pipeline_of("numbers")
    assert slowed.cadence == BEAT
    assert slowed.admission == pytest.approx(0.9 * 1876.0 * BEAT, rel=0.01)
    assert found.rounds[-2].plan.pipeline_of("numbers").cadence == 0
    assert sizes(found.final.plan) == (1, 2, 2, 2)
    assert found.final.throughput == pytest.approx(1876, rel=0.01)
    assert platform.plan == found.final.plan
    assert "no pipeline takes more than 2 times its least time" in platform.said[-1]
    assert found.to_json()["instances"] == {"a": 1, "b": 1, "c": 1}


def test_the_word_count_starts_with_2_2_3() -> None:
    graph = linear()
    times = {"numbers": 0.0001, "a": 0.006, "b": 0.007, "c": 0.01}
    platform = Table(graph, lambda plan: (100.0, 0.5), lambda plan, name: times[name])
    policy = Stepwise(slice=0.4, settle=0)
    while platform.turn(policy).plan is None:
        pass
    assert sizes(platform.plan) == (1, 2, 2, 3)
    assert "a 2, b 2, c 3" in platform.said[-1]


def test_single_pipelines_are_tuned_and_a_loss_is_revoked() -> None:
    """The ratios are blind to b, which slows down under load; only its instances help."""
    graph = linear()

    def answer(plan: Plan) -> tuple[float, float]:
        p = dict(zip(("numbers", "a", "b", "c"), sizes(plan), strict=True))
        if p["numbers"] > 1 or p["a"] > 1 or p["c"] > 1:
            return 70.0, 1.5
        return 100.0 * min(p["b"], 3), 0.9 if p["b"] >= 1 else 2.0

    def service(plan: Plan, name: str) -> float:
        busy = platform.memory is not None and platform.memory.phase != "features"
        return 0.05 / plan.pipeline_of("b").parallelism if name == "b" and busy else 0.001

    platform = Table(graph, answer, service)
    platform.run(Stepwise(settle=0))
    found = platform.memory.profile
    assert sizes(found.final.plan) == (1, 1, 3, 1)
    kinds = [r.kind for r in found.rounds]
    assert kinds.count("operator b") >= 3
    assert found.final.throughput == pytest.approx(300, rel=0.01)
    assert platform.plan == found.final.plan


def carried(cores: float, costs: dict[str, float]) -> Callable[[Plan], tuple[float, float]]:
    """Pipelines bound by their instances, all of them by the cores, and crowding costs."""

    def answer(plan: Plan) -> tuple[float, float]:
        work = {p.name: costs[p.name] for p in plan.pipelines}
        slowest = min(p.parallelism / work[p.name] for p in plan.pipelines)
        crowd = max(1.0, sum(sizes(plan)) / (2 * cores))
        rate = min(slowest, cores / sum(work.values())) / crowd**0.5
        waiting = plan.pipeline_of("numbers").parallelism / costs["numbers"] > rate * 1.05
        admission = plan.pipeline_of("numbers").admission
        return (rate, 1.4 if waiting and admission is None else 0.7)

    return answer


@pytest.mark.parametrize("cores", [6.0, 12.0, 24.0])
def test_it_finds_nearly_all_that_the_platform_carries(cores: float) -> None:
    costs = {"numbers": 0.002, "a": 0.01, "b": 0.02, "c": 0.005}
    answer = carried(cores, costs)
    platform = Table(linear(), answer, lambda plan, name: costs[name])
    platform.run(Stepwise(settle=0))
    plans = (
        replace(
            platform.plan,
            pipelines=tuple(
                replace(p, parallelism=n, admission=None)
                for p, n in zip(platform.plan.pipelines, each, strict=True)
            ),
        )
        for each in itertools.product(range(1, 3), range(1, 13), range(1, 21), range(1, 9))
    )
    best = max(answer(plan)[0] for plan in plans)
    assert platform.memory.profile.final.throughput > 0.9 * best
    assert len(platform.memory.profile.rounds) <= 15


def test_the_budget_and_the_bounds_end_growth() -> None:
    flow = Dataflow("bounded")
    rows = source(flow).frame("a", lambda df: df, max_parallelism=2)
    rows.process_all("one", dict, schema="n bigint").sink("out", Discard())
    platform = Table(flow.graph, lambda plan: (100.0 * plan.slots, 1.5))
    platform.limits = Limits(slots=5)
    platform.run(Stepwise(settle=0))
    found = platform.memory.profile
    assert max(r.plan.slots for r in found.rounds) == 5
    assert found.ratios.fixed == {"one": 1}
    assert all(r.plan.pipeline_of("a").parallelism <= 2 for r in found.rounds)


def test_a_budget_too_small_for_the_ratios_is_dealt_out_by_them() -> None:
    costs = {"numbers": 0.0001, "a": 0.006, "b": 0.015, "c": 0.0095}
    platform = Table(linear(), carried(100.0, costs), lambda plan, name: costs[name])
    platform.limits = Limits(slots=9)  # the ratios are 2 to 4 to 3
    platform.run(Stepwise(observations=2, settle=0))
    assert "instances relate as a 2, b 4, c 3" in " ".join(platform.said)
    assert sizes(platform.memory.profile.final.plan) == (1, 2, 4, 2)


def test_observations_do_not_overlap_and_wait_for_the_flow_to_settle() -> None:
    platform = Table(linear(), lambda plan: (100.0, 0.5))
    policy = Stepwise(observations=3, settle=0)
    seen = platform.snapshot()

    def turn(at: float, **changes: Any) -> int:
        look = replace(seen, at=at, window=2.0, **changes)
        context = Context(platform.graph, platform.plan, (look,), at)
        _, platform.memory = policy.decide(context, platform.memory)
        return len(platform.memory.seen)

    assert [turn(10.0), turn(11.0), turn(12.0), turn(13.0)] == [1, 1, 2, 2]
    assert turn(20.0, settled=False) == 2


def test_a_time_that_is_not_measured_is_named() -> None:
    platform = Table(linear(), lambda plan: (0.0, 0.5), lambda plan, name: None)  # type: ignore
    policy = Stepwise(observations=2, settle=0)
    for _ in range(4):
        assert platform.turn(policy).plan is None
    assert "the time for a row of numbers, a, b, c is not measured" in " ".join(platform.said)


def test_a_plan_that_is_refused_is_asked_for_again_and_then_given_up() -> None:
    platform = Table(linear(), lambda plan: (100.0, 1.5))
    policy = Stepwise(observations=2, settle=0, patience=10)
    while platform.memory is None or not platform.memory.rounds:
        platform.turn(policy)
    platform.refuse = True
    platform.run(policy, 50)
    assert platform.said.count("asks again for source") == 10
    assert platform.memory.profile.final.kind == "start"


# --- recalibration ------------------------------------------------------------------------------


def done() -> tuple[Table, Stepwise]:
    platform = Table(linear(), lambda plan: (100.0, 0.5))
    policy = Stepwise(observations=2, settle=0, patience=10)
    platform.run(policy)
    return platform, policy


def test_a_finished_profile_is_left_alone_while_all_is_well() -> None:
    platform, policy = done()
    for _ in range(30):
        assert platform.turn(policy).plan is None
    assert platform.memory.phase == "done"


def test_instances_follow_the_load_when_the_profile_is_done() -> None:
    costs = {"numbers": 0.002, "a": 0.01, "b": 0.02, "c": 0.005}
    platform = Table(linear(), carried(12.0, costs), lambda plan, name: costs[name])
    platform.limits = Limits(slots=13)
    policy = Stepwise(observations=2, settle=0, calm=5.0)
    platform.run(policy)
    whole = platform.plan
    most = platform.memory.profile.final.throughput
    platform.offered = 0.25 * most
    for _ in range(5):
        assert platform.turn(policy).plan is None
    fewer = platform.turn(policy).plan
    assert fewer is not None
    assert sizes(fewer) == tuple(math.ceil(n * 0.25 / 0.9) for n in sizes(whole))
    assert fewer.slots < whole.slots
    assert platform.turn(policy).plan is None
    platform.offered = most
    again = platform.turn(policy)
    assert again.plan == whole
    assert again.numbers == {"slots": whole.slots}  # no round: the guard keeps it from going on so
    # late rows are no time to take instances away
    platform.offered, platform.answer = 0.25 * most, lambda plan: (most, 1.5)
    assert all(platform.turn(policy).plan is None for _ in range(9))


def test_rows_that_are_late_for_long_start_it_anew() -> None:
    platform, policy = done()
    platform.answer = lambda plan: (100.0, 1.2)
    for _ in range(10):
        platform.turn(policy)
    assert platform.memory.phase == "done"
    platform.answer = lambda plan: (100.0, 0.9)
    platform.turn(policy)
    platform.answer = lambda plan: (100.0, 1.2)
    for _ in range(11):
        platform.turn(policy)
    assert platform.memory.phase == "features"
    assert "latency is 1.20 of its bound for 10 s: profiling starts anew" in platform.said


def test_another_platform_or_dataflow_starts_it_anew() -> None:
    platform, policy = done()
    platform.plan = replace(platform.plan, executors=4)
    platform.turn(policy)
    assert platform.said[-1] == "the platform has changed, 1 -> 4 executors: profiling starts anew"
    platform, policy = done()
    platform.graph = replace(platform.graph, name="another")
    platform.turn(policy)
    assert platform.said[-1] == "the dataflow has changed: profiling starts anew"


def under(platform: Table, load: float) -> None:
    """Let so many rows come, of which an instance of each pipeline takes 100 a second."""
    platform.offered = load
    platform.answer = lambda plan: (min(load, 100.0 * min(sizes(plan))), 0.5)


def test_it_pauses_while_less_comes_than_is_known_to_be_carried() -> None:
    """A round without stress tells nothing, and instances that nobody needs go meanwhile."""
    platform, policy = Table(linear(), lambda plan: (0.0, 0.0)), Stepwise(observations=4, settle=0)
    under(platform, 1000.0)
    for _ in range(35):
        platform.turn(policy)
    busy, rounds, kind = platform.plan, len(platform.memory.rounds), platform.memory.kind
    assert busy.slots > 8
    under(platform, 100.0)
    for _ in range(40):
        platform.turn(policy)
    assert any("profiling pauses: 100/s come, " in said for said in platform.said)
    assert platform.plan.slots < busy.slots / 2
    known = platform.memory.profile.final.throughput
    under(platform, 0.7 * known)
    for _ in range(3):
        platform.turn(policy)
    assert platform.memory.phase == "done"
    assert 100.0 * min(sizes(platform.plan)) >= 0.7 * known
    under(platform, 1000.0)
    assert "1000/s come: profiling goes on; " in platform.turn(policy).reason
    assert platform.plan == busy
    assert (platform.memory.phase, platform.memory.kind) == ("platform", kind)
    assert len(platform.memory.rounds) == rounds


def test_a_source_that_does_not_tell_what_comes_is_no_reason_to_pause() -> None:
    platform, policy = Table(linear(), lambda plan: (0.0, 0.0)), Stepwise(observations=4, settle=0)
    under(platform, 1000.0)
    for _ in range(20):
        platform.turn(policy)
    under(platform, 100.0)
    platform.offered = None
    for _ in range(40):
        platform.turn(policy)
    assert not any("pauses" in said for said in platform.said)


def test_a_load_at_a_border_does_not_make_instances_come_and_go() -> None:
    platform, policy = done()
    platform.memory = replace(platform.memory, calm=None)
    final = platform.memory.profile.final
    whole = replace(
        final.plan, pipelines=tuple(replace(p, parallelism=8) for p in final.plan.pipelines)
    )
    known = replace(platform.memory.profile, final=replace(final, plan=whole))
    platform.memory, platform.plan = replace(platform.memory, profile=known), whole
    moved = 0
    for at in range(200):
        platform.offered = final.throughput * 0.9 / 8 * (2.0 + 0.1 * (-1) ** (at // 20))
        moved += platform.turn(policy).plan is not None
    assert moved == 1  # to three of each, which two would carry half of the time
    assert sizes(platform.plan) == (3, 3, 3, 3)


# --- against the engine in memory ---------------------------------------------------------------


def test_the_same_policy_profiles_an_engine(tmp_path: Any) -> None:
    graph = linear()
    engine = MemoryEngine({"numbers": 0.0005, "a": 0.002, "b": 0.004, "c": 0.002}, rate=3000.0)
    policy, clock = Stepwise(observations=3, settle=0), FakeTime(engine).clock
    found = profile(graph, policy=policy, engine=engine, run_dir=tmp_path, clock=clock).profile
    assert found.instances == {"a": 1, "b": 2, "c": 1}
    assert found.rounds[0].throughput == pytest.approx(500, rel=0.01)  # not the source's 2000
    assert found.final.throughput >= 3000
    assert engine.plan == found.final.plan


# --- laws ---------------------------------------------------------------------------------------


@few
@given(st.data())
def test_it_ends_on_every_dataflow_with_valid_plans_within_the_budget(data: st.DataObject) -> None:
    graph = data.draw(dataflows())
    start = fusion.finest_plan(graph)
    budget = data.draw(st.integers(start.slots, start.slots + 12))
    cores = data.draw(st.integers(1, 8))
    bound = data.draw(st.integers(1, 40))
    platform = Table(
        graph,
        lambda plan: (100.0 * min(cores, plan.slots), plan.slots / bound),
        lambda plan, name: 0.001 * (1 + len(name)),
    )
    platform.limits = Limits(slots=budget)
    platform.run(Stepwise(observations=2, settle=0))
    rounds = platform.memory.profile.rounds
    assert all(r.plan.slots <= budget for r in rounds)
    assert len(rounds) <= 40
    best = max((r.throughput for r in rounds if r.met), default=0.0)
    assert platform.memory.profile.final.throughput >= 0.97 * best


@pytest.mark.large
def test_ten_thousand_operators_are_decided_on_at_once() -> None:
    flow = Dataflow("long")
    stream = source(flow)
    for at in range(9_998):
        stream = stream.filter(f"o{at}", lambda r: True)
    stream.sink("out", Discard())
    plan = Plan(tuple(Pipeline((name,)) for name in flow.graph.topological))
    platform = Table(flow.graph, lambda plan: (100.0, 1.5), plan=plan)
    policy = Stepwise(observations=2, settle=0)
    for _ in range(6):
        before = platform.at
        assert seconds(partial(platform.turn, policy)) < 2
        assert platform.at == before + 1
    assert len(platform.memory.rounds) >= 2


@pytest.mark.parametrize(
    "wrong", [{"slice": 0.0}, {"alpha": 1.5}, {"observations": 1}, {"k": 0.5}, {"latency": 0.0}]
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="stepwise"):
        Stepwise(**wrong)
