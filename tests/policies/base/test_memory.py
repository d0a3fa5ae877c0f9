"""Policy memory: stored as JSON, and a run that goes on with what was stored decides the same."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import policies
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.policies.base import registry
from penstock.policies.base.memory import UnreadableMemory, dump_memory, load_memory
from penstock.policies.base.policy import Context, Policy
from penstock.policies.baselines.static import Static
from penstock.policies.baselines.threshold import Threshold, ThresholdMemory
from penstock.policies.es_stream.commit_interval import BackupMemory, Interval, WithBackup
from tests.policies import dags
from tests.policies.closed import DIAMOND, Loop
from tests.policies.joker.adapting import COSTS, word_count
from tests.policies.plant import Plant
from tests.policies.queues import Flow as Queues
from tests.policies.queues import chain
from tests.policies.test_laws import Flow, context
from tests.strategies import few

SETTINGS = {
    "drs": ("drs", "drs:budget=true"),
    "ds2": ("ds2:activation=3",),
    "es-stream": ("es-stream", "es-stream:backup_least=0.1,backup_most=5"),
    "least-link-load": ("least-link-load:calm=0",),
    "organic": ("organic:profile=20,settle=0,calm=1", "organic:profile=20,replicas=region"),
    "round-robin": ("round-robin:calm=0",),
    "stela": ("stela:automatic=true,by=gain", "stela:automatic=true,by=round-robin"),
    "stepwise": ("stepwise:settle=0,observations=2,most_rounds=12,patience=20",),
}
"""Options under which a policy has something to remember; the others are as usual."""

ALL = [text for name in sorted(registry._OURS) for text in SETTINGS.get(name, (name,))]


class Stored:
    """A policy whose memory is written as a text after each turn, and read before the next."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name = policy, policy.name
        self.decisions: list[Decision] = []

    def decide(self, context: Context, memory: str | None) -> tuple[Decision, str]:
        stored = None if memory is None else json.loads(memory)
        decision, after = self.policy.decide(context, load_memory(self.policy, stored))
        self.decisions.append(decision)
        return decision, json.dumps(dump_memory(self.policy, after), allow_nan=False)


class Kept(Stored):
    """The same policy with its memory as it is."""

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        decision, after = self.policy.decide(context, memory)
        self.decisions.append(decision)
        return decision, after


def in_queues(policy: Policy) -> None:
    """Queues under a load that goes up and down, with overhead, noise and a budget."""
    names = ("numbers", "a", "b", "c")
    flow = Queues(
        chain("a", "b", "c", latency=0.5),
        {"a": 0.01, "b": 0.03, "c": 0.005},
        lambda at: 60 + 50 * math.sin(at / 40),
        overhead=dict.fromkeys(names, 0.05),
        noise=0.1,
    )
    flow.run(policy, 150, Limits(slots=20, executors=6))


def in_a_plant(policy: Policy) -> None:
    """A word count under a load that goes up and down, for long enough to be profiled."""
    graph = word_count()
    plant = Plant(graph, COSTS, fusion.default_plan(graph, 1), hop=0.001, cores=16)
    plant.offered, plant.limits = lambda at: 100 + 400 * math.sin(at / 300) ** 2, Limits(slots=12)
    plant.run(policy, 1000)


def under_stress(policy: Policy) -> None:
    """More load than any plan carries."""
    graph = word_count()
    plan = fusion.default_plan(graph, 1)
    Plant(graph, COSTS, plan, hop=0.001, cores=16, limits=Limits(slots=10)).run(policy, 500)


@pytest.mark.parametrize("drive", [in_queues, in_a_plant, under_stress])
@pytest.mark.parametrize("text", ALL)
def test_stored_memory_decides_as_memory_that_is_kept(text: str, drive: Any) -> None:
    stored, kept = Stored(policies.get(text)), Kept(policies.get(text))
    drive(stored)
    drive(kept)
    assert stored.decisions == kept.decisions


