"""Executors that go on Spark: who goes, where state is before, and what is read off the records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.control.status import Status
from penstock.metrics.snapshot import ExecutorMetrics, PipelineMetrics, Snapshot
from penstock.policies.base.policy import Context
from penstock.policies.stela import policy
from penstock.store.turn import Tick
from penstock_lab import experiments
from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.play import Watch
from penstock_lab.experiments.stela import scale_in_spark as removal_spark
from penstock_lab.experiments.stela.scale_in_spark import SCORE, TAG, Removal, Usher
from penstock_lab.experiments.table import tabulate
from tests.lab.experiments.test_on_spark import data, seconds, tick, value

SIZE = experiments.get("stela-8").spark_size
HELD = {"0": {SCORE: 2}, "1": {SCORE: 2}, "2": {TAG: 2}, "3": {TAG: 1}}


# --- who goes -----------------------------------------------------------------------------------


def context() -> Context:
    """Four executors at work: rows pile up before the score."""
    play = Removal("stela", 0.0, 10.0, 65).play(1)
    assert play.plan is not None
    rates = {"views": (65.0, 65.0, 0.001), TAG: (65.0, 65.0, 0.01), SCORE: (65.0, 50.0, 0.08)}
    seen = {
        name: PipelineMetrics(
            name,
            play.plan.pipeline_of(name).parallelism,
            rate_in=done,
            rate_out=done,
            arrival_rate=came,
            service=service,
        )
        for name, (came, done, service) in rates.items()
    }
    ran: dict[str, dict[str, int]] = {**HELD, "0": {SCORE: 2, "views": 1}}
    snapshot = Snapshot(
        30.0,
        5.0,
        0,
        0,
        0,
        0,
        pipelines=seen,
        source_pipelines=frozenset({"views"}),
        executors={n: ExecutorMetrics(n, 4, instances=some) for n, some in ran.items()},
    )
    return Context(play.build(Path()).graph, play.plan, (snapshot,), 30.0)


def test_stela_lets_those_go_that_only_feed_what_is_congested() -> None:
    seen = context()
    decision = policy.scale_in(seen, removal_spark.GONE)
    assert decision.plan is not None
    assert set(decision.plan.leaving) == {"2", "3"}
    assert decision.plan.pipelines == seen.plan.pipelines  # all find a slot on the others
    assert [decision.numbers[f"{n}.etp_sum"] for n in range(4)] == [2, 2, 0, 0]


def test_random_groups_are_different_ones_that_the_seed_chooses() -> None:
    seen = context()
    for seed in range(5):
        groups = removal_spark.drawn(seed)
        assert len(set(groups)) == len(groups) == 6
    assert len({tuple(removal_spark.drawn(seed)) for seed in range(20)}) > 10
    decision = removal_spark.without(seen, (1, 2))
    assert decision.plan is not None
    assert (decision.plan.executors, decision.plan.leaving) == (2, ("1", "2"))
    blind = replace(seen, snapshots=(replace(seen.snapshots[0], executors={}),))
    assert removal_spark.without(blind, (1, 2)).plan is None
    assert removal_spark.without(replace(seen, snapshots=()), (1, 2)).plan is None


def test_all_instances_have_a_slot_on_the_executors_that_stay() -> None:
    play = Removal("best static", **SIZE_OF_ONE).play(1)
    assert play.master == "local-cluster[2,4,1024]"
    assert play.plan is not None
    assert play.plan.executors == 2
    assert play.plan.slots == 2 * removal_spark.CORES
    whole = Removal("random, 2", **SIZE_OF_ONE).play(1)
    assert whole.plan is not None
    assert whole.plan.pipelines == play.plan.pipelines
    assert whole.master == "local-cluster[4,4,1024]"
    # parts of state stay where they are only if each has an instance
    assert {p.name: p.ceiling for p in whole.plan.pipelines if p.ceiling} == {TAG: 3, SCORE: 4}


SIZE_OF_ONE: dict[str, Any] = {n: SIZE[n] for n in ("at", "seconds", "rate")}


# --- where state is -----------------------------------------------------------------------------


class Engine:
    """Has parts of state on executors, and moves them when it is told to."""

    def __init__(self, held: Mapping[str, Mapping[int, str | None]]) -> None:
        self.flow, self.executors, self.observer = self, self, self
        self.outputs: dict[str, list[float]] = {}
        self.held = {name: dict(parts) for name, parts in held.items()}
        self.pipelines = {name: Part(self, name) for name in held}
        self.moved = 0

    def ids(self) -> tuple[str, ...]:
        return ("4", "5", "6", "7")

    def wait(self, condition: Any) -> None:
        assert condition()


class Part:
    """A pipeline that is between two batches when it is closed."""

    foreign = ()

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name, self.quiet = engine, name, False

    def placement(self, executors: Any) -> dict[int, str | None]:
        return dict(self.engine.held[self.name])

    def turn(self, open: bool) -> None:
        self.quiet = not open

    def place(self, executors: Any, where: Mapping[int, str]) -> None:
        assert self.quiet, "a batch is under way"
        self.engine.moved += len(where)
        self.engine.held[self.name].update(where)


def _status(at: float, held: Mapping[str, Mapping[str, int]], phase: str = "running") -> Status:
    seen = context()
    executors = {n: ExecutorMetrics(n, 4, state_parts=parts) for n, parts in held.items()}
    snapshot = replace(seen.snapshots[0], executors=executors)
    turn = Tick(at, seen.plan, snapshot)
    return Status(seen.graph, "spark", "stela", phase, at, 80.0, Path(), seen.plan, turn)


def test_each_executor_is_given_state_of_one_component_once_there_is_some() -> None:
    score: dict[int, str | None] = {0: None, 1: "4", 2: "4", 3: "7"}
    engine = Engine({SCORE: score, TAG: {0: "6", 1: "4", 2: "5"}})
    usher = Usher(engine, Watch(), removal_spark.SEATS)  # type: ignore[arg-type]
    usher.show(_status(1.0, {}, "starting"))
    usher.show(_status(1.0, {}))
    assert engine.held[TAG] == {0: "6", 1: "7", 2: "6"}
    assert engine.held[SCORE] == score, "no batch has put it anywhere yet"
    engine.held[SCORE][0] = "5"
    usher.show(_status(2.0, {}))
    assert Counter(engine.held[SCORE].values()) == {"4": 2, "5": 2}
    assert not any(p.quiet for p in engine.pipelines.values())
    moved = engine.moved
    engine.held[SCORE][0] = "6"
    usher.show(_status(3.0, {}))
    assert engine.moved == moved, "what comes later is for the engine to decide"


def test_outputs_are_kept_once_and_who_holds_state_when_that_changes() -> None:
    engine, watch = Engine({}), Watch()
    usher = Usher(engine, watch, {})  # type: ignore[arg-type]
    now = time.time()
    engine.outputs["score-end"] = [now - 3.0, now - 1.0]
    usher.show(_status(10.0, HELD))
    engine.outputs["score-end"].append(now - 0.5)
    usher.show(_status(10.0, HELD))
    usher.show(_status(11.0, {"0": {SCORE: 4}}))
    came = [r["at"] for r in watch.records if r["kind"] == "output"]
    assert came == pytest.approx([7.0, 9.0, 9.5], abs=0.2)
    held = [(r["at"], len(r["by"])) for r in watch.records if r["kind"] == "held"]
    assert held == [(10.0, 4), (11.0, 1)]


# --- reading ------------------------------------------------------------------------------------


def _case(
    gone: str, rate: float, pause: float, lost: int = 0, changed: bool = True
) -> list[Record]:
    """50 rows a second in batches of 2 s; from the request at 36 s on a pause, then a rate."""

    def of(at: int) -> Record:
        after = max(0.0, at - 36 - pause)
        delivered = 50 * min(at, 36) + int(rate * after)
        now = rate if at > 36 else 50.0
        return tick(at, {"views": (1, 65.0), TAG: (3, 65.0), SCORE: (4, now)}, delivered=delivered)

    outputs = [*range(2, 37, 2), *(36 + pause + 2 * n for n in range(20))]
    change = {"kind": "change", "at": 36.0, "seconds": 5.0, "interruption": 1.0, "reason": "",
              "actions": [f"executors 4 -> 2, without {gone}"]}  # fmt: skip
    return [
        *seconds(80, of),
        *({"kind": "output", "at": float(at)} for at in outputs),
        {"kind": "held", "at": 5.0, "by": {"0": {TAG: 3}}},
        {"kind": "held", "at": 12.0, "by": HELD},
        {"kind": "held", "at": 50.0, "by": {"0": {SCORE: 4, TAG: 3}}},
        *([change] if changed else []),
        {"kind": "summary", "rows_offered": 5000, "rows_delivered": 5000 - lost},
    ]


def _cases() -> dict[str, Sequence[Record]]:
    return {
        "stela": _case("2, 3", 50.0, 3.0),
        "random, 0": _case("0, 1", 40.0, 8.0, lost=5),
        "random, 1": _case("0, 3", 45.0, 6.0),
        "best static": _case("", 55.0, 2.0, changed=False),
    }


def test_a_removal_is_read_beside_what_was_before_it() -> None:
    found = data("stela-8", _cases())
    expected = {
        "share of the throughput that Stela keeps": 1.0,
        "share that random groups keep": 0.85,
        "Stela beside random groups": 50 / 42.5,
        "seconds without output, Stela beside random groups": 1 / 5,
        "seconds without output, random groups": (6 + 4) / 2,
        "longest pause before the request": 2.0,
        "longest pause after it, Stela": 3.0,
        "longest pause after it, random groups": 7.0,
        "share kept in the 30 s after the request, Stela": 0.9,
        "executors with state of the congested one that went, Stela": 0.0,
        "executors with state of the congested one that went, random groups": 1.5,
        "Stela beside two executors from the start": 50 / 55,
        "rows delivered of each that came": 0.999,
    }
    read = {what: value("stela-8", found, f"waiting components: {what}") for what in expected}
    assert {what: one for what, (one, _) in read.items()} == pytest.approx(expected)
    assert read["share that random groups keep"][1] == "weaker", "a quarter of the loss"
    assert read["Stela beside random groups"][1] == "differs", "a few rows more are chance"
    pause = read["seconds without output, Stela beside random groups"]
    assert pause[1] == "same direction"


def test_who_was_never_scaled_in_is_not_judged() -> None:
    still = _case("", 50.0, 3.0, changed=False)
    found = data("stela-8", {"stela": still, "random, 0": still})
    rows = tabulate(experiments.get("stela-8"), {"spark": found})
    told = {r.claim.what: r.cells["spark"].value for r in rows if "spark" in r.cells}
    assert told.pop("waiting components: rows delivered of each that came") == 1.0
    # what is carried in the end is there all the same
    assert told.pop("waiting components: Stela beside random groups") == 1.0
    assert set(told.values()) == {None}


def test_of_simulated_cases_spark_says_nothing_and_the_other_way_round() -> None:
    experiment = experiments.get("stela-8")
    rows = tabulate(experiment, {"spark": data("stela-8", _cases())})
    assert {r.claim.only for r in rows if r.cells} == {"spark"}
    assert {c.only for c in experiment.claims} == {"spark", "simulator"}


def test_the_picture_shows_the_request_and_what_each_group_keeps() -> None:
    drawn = experiments.get("stela-8").picture(data("stela-8", _cases()))
    time_line, shares, pauses = drawn.panels
    assert [line.label for line in time_line.lines] == ["stela", "random, 0", "random, 1"]
    assert [mark.at for mark in time_line.marks] == [SIZE["at"]]
    assert time_line.levels[0].value == 55.0
    assert shares.bars[1].values == pytest.approx((1.0, 0.8, 0.9))
    assert pauses.bars[1].values == pytest.approx((3.0, 8.0, 6.0))


def test_every_case_has_the_seed_s_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[Any] = []

    def play(self: removal_spark.Seated, setting: Setting) -> list[Record]:
        told.append(self)
        return []

    monkeypatch.setattr(removal_spark.Seated, "__call__", play)
    groups = []
    for n in range(3):
        Removal(f"random, {n}", 0.0, 10.0, 65)(Setting(4, tmp_path))
        decision, _ = told[-1].policy.decide(context(), None)
        groups.append(tuple(int(name) for name in decision.plan.leaving))
    assert groups == removal_spark.drawn(4)[:3]
    assert all(play.seats == removal_spark.SEATS for play in told)
