from __future__ import annotations

import json

import pytest

from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


def test_workloads_are_listed(penstock: Run) -> None:
    assert "wordcount" in penstock("workloads")[1]
    listed = json.loads(penstock("workloads", "--json")[1])["workloads"]
    assert {w["name"] for w in listed} >= {"wordcount", "linear", "diamond", "star"}


def test_version(penstock: Run) -> None:
    assert penstock("version")[1].startswith("penstock 0.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fly"], "no such command 'fly'"),
        (["sclae"], "no such command 'sclae', did you mean 'scale'?"),
        (["run", "wordcount", "--speed", "9"], "no such option '--speed'"),
        (["run", "wordcount", "--max-slot"], "the option '--max-slots' needs a value"),
        (["run", "wordcount", "--max-slits=3"], "did you mean '--max-slots'?"),
        (
            ["run", "wordcount", "--max-slots", "few"],
            "'few' is not a valid integer (`penstock run -",
        ),
        (["run", "wordcount", "--max", "3"], "may be --max-slots or --max-executors"),
        (["run", "--for", "--no-view"], "the option '--for' needs a value"),
        (["run"], "missing argument 'FLOW' (`penstock run --help` tells more)"),
        (["run", "wordcount", "linear"], "got unexpected extra argument (linear)"),
        ([], "missing command"),
    ],
)
def test_unknown_words_are_one_line(penstock: Run, words: list[str], said: str) -> None:
    code, out, err = penstock(*words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err
    assert "--help` tells more)" in err


def test_unknown_words_are_one_json_object_where_that_was_asked_for(penstock: Run) -> None:
    for words in (("run", "--json"), ("run", "wordcount", "--json", "--speed", "9")):
        code, out, err = penstock(*words)
        assert code == 2
        assert json.loads(out)["error"]
        assert len(err.splitlines()) == 1
