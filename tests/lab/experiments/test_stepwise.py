"""Stepwise profiling's experiments at a small size, and how their numbers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.fusion import finest_plan
from penstock.plan.limits import Limits
from penstock.policies.base.policy import Context
from penstock.policies.shared import scaling
from penstock.policies.shared.rates import NotMeasured
from penstock.predict import stress_load
from penstock.testing import MemoryEngine, fake_clock
from penstock_lab.experiments.experiment import Case, Data, Experiment, Record, Setting
from penstock_lab.experiments.stepwise import chain_spark as stepwise_spark
from penstock_lab.experiments.stepwise import climb as climbs
from penstock_lab.experiments.stepwise import common as stepwise
from penstock_lab.experiments.stepwise import storm as storm
from penstock_lab.experiments.stepwise.climb import Attempts, Climb, Rival
from penstock_lab.experiments.stepwise.contest import (
    BestUnderStress,
    Contest,
    filling,
    most_of,
    turned,
)
from penstock_lab.experiments.stepwise.figure_11 import FIGURE_11
from penstock_lab.experiments.stepwise.figure_12 import FIGURE_12
from penstock_lab.experiments.stepwise.figure_13 import FIGURE_13, needed, saved
from penstock_lab.experiments.stepwise.figure_14 import FIGURE_14
from penstock_lab.experiments.table import tabulate
from penstock_lab.experiments.verdict import AGREES, DIFFERS, DIRECTION, GIVEN

EVERY = (FIGURE_11, FIGURE_12, FIGURE_13, FIGURE_14)


def climbed(way: str, scratch: Path, **options: Any) -> list[Record]:
    small = {"nodes": 6, "rounds": 3, "turn": 0.5, "settle": 3.0, "observations": 5}
    return [*Climb("linear", way, **{**small, **options})(Setting(1, scratch))]


def sizes(found: list[Record]) -> list[list[int]]:
    return [r["instances"] for r in found if r["kind"] == "round"]


def test_the_linear_topology_climbs_as_the_seed_says(tmp_path: Path) -> None:
    found = climbed("stepwise", tmp_path)
    assert found[0] == {"kind": "found", "instances": {"op-1": 1, "op-2": 1, "op-3": 1}}
    assert sizes(found)[:4] == [[1, 1, 1, 1], [1, 2, 2, 2], [1, 3, 3, 3], [1, 2, 2, 2]]
    first, second, third, fourth = [r["throughput"] for r in found[1:5]]
    assert first == pytest.approx(1000, rel=0.05)
    assert second == pytest.approx(1900, rel=0.1)
    assert third < 0.9 * second
    assert fourth > 0.85 * second
    assert [r["latency"] > 1 for r in found[1:5]] == [True, True, True, False]


def test_a_plan_carries_the_same_however_it_was_come_to(tmp_path: Path) -> None:
    """A rebalance places all instances anew, so that what was there before leaves no trace."""
    names = ("source", "cpu", "io", "wait-1", "wait-2", "merge")
    small, large = (dict(zip(names, n, strict=True)) for n in ((1, 3, 3, 12, 12, 3),
                                                              (2, 4, 4, 16, 16, 4)))  # fmt: skip
    app, carried = storm.app("diamond"), []
    for first in (small, large):
        engine = app.engine(6, 1, 5.0)
        plan = stress_load.first_plan(app.graph, 6)
        engine.start(app.graph, scaling.with_instances(plan, first), tmp_path / str(len(carried)))
        engine.advance(5.0)
        engine.apply(scaling.with_instances(plan, large))
        engine.advance(15.0)
        carried.append(engine.observe().throughput)
        engine.stop()
    assert carried[0] == pytest.approx(carried[1], rel=0.05)
    assert carried[0] == pytest.approx(16 / 5.05e-3, rel=0.05)  # as many as those that wait stand


def test_others_climb_by_their_own_rules(tmp_path: Path) -> None:
    threshold = sizes(climbed("threshold", tmp_path / "1"))
    assert [sum(b) - sum(a) for a, b in pairwise(threshold)] == [1, 1]
    stela = sizes(climbed("Stela", tmp_path / "2"))
    assert [sum(b) - sum(a) for a, b in pairwise(stela)] == [6, 6]
    static = climbed("static", tmp_path / "3", plan={"op-1": 2, "op-2": 2, "op-3": 2})
    assert sizes(static) == [[1, 2, 2, 2]]
    assert static[0]["final"]


def test_kinds_of_operators_are_neighbours_or_take_turns() -> None:
    assert [storm.mixed(n) for n in (6, 8)] == ["linear:cciiw", "linear:ccciiww"]
    assert storm.mixed(8, turns=True) == "linear:ciwciwc"


@pytest.mark.parametrize("name", ["linear", "diamond", "star", "WC", "SWC", "TSA", "linear:ciw"])
def test_applications_name_the_cost_of_every_operator(name: str) -> None:
    app = storm.app(name)
    sinks = {o.name for o in app.graph.sinks}
    assert {o.name for o in app.graph.operators} - sinks == set(app.steps)
    assert finest_plan(app.graph).slots == len(finest_plan(app.graph).pipelines)
    assert {c.latency for c in app.within(0.3).graph.constraints} == {0.3}


def test_an_application_that_is_not_there_is_told() -> None:
    with pytest.raises(InvalidInput, match="no application 'WD'"):
        storm.app("WD")


def test_the_word_count_keeps_what_the_seed_prints_of_it() -> None:
    """Tasks as 2:2:3 in steps of 0.4, and four machines 85 % busy at 6,000 tweets a second."""
    steps = storm.app("WC").steps
    loads = [steps["parse"].service.mean, steps["split"].service.mean]
    loads.append(steps["split"].selectivity * steps["count"].service.mean)
    assert [-(-load / max(loads) // 0.4) for load in loads] == [2, 2, 3]
    busy = 6000 * (sum(loads) + steps["tweets"].service.mean * steps["tweets"].cpu) / 8
    assert busy == pytest.approx(0.85, abs=0.01)


def test_a_plan_that_fills_the_processors() -> None:
    found = filling(storm.app("WC"), 12)
    assert found == {"tweets": 3, "parse": 3, "split": 3, "count": 5}


def test_the_best_of_a_search_carries_no_less_than_its_start(tmp_path: Path) -> None:
    climb = Climb("linear", "", 6, 3, 0.5, 3.0, 5)
    start = replace(climb, way="static", plan=filling(storm.app("linear"), 24))
    (first,) = start(Setting(1, tmp_path / "start"))
    (best,) = BestUnderStress(climb, 1)(Setting(1, tmp_path / "best"))
    assert best["final"]
    assert best["throughput"] >= first["throughput"]


def test_rounds_of_others_count_as_they_were_seen(tmp_path: Path) -> None:
    """Of a plan that nothing comes near to, the round is told that another had with it."""
    names, instances = ["source", "op-1", "op-2", "op-3"], [1, 2, 2, 2]
    seen = {"kind": "round", "number": 4, "changed": "sinks", "pipelines": names, "final": False}
    known = ({**seen, "instances": instances, "throughput": 1e6},
             {**seen, "instances": [1, 1, 1, 1], "throughput": 1e3})  # fmt: skip
    (best,) = BestUnderStress(Climb("linear", "", 6, 3, 0.5, 3.0, 5), 1, known)(
        Setting(1, tmp_path)
    )
    assert (best["instances"], best["throughput"]) == (instances, 1e6)
    assert (best["number"], best["changed"], best["final"]) == (1, "start", True)


def test_the_search_begins_with_what_others_did_best_with() -> None:
    """Each plan once, however often it was seen, and no more than are asked for."""
    seen = (((1, 1), 2.0), ((1, 3), 5.0), ((1, 2), 4.0), ((1, 3), 6.0), ((2, 3), 3.0))
    known = tuple({"pipelines": ["a", "b"], "instances": [*n], "throughput": t} for n, t in seen)
    best = BestUnderStress(Climb("linear", ""), 1, known, begin=3)
    assert [*best.plans] == [{"a": 1, "b": 3}, {"a": 1, "b": 2}, {"a": 2, "b": 3}]
    assert [*BestUnderStress(Climb("linear", ""), 1).plans] == []


def test_no_way_carries_more_than_the_best_static_plan(tmp_path: Path) -> None:
    small = Climb("linear", "stepwise", 6, 40, 0.5, 3.0, 5)
    ways = {way: replace(small, way=way) for way in ("stepwise", "Stela", "threshold")}
    found = Contest(ways, "best", 2)(Setting(1, tmp_path))
    assert tuple(dict.fromkeys(r["case"] for r in found)) == (*ways, "best")
    told = Data(tuple(found))
    rounds = {way: len(stepwise.rounds(told, way)) for way in ways}
    assert rounds["Stela"] == rounds["stepwise"] >= rounds["threshold"] > 1
    most = stepwise.throughput(told, "best")
    assert all(r["throughput"] <= most for way in ways for r in stepwise.rounds(told, way))


def test_one_number_after_the_other_is_turned_until_none_helps() -> None:
    wanted = {"a": 7, "b": 3, "c": 4}
    asked: list[Mapping[str, int]] = []

    def score(found: Mapping[str, int]) -> float:
        asked.append(found)
        return -float(sum(abs(found[n] - wanted[n]) for n in wanted))

    start = {"a": 2, "b": 8, "c": 1}
    assert turned(start, {"a": None, "b": None, "c": 2}, score, lambda: True) == {**wanted, "c": 2}
    assert all(found["c"] <= 2 and min(found.values()) >= 1 for found in asked)
    asked.clear()
    assert turned(start, dict.fromkeys(start), score, lambda: len(asked) < 3) != wanted
    assert len(asked) == 3


def test_who_can_only_be_one_is_not_turned() -> None:
    most = most_of(storm.app("TSA"))
    assert most["rank-all"] == 1
    assert most["mood"] is None
    assert set(most) == set(filling(storm.app("TSA"), 8))


def test_what_only_fills_queues_is_no_throughput(tmp_path: Path) -> None:
    """Two operators of 1 ms beside many of the first: no more than one instance of it does."""
    plan = {"op-1": 6, "op-2": 6, "op-3": 1}
    (found,) = climbed("static", tmp_path, plan=plan, settle=1.0, observations=2)
    assert found["throughput"] < 1050


# --- rivals on Spark, on an engine without it ---------------------------------------------------


def rivalled(way: str, scratch: Path, slots: int = 8) -> list[Record]:
    """The chain with the same waits as on Spark; the load is more than eight slots carry."""
    cases = stepwise_spark.cases(seconds=200.0, load="900/s", most=slots, rounds=7, observations=4)
    job = next(case.job for case in cases if case.name == f"linear: {way}")
    assert isinstance(job, stepwise_spark.Rivalling)
    engine = MemoryEngine(dict.fromkeys(("step-1", "step-2", "step-3"), 0.005), rate="900/s")
    played = replace(job, engine=engine, clock=fake_clock(engine))
    return [*played(Setting(1, scratch))]


def test_rivals_climb_on_spark_within_the_slots(tmp_path: Path) -> None:
    stela, threshold, static = (rivalled(w, tmp_path / w) for w in stepwise_spark.RIVALS)
    assert [sum(s) for s in sizes(stela)] == [4, 6, 8]
    assert [sum(s) for s in sizes(threshold)] == [4, 5, 6, 7, 8]
    assert sizes(static) == [[1, 2, 2, 2]]
    assert stela[0]["throughput"] == threshold[0]["throughput"] == pytest.approx(200, rel=0.02)
    assert static[0]["throughput"] == pytest.approx(400, rel=0.02)
    assert [r["final"] for r in threshold] == [False] * 4 + [True]


def test_stepwise_on_spark_is_compared_after_as_many_rounds() -> None:
    found = replace(
        data(linear__stepwise=(2.0, 6.0), linear__Stela=(1.0, 3.0, 9.0)), engine="spark"
    )
    rows = tabulate(FIGURE_11, {"spark": found})
    cells = {r.claim.what: r.cells["spark"].value for r in rows if "spark" in r.cells}
    assert cells["chain that waits: stepwise beside Stela"] == 2.0
    assert "chain that waits: stepwise beside threshold" not in cells


def test_a_rival_waits_for_what_is_not_measured() -> None:
    flow = storm.app("linear").graph
    plan = finest_plan(flow)
    seen = Snapshot(9.0, 1.0, 0, 0, 0, 0, pipelines={"op-1": PipelineMetrics("op-1", 1)})
    context = Context(flow, plan, (seen,), 9.0, limits=Limits(slots=4))
    for grow in (climbs.stela, climbs.threshold):
        with pytest.raises(NotMeasured):
            grow(context)
        rival = Rival("some", grow, 3, 0.0, 1, {})
        decision, memory = rival.decide(context, Attempts())
        assert decision.plan is None
        assert not memory.rounds


# --- reading ------------------------------------------------------------------------------------


def data(parameters: dict[str, Any] | None = None, **cases: tuple[float, ...]) -> Data:
    """Rounds with these throughputs, the last of which is kept."""
    records = [
        {
            "case": case.replace("__", ": ").replace("_", " "),
            "kind": "round",
            "number": number,
            "throughput": value,
            "instances": [1, 2, 2, 2],
            "pipelines": ["source", "op-1", "op-2", "op-3"],
            "changed": "sinks",
            "throttle": 0.0,
            "slowed": 1.5,
            "final": number == len(values),
        }
        for case, values in cases.items()
        for number, value in enumerate(values, start=1)
    ]
    return Data(tuple(records), parameters=parameters or {})


def value(experiment: Experiment, what: str, found: Data) -> float | None:
    rows = tabulate(experiment, {"simulator": found})
    return next(r.cells["simulator"].value for r in rows if r.claim.what == what)


def test_the_seeds_own_numbers_would_agree() -> None:
    found = data(linear__stepwise=(958.6, 1876.0, 1500.0, 1876.0))
    rows = tabulate(FIGURE_11, {"simulator": found})
    linear = [r for r in rows if r.claim.what.startswith("linear") and r.claim.paper is not None]
    assert {r.cells["simulator"].verdict for r in linear} == {AGREES, GIVEN}
    assert len(linear) == 5


def test_what_the_seed_says_in_words_has_a_verdict() -> None:
    """At twice the depth rounds are not to double; a strict latency is to cost throughput."""
    rounds = {"depth_6": (1.0, 2.0, 2.0), "depth_12": (1.0, 1.0, 1.0, 1.0, 1.0, 1.5)}
    rows = {r.claim.what: r for r in tabulate(FIGURE_12, {"simulator": data(**rounds)})}
    linear = rows["rounds at depth 12 beside depth 6, which has half"]
    assert (linear.cells["simulator"].verdict, bool(linear.why)) == (DIFFERS, True)
    late = data(usual=(1.0, 4.0), **{"300_ms": (1.0, 3.0)})
    rows = {r.claim.what: r for r in tabulate(FIGURE_14, {"simulator": late})}
    strict = rows["300 ms: final throughput beside 500 ms"].cells["simulator"]
    assert (strict.value, strict.verdict) == (0.75, DIRECTION)


def test_what_single_instances_are_added_to_is_read() -> None:
    """Of several rounds it is the one that differs by an instance and is as slow at its sources."""
    kinds = (
        ("sinks", [1, 4, 4], 0.0, 2.5),
        ("throttle", [1, 4, 4], 0.1, 1.8),
        ("throttle", [1, 4, 4], 0.05, 2.1),
        ("operator b", [1, 5, 4], 0.1, 1.7),
        ("operator c", [1, 5, 5], 0.1, 1.6),
    )
    records = [
        {"case": "c", "kind": "round", "changed": changed, "instances": instances,
         "throttle": throttle, "slowed": slowed, "final": False}
        for changed, instances, throttle, slowed in kinds
    ]  # fmt: skip
    assert stepwise.slowed(Data(tuple(records)), "c") == 1.8
    kept = [{**r, "final": r["slowed"] == 2.5} for r in records[:3]]
    assert stepwise.slowed(Data(tuple(kept)), "c") == 2.5  # none is tried


def test_decisions_are_marked_in_the_pictures() -> None:
    found = data(usual=(1.0, 4.0, 3.0), k_3=(1.0, 2.0))
    records = [
        {**r, "changed": ("start", "throttle", "operator op-1")[r["number"] - 1]}
        for r in found.records
    ]
    marked = Data(tuple(records))
    assert [(m.at, m.label) for m in stepwise.marks(marked, ["usual", "k 3"])] == [
        (2.0, "slower"),
        (3.0, "usual one by one"),
    ]
    kept = stepwise.kept(marked, ["usual", "k 3"])
    assert (kept.x, kept.y) == ((3.0, 2.0), (3.0, 2.0))


def test_stepwise_is_compared_with_the_better_of_the_others() -> None:
    found = data(WC__stepwise=(2.0, 6.0), WC__Stela=(1.0, 4.0), WC__threshold=(1.0, 3.0))
    assert value(FIGURE_11, "WC: stepwise beside the best other", found) == 1.5
    assert value(FIGURE_11, "WC: first round beside one instance each", found) == 2.0


def test_gains_of_four_rounds_are_over_one_instance_each() -> None:
    cases = {
        f"{app}__{way}": rounds
        for app in ("WC", "SWC", "TSA")
        for way, rounds in (
            ("stepwise", (2.0, 3.0, 4.0, 5.0, 9.0)),
            ("Stela", (1.0, 2.0, 3.0, 2.0, 9.0)),
            ("threshold", (1.0, 1.5, 1.5, 1.5, 9.0)),
        )
    }
    found = data(**cases)
    assert value(FIGURE_11, "gain of the first four rounds beside Stela's", found) == 2.0
    assert value(FIGURE_11, "gain of the first four rounds beside the threshold's", found) == 8.0


def test_machines_for_a_target_are_the_fewest_that_carry_it() -> None:
    carried = {"stepwise": (3000.0, 6500.0, 11000.0), "Stela": (2500.0, 4000.0, 6200.0)}
    nodes = (2, 4, 8)
    cases = {
        f"{way}_on_{n}": (found,)
        for way, each in carried.items()
        for n, found in zip(nodes, each, strict=True)
    }
    found = data({"nodes": [2, 4, 8]}, **cases)
    assert (needed(found, "stepwise", 6000), needed(found, "Stela", 6000)) == (4, 8)
    assert needed(found, "Stela", 7000) is None
    assert saved(found, 6000) == 0.5
    assert value(FIGURE_13, "most machines saved against Stela", found) == 0.5


def told(case: Case) -> tuple[str, ...]:
    """The cases whose records a job gives."""
    return case.job.names if isinstance(case.job, Contest) else (case.name,)


@pytest.mark.parametrize("experiment", EVERY, ids=lambda e: e.name)
def test_cases_follow_from_the_parameters_and_name_what_claims_read(experiment: Experiment) -> None:
    for quick in (True, False):
        made = experiment.made("simulator", experiment.parameters("simulator", quick))
        names = [name for case in made for name in told(case)]
        assert len(set(names)) == len(names) > 2
    cases = {name.replace(": ", "__").replace(" ", "_"): (1.0, 2.0) for name in names}
    parameters = experiment.parameters("simulator", False)
    rows = tabulate(experiment, {"simulator": data(parameters, **cases)})
    told_of = [(r.claim.what, r.cells["simulator"]) for r in rows if r.claim.only != "spark"]
    skipped = [what for what, cell in told_of if cell.value is None]
    unreadable = ("star: instances", "machines for 6,000", "most machines saved")
    assert all(what.startswith(unreadable) for what in skipped)
    assert experiment.picture(data(parameters, **cases)).panels
