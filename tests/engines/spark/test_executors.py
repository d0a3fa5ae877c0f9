"""Who leaves, and where state goes, as pure functions; executors on which Spark itself decides."""

from __future__ import annotations

from collections import Counter
from itertools import count
from threading import RLock
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.changes.executors import ClusterExecutors, chosen, spread
from penstock.engines.spark.changes.transitions import TransitionLog
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.running_flow import RunningFlow
from penstock.errors import Refused
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wiring


def test_named_executors_leave_and_nobody_else() -> None:
    assert chosen(("0", "1", "2"), 2, ("1",), Counter({"1": 9})) == ("1",)


def test_without_a_name_the_one_with_least_state_leaves() -> None:
    assert chosen(("0", "1", "2"), 2, (), Counter({"0": 3, "1": 1, "2": 3})) == ("1",)


def test_of_equals_the_youngest_leaves() -> None:
    assert chosen(("2", "9", "10"), 2, (), Counter()) == ("10",)


def test_nobody_leaves_where_enough_have_gone_already() -> None:
    assert chosen(("0", "1"), 2, (), Counter()) == ()


def test_state_goes_to_a_newcomer_and_no_more_than_its_share() -> None:
    moved = spread({0: "a", 1: "a", 2: "a", 3: "a"}, ["a", "b"])
    assert sorted(moved.values()) == ["b", "b"]


def test_state_of_one_who_left_is_taken_over() -> None:
    assert spread({0: "a", 1: "gone", 2: "b"}, ["a", "b"]) in ({1: "a"}, {1: "b"})


EXECUTORS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)
PLACES = st.lists(st.sampled_from(["a", "b", "c", "gone", None]), max_size=20)


@given(places=PLACES, executors=EXECUTORS)
def test_state_ends_up_even_and_moves_no_more_than_it_must(
    places: list[str | None], executors: list[str]
) -> None:
    current = dict(enumerate(places))
    moved = spread(current, executors)
    after = Counter({**current, **moved}.values())
    assert set(after) <= set(executors)
    loads = [after[name] for name in executors]
    assert max(loads) - min(loads) <= 1
    assert all(current[part] != where for part, where in moved.items())
    share, extra = divmod(len(places), len(executors))
    here = sorted((Counter(places)[name] for name in executors), reverse=True)
    stay = sum(min(n, share + (at < extra)) for at, n in enumerate(here))
    assert len(moved) == len(places) - stay


# --- a session's own ----------------------------------------------------------------------------

NUMBERS = count()


class Cluster:
    """What is asked of Spark's context: its settings, and the executors there are."""

    def __init__(self, *there: str, dynamic: bool = True, **settings: int) -> None:
        self.there = list(there)
        found = {f"spark.dynamicAllocation.{name}": value for name, value in settings.items()}
        self.settings: dict[str, Any] = {"spark.dynamicAllocation.enabled": dynamic, **found}
        self.name = f"app-{next(NUMBERS)}"

    def applicationId(self) -> str:
        return self.name

    def master(self) -> str:
        return "local-cluster[6,2,1024]"

    def conf(self) -> Any:
        return SimpleNamespace(getInt=self.settings.get, getBoolean=self.settings.get)

    def getExecutorIds(self) -> Any:
        return SimpleNamespace(size=lambda: len(self.there), apply=lambda at: self.there[at])

    def executors(self) -> ClusterExecutors:
        session = SimpleNamespace(sessionState=lambda: SimpleNamespace(conf=lambda: None))
        java = SimpleNamespace(sc=lambda: self)
        context = SimpleNamespace(master=self.master(), _jsc=java)
        spark: Any = SimpleNamespace(_jvm=None, sparkContext=context, _jsparkSession=session)
        return ClusterExecutors(spark)


def test_executors_are_waited_for_when_a_session_is_new_and_not_when_they_were_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, slept = Cluster(dynamic=False), 0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1
        cluster.there.append(str(slept))

    monkeypatch.setattr("penstock.engines.spark.changes.executors.time.sleep", sleep)
    assert cluster.executors().ready() == 6
    assert slept == 6
    cluster.there = cluster.there[:2]  # four were given back, and another run begins
    assert cluster.executors().ready() == 2
    assert slept == 6
    cluster.there = []  # but without any nothing can begin
    assert cluster.executors().ready() == 1
    assert slept == 7


def test_under_dynamic_allocation_only_the_first_executors_are_waited_for() -> None:
    assert Cluster("0", minExecutors=1).executors().ready() == 1
    assert Cluster("0", "1", minExecutors=1, initialExecutors=2).executors().ready() == 2


def test_no_executor_is_waited_for_where_the_first_task_brings_it() -> None:
    assert Cluster().executors().ready() == 1


def test_executors_that_spark_decides_on_are_refused_and_instances_are_not() -> None:
    cluster = Cluster("0", minExecutors=1)
    executors = cluster.executors()
    with pytest.raises(Refused, match="dynamic allocation decides"):
        executors.check(2, now=1)
    cluster.there = ["0", "1", "2"]  # some have come since the plan was looked at
    executors.check(1, now=1)


def test_a_plan_has_the_executors_that_spark_has() -> None:
    cluster = Cluster("0", "1", "2", minExecutors=1)
    engine = running(cluster)
    engine.observe()
    assert engine.plan.executors == 3
    cluster.there = ["1"]  # two had nothing to do
    engine.observe()
    assert engine.plan.executors == 1
    assert engine.failure is None


def running(cluster: Cluster) -> SparkEngine:
    """An engine with nothing in it but its executors."""
    engine: Any = SparkEngine()
    flow: Any = object.__new__(RunningFlow)
    flow.executors, flow.lock, flow.limits = cluster.executors(), RLock(), {"a": 0}
    flow.wiring = Wiring(1, Plan((Pipeline(("a",)),)), {})
    flow.transitions, flow.window, flow._began = TransitionLog(), 5.0, 0.0
    flow.supervisor = SimpleNamespace(raise_failure=lambda: None, failure=None)
    flow.gauges = SimpleNamespace(snapshot=lambda at, plan, **how: None)
    engine._state, engine.flow = "running", flow
    found: SparkEngine = engine
    return found
