from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock_lab import experiments
from penstock_lab.experiments import times

from ..experiments.made_up import MADE_UP
from .conftest import Run


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "every", lambda: (MADE_UP,))


def test_experiments_are_listed(penstock: Run) -> None:
    code, out, _ = penstock("experiment", "list")
    assert (code, out) == (
        0,
        "made-up  simulator  A few testers  (Nobody, figure 0)\n"
        "Times are estimates for the full size on two cores; --quick takes less.\n",
    )
    assert json.loads(penstock("experiment", "list", "--json")[1]) == {
        "experiments": [
            {
                "name": "made-up",
                "title": "A few testers",
                "paper": "Nobody",
                "figure": "figure 0",
                "engines": ["simulator"],
                "seconds": {"simulator": None},
            }
        ]
    }


def test_the_list_says_where_and_about_how_long(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times, "SIMULATED", {"made-up": 340.0})
    monkeypatch.setattr(times, "ON_SPARK", {"made-up": 41.0})
    both = replace(MADE_UP, spark=lambda: ())
    monkeypatch.setattr(experiments, "every", lambda: (both,))
    out = penstock("experiment", "list")[1]
    assert out.startswith("made-up  simulator 6 min, Spark 2 min  A few testers  (Nobody")
    told = json.loads(penstock("experiment", "list", "--json")[1])["experiments"][0]
    assert (told["engines"], told["seconds"]) == (
        ["simulator", "spark"],
        {"simulator": 340.0, "spark": 3 * 41.0},
    )


def test_what_there_is_not_is_refused_before_anything_is_touched(
    penstock: Run, tmp_path: Path
) -> None:
    for words, why in (
        (("--seed", "-5"), "--seed -5: must not be negative"),
        (("--quick", "--engine", "spark"), "--quick is for the simulator; Spark has one size"),
    ):
        code, _, err = penstock("experiment", "made-up", *words, "--out", str(tmp_path))
        assert code == 2
        assert err.startswith(f"penstock: {why}")
    assert not list(tmp_path.iterdir())


def test_an_experiment_prints_its_table_and_says_where_the_rest_is(
    penstock: Run, tmp_path: Path
) -> None:
    words = ("--quick", "--seed", "3", "--out", str(tmp_path))
    code, out, err = penstock("experiment", "made-up", *words)
    assert code == 0
    assert "| met beside static |" in out
    assert "*a beside b* is a divided by b" in out
    assert "made-up: latency, 0%" in err
    assert f"made-up: table, picture and data are in {tmp_path / 'made-up'}" in err
    code, out, _ = penstock("experiment", "all", *words, "--json")
    found = json.loads(out)["experiments"][0]
    assert (code, found["experiment"], len(found["rows"])) == (0, "made-up", 3)


def test_a_name_that_is_not_known_is_refused(penstock: Run) -> None:
    code, _, err = penstock("experiment", "made-ip")
    assert (code, err) == (
        2,
        "penstock: no experiment 'made-ip': did you mean 'made-up'? there are made-up\n",
    )
