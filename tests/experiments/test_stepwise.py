"""Stepwise profiling's experiments at a small size, and how their numbers are read."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidInput
from penstock.experiments import storm
from penstock.experiments.climb import Climb
from penstock.experiments.experiment import Data, Experiment, Record, Setting
from penstock.experiments.stepwise_11 import FIGURE_11
from penstock.experiments.stepwise_12 import FIGURE_12
from penstock.experiments.stepwise_13 import FIGURE_13, needed, saved
from penstock.experiments.stepwise_14 import FIGURE_14
from penstock.experiments.stepwise_static import Best, filling
from penstock.experiments.table import AGREES, tabulate
from penstock.plan.fusion import finest_plan

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


def test_others_climb_by_their_own_rules(tmp_path: Path) -> None:
    threshold = sizes(climbed("threshold", tmp_path / "1"))
    assert [sum(b) - sum(a) for a, b in pairwise(threshold)] == [1, 1]
    stela = sizes(climbed("Stela", tmp_path / "2"))
    assert [sum(b) - sum(a) for a, b in pairwise(stela)] == [6, 6]
    static = climbed("static", tmp_path / "3", plan={"op-1": 2, "op-2": 2, "op-3": 2})
    assert sizes(static) == [[1, 2, 2, 2]]
    assert static[0]["final"]


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
    (best,) = Best(climb, 4)(Setting(1, tmp_path / "best"))
    assert best["final"]
    assert best["throughput"] >= first["throughput"]


def test_what_only_fills_queues_is_no_throughput(tmp_path: Path) -> None:
    """Two operators of 1 ms beside many of the first: no more than one instance of it does."""
    plan = {"op-1": 6, "op-2": 6, "op-3": 1}
    (found,) = climbed("static", tmp_path, plan=plan, settle=1.0, observations=2)
    assert found["throughput"] < 1050


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
    linear = [r for r in rows if r.claim.what.startswith("linear") and r.claim.seed is not None]
    assert {r.cells["simulator"].verdict for r in linear} == {AGREES}
    assert len(linear) == 4


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
    assert value(FIGURE_11, "gain of four rounds beside Stela's", found) == 2.0
    assert value(FIGURE_11, "gain of four rounds beside threshold's", found) == 8.0


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


@pytest.mark.parametrize("experiment", EVERY, ids=lambda e: e.name)
def test_cases_follow_from_the_parameters_and_name_what_claims_read(experiment: Experiment) -> None:
    for quick in (True, False):
        made = experiment.made("simulator", experiment.parameters("simulator", quick))
        assert len({case.name for case in made}) == len(made) > 2
    cases = {case.name.replace(": ", "__").replace(" ", "_"): (1.0, 2.0) for case in made}
    parameters = experiment.parameters("simulator", False)
    rows = tabulate(experiment, {"simulator": data(parameters, **cases)})
    skipped = [r.claim.what for r in rows if r.cells["simulator"].value is None]
    unreadable = ("star: instances", "machines for 6,000", "most machines saved")
    assert all(what.startswith(unreadable) for what in skipped)
    assert experiment.picture(data(parameters, **cases)).panels
