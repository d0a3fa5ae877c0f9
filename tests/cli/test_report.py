from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.usefixtures("mine")
def test_a_run_is_reported(penstock: Run) -> None:
    code, out, err = penstock("report", "mine", "--out", "here.html")
    assert (code, err) == (0, "")
    names = ["here.html", "here-dataflow.png", "here-course.png"]
    assert out.splitlines() == names
    assert all(Path(name).stat().st_size > 0 for name in names)
    page = Path("here.html").read_text()
    assert "tweets: parallelism 1 -&gt; 4" in page
    assert "there is nothing to split" in page


@pytest.mark.usefixtures("mine")
def test_a_run_is_reported_without_pictures_where_nothing_can_draw_them(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = penstock("report", "mine", "--json")
    assert (code, json.loads(out)["page"]) == (0, "mine/report.html")
    assert err.startswith("penstock: no pictures beside it: PNG pictures need matplotlib")


@pytest.mark.usefixtures("mine")
def test_what_cannot_be_reported_is_one_line(penstock: Run) -> None:
    for words in (["nowhere"], ["mine", "--out", "no/where.html"], ["mine", "--out", "."]):
        code, out, err = penstock("report", *words)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
