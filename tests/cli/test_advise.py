"""`penstock advise --snapshot`: the papers' worked examples as cases by hand, and bad cases."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

Case = dict[str, Any]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(penstock: Run, tmp_path: Path) -> Ask:
    """Put a case to a policy; the answer."""

    def asked(case: Case, policy: str, *settings: str) -> dict[str, Any]:
        file = tmp_path / "case.json"
        file.write_text(json.dumps(case))
        words = [word for setting in settings for word in ("--set", setting)]
        code, out, err = penstock(
            "advise", "--snapshot", str(file), "--policy", policy, *words, "--json"
        )
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    return asked


def sizes(answer: Mapping[str, Any]) -> dict[str, int]:
    return {p["operators"][0]: p["parallelism"] for p in answer["plan"]["pipelines"]}


def flow(*operators: tuple[str, tuple[str, ...], str], **more: Any) -> dict[str, Any]:
    made = [{"name": n, "inputs": list(inputs), "state": state} for n, inputs, state in operators]
    keyed = [one | {"keys": ["key"]} if one["state"] == "keyed" else one for one in made]
    return {"name": "example", "operators": keyed, **more}


# --- the papers ---------------------------------------------------------------------------------


def figure_2(bounded: str) -> Case:
    """Stela's figure 2: 1, 3, 4 and 6 are congested, and the sinks deliver 4,500 rows a second."""
    readers = {"2": "1", "3": "1", "4": "2", "5": "3", "6": "3", "7": "5", "8": "5"}
    readers |= {"9": "6", "10": "6"}
    sinks = ("4", "7", "8", "9", "10")
    states = {n: "sink" if n in sinks else "stateless" for n in readers}
    dataflow = flow(("1", (), "source"), *((n, (up,), states[n]) for n, up in readers.items()))
    for one in dataflow["operators"]:
        if one["name"] in bounded:
            one["bounds"] = {"least": 1, "most": 1}
    rates = {
        **{"1": (6000, 4000, 4000), "2": (4000, 4000, 4000), "3": (4000, 2000, 2000)},
        **{"4": (4000, 2000, 2000), "5": (2000, 2000, 1000), "6": (2000, 500, 250)},
        **{"7": (1000, 1000, 1000), "8": (1000, 1000, 1000)},
        **{"9": (250, 250, 250), "10": (250, 250, 250)},
    }
    seen = {
        n: {"arrival_rate": come, "rate_in": done, "rate_out": out}
        for n, (come, done, out) in rates.items()
    }
    return {
        "dataflow": dataflow,
        "plan": {"pipelines": [{"operators": [n]} for n in rates]},
        "snapshots": [{"at": 10, "window": 10, "pipelines": seen}],
    }


@pytest.mark.parametrize(
    ("bounded", "chosen", "share"),
    [("", "3", 2000 / 4500), ("3", "4", 2000 / 4500), ("34", "6", 500 / 4500), ("346", "1", 0.0)],
)
def test_stela_gives_to_3_4_6_1_in_this_order(
    ask: Ask, bounded: str, chosen: str, share: float
) -> None:
    answer = ask(figure_2(bounded), "stela", "automatic=true", "congested=1")
    assert answer["changes"] == [f"{chosen}: parallelism 1 -> 2"]
    assert answer["numbers"][f"{chosen}.etp"] == pytest.approx(share)


def region(*costs: float) -> Case:
    """A region of operators that take these shares of the time of its only instance."""
    names = [f"o{at}" for at in range(1, len(costs) + 1)]
    chain = [("o1", ("rows",), "keyed")]
    chain += [(n, (up,), "stateless") for up, n in pairwise(names)]
    busy = {"rate_in": 100, "arrival_rate": 150, "busy": 1.0}
    return {
        "dataflow": flow(("rows", (), "source"), *chain, ("out", (names[-1],), "sink")),
        "plan": {"pipelines": [{"operators": ["rows"]}, {"operators": [*names, "out"]}]},
        "snapshots": [
            {
                "at": 40,
                "window": 30,
                "pipelines": {
                    "rows": {"rate_in": 150, "arrival_rate": 150, "busy": 0.1, "backlog_rows": 0},
                    "o1": {**busy, "backlog_rows": 5000, "backlog_seconds": 50},
                },
                "operators": {n: {"busy": cost} for n, cost in zip(names, costs, strict=True)},
            }
        ],
    }


