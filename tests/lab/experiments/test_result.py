"""What an experiment has found, in a notebook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.drawing.figures import Figure, Line, Panel
from penstock.errors import InvalidInput
from penstock.views.notebook import Tabled
from penstock_lab.experiments.experiment import Claim, Data, Experiment
from penstock_lab.experiments.result import Result, read
from penstock_lab.experiments.store import Store
from penstock_lab.experiments.table import markdown

FOUND = Experiment(
    "found",
    "Testers",
    "Nobody",
    "figure 0",
    lambda: (),
    (
        Claim("ratio", 2.0, lambda d: 2.1, neutral=1.0),
        Claim("hours", 4.0, lambda d: 9.0, "h", why="<machines> are slower"),
        Claim("on Spark", 1.0, lambda d: 1.0, only="spark"),
    ),
    lambda data: Figure("testers", (Panel("s", "n", (Line("a", (0.0, 1.0), (1.0, 2.0)),)),)),
)


def test_it_is_the_table_beside_the_seed_and_a_picture_for_each_engine() -> None:
    found = Result(FOUND, {"simulator": Data(({"case": "a", "kind": "tick"},))})
    assert isinstance(found, Tabled)
    heads, rows = found.table()
    assert heads == ["", "paper", "simulated", "here / paper", "verdict", "why"]
    assert rows[0] == ["ratio", "2.00", "2.10", "1.10", "agrees", ""]
    assert rows[1] == ["hours (h)", "4.00", "9.00", "2.25", "differs", "<machines> are slower"]
    assert rows[2][2:5] == ["-", "-", "-"]
    for cell in rows[1][1:4]:
        assert cell in markdown(FOUND, found.rows)
    page = found._repr_html_()
    assert "&lt;machines&gt;" in page
    assert page.count("<img") == 1


def test_it_is_read_from_its_directory(tmp_path: Path) -> None:
    home = tmp_path / "nephele-3"
    home.mkdir()
    with pytest.raises(InvalidInput, match="holds no experiment"):
        read(home)
    engines: dict[str, dict[str, object]] = {"simulator": {"seed": 1, "parameters": {}}}
    head = {"experiment": "nephele-3", "engines": engines}
    (home / "manifest.json").write_text(json.dumps(head))
    assert read(home).data == Store(home).data() == {}
    assert read(home).experiment.name == "nephele-3"
    assert read(home).title.endswith(", not complete, 0 cases simulated")
    engines["simulator"]["complete"] = True
    (home / "manifest.json").write_text(json.dumps(head))
    assert "not complete" not in read(home).title
    (home / "manifest.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"its manifest\.json cannot be read"):
        read(home)
