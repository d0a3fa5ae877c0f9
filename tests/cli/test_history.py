"""`penstock history`: of a run that ended, goes on, or was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.store import timeline
from penstock.store.history import FILE, turn_times
from penstock.testing import MemoryEngine

from ..control.doubles import running
from .conftest import Run, play

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.usefixtures("mine")
def test_the_history_of_a_run_is_told(penstock: Run) -> None:
    code, out, err = penstock("history", "mine")
    said = out.splitlines()
    assert (code, err) == (0, "")
    assert said[0] == timeline.HEAD
    change = "[   0:03] tweets: parallelism 1 -> 4 (0 ms without output): scripted: count=4"
    place = said.index(change)
    assert said[place - 1].startswith("[   0:03]      1,000      1,000 ")
    assert said[place - 1].split()[-5:] == ["-", "1", "1", "0", "-"]
    assert said[place + 3].split()[-5:] == ["-", "4", "1", "0", "-"]
    refused = "[   0:04] refused: scripted: split tweets [there is nothing to split"
    assert [line for line in said if line.startswith(refused)] == [said[place + 2]]


@pytest.mark.usefixtures("mine")
def test_lines_are_as_many_as_are_asked_for(penstock: Run) -> None:
    def at(*words: str) -> list[float]:
        data = json.loads(penstock("history", "mine", "--json", *words)[1])
        return [round(line["at"]) for line in data["lines"]]

    assert at("--every", "2s") == [1, 3, 5, 6]
    assert at("--every", "1h") == [1, 6]
    assert at("--every", "2s", "--since", "4s") == [4, 6]
    assert at("--every", "2", "--since", "4") == [4, 6]
    assert "no line every '0s'" in penstock("history", "mine", "--every", "0s")[2]
    assert "measured in 'mine' since then" in penstock("history", "mine", "--since", "1h")[2]
    assert "write it like 250ms" in penstock("history", "mine", "--since", "late")[2]


@pytest.mark.usefixtures("mine")
def test_the_json_holds_what_is_told_and_more(penstock: Run) -> None:
    data = json.loads(penstock("history", "mine", "--json")[1])
    assert [len(data["transitions"]), len(data["not_done"])] == [1, 1]
    assert data["transitions"][0]["changes"] == ["tweets: parallelism 1 -> 4"]
    assert [(e["kind"], round(e["at"])) for e in data["events"]] == [
        ("changed", 3),
        ("refused", 4),
        ("drain", 6),
        ("stop", 6),
    ]
    assert data["decisions"] == 5
    since = json.loads(penstock("history", "mine", "--json", "--since", "4s")[1])
    assert [e["kind"] for e in since["events"]] == ["refused", "drain", "stop"]


@pytest.mark.usefixtures("mine")
def test_one_moment_is_written_and_not_with_the_options_of_the_others(penstock: Run) -> None:
    assert penstock("history", "mine", "--at", "3s")[2].startswith("penstock: --at and --out are")
    early = penstock("history", "mine", "--snapshot", "--at", "10ms")[2]
    assert early == "penstock: nothing was measured in 'mine' by then\n"
    assert "say --at" in penstock("history", "mine", "--snapshot", "--since", "3s")[2]
    case = json.loads(penstock("history", "mine", "--snapshot", "--at", "3s")[1])
    assert [round(s["at"]) for s in case["snapshots"]] == [1, 2, 3]


def test_a_run_that_was_continued_is_told_as_two(
    mine: Path, penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(turn_times(mine))
    play(monkeypatch, MemoryEngine())
    penstock("run", "wordcount", "--for", "2s", "--run-dir", "mine")
    said = penstock("history", "mine")[1].splitlines()
    assert said.count("--- continued ---") == 1
    only = json.loads(penstock("history", "mine", "--json", "--since", "0s")[1])
    assert min(line["turn"] for line in only["lines"]) > before

    def at(*words: str) -> list[float]:
        data = json.loads(penstock("history", "mine", "--json", "--every", "1s", *words)[1])
        return [round(line["at"]) for line in data["lines"]]

    assert at("--run", "1", "--since", "5s") == [5, 6, *at()[-2:]]
    assert at("--run", "1") == at()
    assert at("--run", "2") == at("--since", "0s")
    case = json.loads(penstock("history", "mine", "--snapshot", "--run", "1")[1])
    assert round(case["snapshots"][-1]["at"]) == 5  # the one at 6 s is of its end
    wrong = penstock("history", "mine", "--run", "7")[2]
    assert wrong == "penstock: there is no run 7 in this directory: it has 1, 2\n"


def test_it_is_told_while_the_run_goes_on(penstock: Run) -> None:
    with running(Path("mine").absolute(), MemoryEngine()):
        while not turn_times(Path("mine")):
            time.sleep(0.02)
        assert len(penstock("history", "mine")[1].splitlines()) >= 2
        assert penstock("export", "mine", "--format", "csv")[0] == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from penstock.store.history import History, keep_dataflow
from tests.control.doubles import flow
from tests.store.test_history import tick

keep_dataflow(Path(sys.argv[1]), flow().graph)
history = History(Path(sys.argv[1]), lambda: 1.7e9)
for at in range(5):
    history.append(tick(float(at)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_was_killed_is_told_and_exported(penstock: Run) -> None:
    Path("mine").mkdir()
    root = Path(__file__).parents[2]
    words = [sys.executable, "-c", KILLED, str(Path("mine").absolute())]
    env = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    assert subprocess.run(words, cwd=root, env=env).returncode == -signal.SIGKILL
    assert len(penstock("history", "mine")[1].splitlines()) == 6
    data = json.loads(penstock("export", "mine", "--json")[1])
    assert data["tables"]["snapshots"]["rows"] == 5


def test_a_run_in_which_nothing_was_measured_yet_says_so(mine: Path, penstock: Run) -> None:
    (mine / FILE).unlink()
    said = "wordcount: nothing was measured yet\n"
    assert penstock("history", "mine") == (0, said, "")
    assert "'mine' has no history.db" in penstock("export", "mine")[2]
    (mine / FILE).write_text("something else" * 100)
    code, out, err = penstock("history", "mine")
    assert (code, out) == (2, "")
    assert err == "penstock: mine/history.db cannot be read: file is not a database\n"