@pytest.mark.parametrize(
    ("costs", "threshold", "gain", "change"),
    [
        ((0.2, 0.1, 0.4), 0.2, 1 / 0.7 - 1, "split o1+o2+o3+out into o1+o2 | o3+out"),
        ((0.75, 0.10), 0.2, 1 / 0.9 - 1, "o1: parallelism 1 -> 2"),
        ((0.75, 0.10), 0.1, 1 / 0.9 - 1, "split o1+o2+out into o1 | o2+out"),
        ((0.45, 0.40), 0.2, 1 / 0.6 - 1, "split o1+o2+out into o1 | o2+out"),
        ((0.45, 0.40), 0.9, 1 / 0.6 - 1, "o1: parallelism 1 -> 2"),
    ],
)
def test_joker_splits_where_that_promises_enough(
    ask: Ask, costs: tuple[float, ...], threshold: float, gain: float, change: str
) -> None:
    answer = ask(region(*costs), "organic", f"split_utility={threshold}")
    assert answer["changes"] == [change]
    assert answer["numbers"]["o1.split_gain"] == pytest.approx(gain)


def word_count(windows: int) -> Case:
    """Tweets of which the splitter makes twelve words each."""
    seen = {
        n: {"arrival_rate": come, "rate_in": come, "rate_out": out, "service": service}
        for n, come, out, service in (
            ("kestrel", 100, 100, 0.0001),
            ("parse", 100, 100, 0.006),
            ("split", 100, 1200, 0.007),
            ("count", 1200, 1200, 0.001),
        )
    }
    return {
        "dataflow": flow(
            ("kestrel", (), "source"),
            ("parse", ("kestrel",), "stateless"),
            ("split", ("parse",), "stateless"),
            ("count", ("split",), "keyed"),
            ("out", ("count",), "sink"),
        ),
        "plan": {
            "pipelines": [
                *({"operators": [n]} for n in ("kestrel", "parse", "split")),
                {"operators": ["count", "out"]},
            ]
        },
        "snapshots": [
            {"at": 5 * at, "window": 5, "pipelines": seen} for at in range(1, windows + 1)
        ],
    }


def test_the_word_count_is_profiled_as_2_2_3(ask: Ask) -> None:
    answer = ask(word_count(20), "stepwise", "slice=0.4")
    assert sizes(answer) == {"kestrel": 1, "parse": 2, "split": 2, "count": 3}
    assert sizes(ask(word_count(20), "stepwise"))["count"] == 2  # 2, 2, 4 at 0.3 have a divisor
    assert ask(word_count(19), "stepwise")["plan"] is None


def queues(bound: float, *found: tuple[int, float, float, float]) -> Case:
    """Instances, load, wait and work of each queue between a source and a sink."""
    names = [f"v{at}" for at in range(len(found))]
    chain = [(n, (up,), "stateless") for up, n in zip(["rows", *names], names, strict=False)]
    idle = {"arrival_rate": 100, "rate_in": 100, "rate_out": 100, "backlog_rows": 0}
    idle |= {"service": 0, "wait": 0, "batch_seconds": 0}
    seen = {
        n: idle | {"service": load / 100, "wait": wait, "batch_seconds": task}
        for n, (_, load, wait, task) in zip(names, found, strict=True)
    }
    return {
        "dataflow": flow(
            ("rows", (), "source"),
            *chain,
            ("out", (names[-1],), "sink"),
            constraints=[{"first": "rows", "last": "out", "latency": bound}],
        ),
        "plan": {
            "pipelines": [
                {"operators": ["rows"]},
                *(
                    {"operators": [n], "parallelism": one[0]}
                    for n, one in zip(names, found, strict=True)
                ),
                {"operators": ["out"]},
            ]
        },
        "snapshots": [{"at": 10, "window": 5, "pipelines": {"rows": idle, "out": idle, **seen}}],
    }


AS_PRINTED = ("tolerance=0", "rho_max=1", "rho_target=1", "cadence_share=0")
"""The latency policy without what was added to the paper."""


@pytest.mark.parametrize(
    ("instances", "load", "wait", "allowed"),
    [(4, 2.0, 0.3, 0.16), (10, 5.5, 0.2, 0.05), (3, 2.0, 1.0, 0.5), (3, 1.0, 0.5, 0.25)],
)
def test_nephele_takes_the_instances_of_its_p_w(
    ask: Ask, instances: int, load: float, wait: float, allowed: float
) -> None:
    answer = ask(queues(5 * allowed, (instances, load, wait, 0)), "latency", *AS_PRINTED)
    fewest = next(
        p
        for p in range(math.floor(load) + 1, 1000)
        if wait * (instances - load) / (p - load) <= allowed * (1 + 1e-12)
    )
    assert sizes(answer)["v0"] == fewest


