from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.policies.base.policy import Context
from penstock_lab.experiments.rivals import DynamicAllocation, best_static
from penstock_lab.experiments.scenario import prime_tester

SCENARIO = prime_tester(36)


def seen(at: float, backlog: int, busy: float = 1.0, outside: int = 0) -> Context:
    pipelines = {
        "source": PipelineMetrics("source", 32, backlog_rows=outside),
        "test": PipelineMetrics("test", 36, service=0.0027, backlog_rows=backlog, busy=busy),
        "sink": PipelineMetrics("sink", 32),
    }
    snapshot = Snapshot(
        at, 5.0, 0, 0, 0, 0, pipelines=pipelines, source_pipelines=frozenset({"source"})
    )
    return Context(SCENARIO.graph, SCENARIO.plan, (snapshot,), at)


def grown(policy: DynamicAllocation, steps: list[Context]) -> list[int | None]:
    memory, found = None, []
    for context in steps:
        decision, memory = policy.decide(context, memory)
        plan = decision.plan
        found.append(None if plan is None else plan.pipeline_of("test").parallelism)
    return found


def test_executors_double_while_tasks_are_pending() -> None:
    # 36 testers do 13,333 numbers a second; the plan stays at 9 executors here
    steps = [seen(at, 20_000) for at in (1.0, 2.0, 3.0, 4.0)]
    assert grown(DynamicAllocation(130), steps) == [None, 40, 44, 52]
    assert grown(DynamicAllocation(10), steps) == [None, 40, 40, 40]


def test_rows_that_wait_outside_count_and_a_short_queue_does_not() -> None:
    policy = DynamicAllocation(130)
    assert grown(policy, [seen(1.0, 100, outside=20_000), seen(2.0, 100, outside=20_000)])[1] == 40
    assert grown(policy, [seen(1.0, 5_000), seen(2.0, 5_000)]) == [None, None]


def test_executors_go_when_all_of_them_idle_for_a_minute() -> None:
    policy = DynamicAllocation(130)
    assert grown(policy, [seen(0.0, 0, 0.0), seen(59.0, 0, 0.0), seen(60.0, 0, 0.0)])[1:] == [
        None,
        4,
    ]
    assert grown(policy, [seen(0.0, 0, 0.01), seen(60.0, 0, 0.01)]) == [None, None]


@settings(max_examples=40, deadline=None)
@given(st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30)), st.integers(5, 60))
def test_the_best_static_plan_of_a_bottleneck_is_found(
    speeds: tuple[int, int, int], slots: int
) -> None:
    """The slowest pipeline decides, and instances are limited: as good as trying everything."""
    names = ("a", "b", "c")

    def score(found: Mapping[str, int]) -> float:
        return min(found[n] * speed for n, speed in zip(names, speeds, strict=True))

    choices = {n: range(1, 21) for n in names}
    found = best_static(
        choices, score, dict.fromkeys(names, 1), allowed=lambda f: sum(f.values()) <= slots
    )
    every = (dict(zip(names, f, strict=True)) for f in product(*choices.values()))
    best = max(score(f) for f in every if sum(f.values()) <= slots)
    assert sum(found.values()) <= slots
    assert score(found) == best


def test_few_plans_are_all_tried() -> None:
    tried = []

    def score(found: Mapping[str, int]) -> float:
        tried.append(dict(found))
        return -abs(found["a"] - 3)

    assert best_static({"a": range(1, 6)}, score) == {"a": 3}
    assert len(tried) == 5
