from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import experiments

from ..experiments.made_up import MADE_UP
from .conftest import Run


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "every", lambda: (MADE_UP,))


def test_experiments_are_listed(penstock: Run) -> None:
    code, out, _ = penstock("experiment", "list")
    assert (code, out) == (0, "made-up  A few testers  (Nobody, figure 0)\n")
    assert json.loads(penstock("experiment", "list", "--json")[1]) == {
        "experiments": [
            {
                "name": "made-up",
                "title": "A few testers",
                "paper": "Nobody",
                "figure": "figure 0",
                "engines": ["simulator"],
            }
        ]
    }


def test_an_experiment_prints_its_table_and_says_where_the_rest_is(
    penstock: Run, tmp_path: Path
) -> None:
    words = ("--quick", "--seed", "3", "--out", str(tmp_path))
    code, out, err = penstock("experiment", "made-up", *words)
    assert code == 0
    assert "| met beside static |" in out
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