def test_nephele_does_not_overshoot_as_its_rebalance_would(ask: Ask) -> None:
    case = queues(50.5, (1, 1e-9, 100, 0), (1, 1e-9, 0.0001, 0))  # printed, it takes 1,414 and 1
    answer = ask(case, "latency", *AS_PRINTED)
    assert (sizes(answer)["v0"], sizes(answer)["v1"]) == (10, 1)


@pytest.mark.parametrize(("load", "wanted"), [(4.0, 8), (3.99, 8), (9.0, 18)])
def test_nephele_doubles_a_bottleneck(ask: Ask, load: float, wanted: int) -> None:
    answer = ask(queues(1000, (4, load, 1.0, 0)), "latency", "cadence_share=0")
    assert sizes(answer)["v0"] == wanted


def nodes(*loads: float, instances: int) -> Case:
    """A queue on executors of which each is so busy."""
    seen = {"arrival_rate": 190, "rate_in": 190, "rate_out": 190, "backlog_rows": 0}
    each = instances // len(loads)
    return {
        "dataflow": flow(
            ("rows", (), "source"), ("work", ("rows",), "stateless"), ("out", ("work",), "sink")
        ),
        "plan": {
            "executors": len(loads),
            "pipelines": [
                {"operators": ["rows"]},
                {"operators": ["work", "out"], "parallelism": instances},
            ],
        },
        "snapshots": [
            {
                "at": 20,
                "window": 20,
                "pipelines": {"rows": seen | {"service": 0}, "work": seen | {"service": 0.01}},
                "executors": {
                    str(at): {"slots": 4, "cpu": busy, "instances": {"work": each}}
                    for at, busy in enumerate(loads)
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("loads", "instances", "executors"),
    [
        ((0.8, 0.8), 2, 3),  # evenly loaded, and much: new instances go to new executors
        ((0.2, 0.2), 2, 2),  # little: they go to those there are
        ((0.2, 0.2, 0.2, 0.2), 4, 2),  # nothing new, and little: executors are given back
        ((0.5, 0.5), 4, 2),  # neither
    ],
)
def test_es_stream_has_executors_by_load_and_skewness(
    ask: Ask, loads: tuple[float, ...], instances: int, executors: int
) -> None:
    answer = ask(nodes(*loads, instances=instances), "es-stream")
    plan = answer["plan"] or {"executors": len(loads)}
    assert plan["executors"] == executors


# --- bad cases ----------------------------------------------------------------------------------


def changed(path: str, value: Any) -> Case:
    case = word_count(1)
    *way, last = path.split(".")
    inside: Any = case
    for step in way:
        inside = inside[int(step)] if isinstance(inside, list) else inside[step]
    inside[last] = value
    return case


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "snapshots.0.pipelines.words",
            {"rate_in": 1},
            "snapshots[0].pipelines: the snapshots are of another dataflow: "
            "'words' is no operator of 'example'",
        ),
        (
            "snapshots.0.pipelines.count.service",
            1e300,
            "snapshots[0].pipelines.count.service: 1e+300 is more than anything that can be "
            "measured",
        ),
        (
            "dataflow.operators.1.bounds",
            {"least": 5, "most": 2},
            "dataflow.operators[1].bounds: least 5 is above most 2",
        ),
    ],
)
def test_a_case_that_cannot_be_is_told_in_one_line(
    penstock: Run, tmp_path: Path, path: str, value: Any, said: str
) -> None:
    file = tmp_path / "case.json"
    file.write_text(json.dumps(changed(path, value)))
    code, out, err = penstock("advise", "--snapshot", str(file), "--policy", "ds2")
    assert (code, out) == (2, "")
    assert err == f"penstock: the case '{file}': {said}\n"


def test_more_brackets_than_anybody_writes_are_told_in_one_line(
    penstock: Run, tmp_path: Path
) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 200_000)
    code, _, err = penstock("advise", "--snapshot", str(file), "--policy", "ds2")
    assert (code, err) == (2, f"penstock: the case '{file}' is nested too deeply to be one\n")
    code, _, err = penstock("simulate", "linear", "--plan", str(file))
    assert (code, err) == (2, f"penstock: the plan file '{file}' is not JSON we can read\n")


@pytest.mark.parametrize("policy", ["drs", "es-stream", "ds2", "threshold", "organic"])
def test_more_instances_than_there_are_machines_do_not_stop_anybody(ask: Ask, policy: str) -> None:
    case = word_count(3)
    case["plan"]["pipelines"][3]["parallelism"] = 10**12
    assert ask(case, policy)["error"] is None