@pytest.mark.parametrize("text", ALL)
def test_so_it_is_on_the_engine_in_memory(text: str, tmp_path: Path) -> None:
    graph = dags.graph(DIAMOND)
    costs = {"s": 0.001, "a": 0.02, "b": 0.04, "c": 0.03, "d": 0.01}
    stored, kept = Stored(policies.get(text)), Kept(policies.get(text))
    for policy in (stored, kept):
        plan, limits = fusion.finest_plan(graph), Limits(slots=20, executors=5)
        Loop(graph, plan, tmp_path / type(policy).__name__, costs, limits=limits).run(policy, 15)
    assert stored.decisions == kept.decisions


@few
@given(dags.flows(), st.lists(st.sampled_from((0.5, 1.0, 3.0)), min_size=2, max_size=5))
@pytest.mark.parametrize("text", ALL)
def test_so_it_is_on_random_flows_under_a_load_that_changes(
    text: str, flow: Flow, loads: list[float]
) -> None:
    found = []
    for policy in (Stored(policies.get(text)), Kept(policies.get(text))):
        memory: Any = None
        for turn, load in enumerate(loads, 1):
            _, memory = policy.decide(context(flow, 20.0 * turn, more=load), memory)
        found.append(policy.decisions)
    assert found[0] == found[1]


def test_no_memory_is_none_and_comes_back_as_none() -> None:
    assert dump_memory(Threshold(), None) is None
    assert load_memory(Threshold(), None) is None


def test_a_policy_without_a_memory_type_stores_nothing() -> None:
    assert dump_memory(Static(), 7) is None
    with pytest.raises(UnreadableMemory, match="'static' cannot read the memory of 'threshold'"):
        load_memory(Static(), dump_memory(Threshold(), ThresholdMemory()))


def test_what_is_stored_can_be_read_by_a_person() -> None:
    memory = ThresholdMemory({"count": 2})
    assert dump_memory(Threshold(), memory) == {
        "policy": "threshold",
        "memory": {
            "calm_windows": {"count": 2},
            "measured_until": {"$number": "-inf"},
            "version": 1,
        },
    }


def test_the_memory_of_a_policy_within_another_is_stored_with_it() -> None:
    policy = WithBackup(Threshold(), Interval(0.1, 5.0))
    memory = BackupMemory(ThresholdMemory({"count": 2}, 30.0), 12.5)
    assert load_memory(policy, dump_memory(policy, memory)) == memory
    alone = WithBackup(Static(), Interval(0.1, 5.0))
    assert load_memory(alone, dump_memory(alone, BackupMemory(None, 1.0))) == BackupMemory(
        None, 1.0
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "not an object with 'policy' and 'memory'"),
        ({"policy": "threshold"}, "not an object with 'policy' and 'memory'"),
        ({"policy": "ds2", "memory": {}}, "'threshold' cannot read the memory of 'ds2'"),
        ({"policy": "threshold", "memory": {"version": 2}}, r"does not fit.*\$.version"),
        ({"policy": "threshold", "memory": {"calm_windows": 3}}, r"Expected `object`, got `int`"),
        ({"policy": "threshold", "memory": {"calm_windows": {"a": "x"}}}, "Expected `int`"),
        ({"policy": "threshold", "memory": None}, "does not fit"),
    ],
)
def test_memory_of_another_shape_is_refused_in_words(data: Any, why: str) -> None:
    with pytest.raises(UnreadableMemory, match=why):
        load_memory(Threshold(), data)


def test_what_cannot_be_stored_is_a_mistake_of_the_policy() -> None:
    with pytest.raises(TypeError, match="cannot hold a object"):
        dump_memory(Threshold(), ThresholdMemory({"a": object()}))  # type: ignore[dict-item]


@pytest.mark.parametrize("name", sorted({*registry._OURS} - {"static"}))
def test_every_policy_but_the_one_that_remembers_nothing_has_a_memory_type(name: str) -> None:
    kind = getattr(policies.get(name), "memory_type", None)
    assert kind is not None
    assert "version" in kind.__dataclass_fields__
