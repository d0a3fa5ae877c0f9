"""What the command tells of a run afterwards, while it goes on, and when it was killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pyarrow import csv, parquet

from penstock.metrics.snapshot import OperatorMetrics
from penstock.store import tables, timeline
from penstock.store.history import FILE, moments, snapshots
from penstock.testing import MemoryEngine

from ..control.doubles import running
from .conftest import Run
from .test_main import play

pytestmark = pytest.mark.usefixtures("here")
SCRIPT = ("--change", "3s:count=4", "--change", "4s:split tweets")


@pytest.fixture
def mine(here: None, penstock: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of six seconds with a change and a refusal in it."""
    play(monkeypatch, MemoryEngine())
    assert penstock("run", "wordcount", "--for", "6s", "--run-dir", "mine", *SCRIPT)[0] == 0
    return Path("mine")


# --- history ------------------------------------------------------------------------------------


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
    assert [(e["kind"], round(e["at"])) for e in data["events"]] == [("changed", 3), ("refused", 4)]
    assert data["decisions"] == 5
    since = json.loads(penstock("history", "mine", "--json", "--since", "4s")[1])
    assert [e["kind"] for e in since["events"]] == ["refused"]


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
    before = len(moments(mine))
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
        while not moments(Path("mine")):
            time.sleep(0.02)
        assert len(penstock("history", "mine")[1].splitlines()) >= 2
        assert penstock("export", "mine", "--format", "csv")[0] == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from penstock.store.history import History, keep_dataflow
from tests.control.doubles import flow
from tests.control.test_history import tick

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


# --- export -------------------------------------------------------------------------------------


def test_everything_is_exported_a_file_a_table(mine: Path, penstock: Run) -> None:
    code, out, err = penstock("export", "mine")
    assert (code, err) == (0, "")
    assert [line.split()[-1] for line in out.splitlines()] == [
        f"mine/export/{table.name}.parquet" for table in tables.ALL
    ]
    found = parquet.read_table(mine / "export" / "snapshots.parquet")
    assert found["rows_ingested"].to_pylist() == [s.rows_ingested for s in snapshots(mine)]
    assert found.schema.field("rows_ingested").metadata == {
        b"unit": b"rows",
        b"meaning": b"records taken in by the sources so far",
    }
    pipelines = parquet.read_table(mine / "export" / "pipelines.parquet")
    assert set(pipelines["parallelism"].to_pylist()) == {1, 4}
    assert pipelines["rate_out"].to_pylist()[-2:] == [1000.0, None]  # not measured is null
    assert {f.name for f in fields(OperatorMetrics)} < {
        *parquet.read_schema(mine / "export" / "operators.parquet").names
    }


def test_csv_and_json_hold_the_same(mine: Path, penstock: Run) -> None:
    assert penstock("export", "mine", "--format", "csv", "--out", "a")[0] == 0
    assert penstock("export", "mine", "--format", "json", "--out", "b/c")[0] == 0
    rows: list[dict[str, Any]] = json.loads(Path("b/c/transitions.json").read_text())
    assert [row["changes"] for row in rows] == [["tweets: parallelism 1 -> 4"]]
    assert rows[0]["phases"] == []
    table = csv.read_csv("a/snapshots.csv")
    written = json.loads(Path("b/c/snapshots.json").read_text())
    assert table["at"].to_pylist() == pytest.approx([row["at"] for row in written])
    first = Path("a/pipelines.csv").read_text().splitlines()[1]
    assert first.startswith('1,0,"tweets","tweets",1,')
    for path in (*Path("a").iterdir(), *Path("b/c").iterdir()):
        assert not path.name.startswith(".")


@pytest.mark.usefixtures("mine")
def test_an_export_may_begin_late(penstock: Run) -> None:
    data = json.loads(penstock("export", "mine", "--json", "--since", "4s")[1])
    assert data["tables"]["transitions"]["rows"] == 0
    assert 0 < data["tables"]["snapshots"]["rows"] < 6


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "xml"], "no format is called 'xml'; there are parquet, csv, json"),
        (["--out", "file"], "cannot write to 'file"),
        (["--since", "9h"], "nothing was measured in 'mine' since then"),
    ],
)
def test_what_cannot_be_exported_is_one_line(penstock: Run, words: list[str], said: str) -> None:
    Path("file").write_text("")
    code, out, err = penstock("export", "mine", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"penstock: {said}")


# --- metrics ------------------------------------------------------------------------------------


def test_all_names_are_explained(penstock: Run) -> None:
    code, out, err = penstock("metrics")
    assert (code, err) == (0, "")
    line = "pipeline  backlog_seconds   s        what the backlog takes at the rate of the window"
    assert line in out.splitlines()
    assert max(len(line) for line in out.splitlines()) <= 120
    data = json.loads(penstock("metrics", "--json")[1])
    assert len(data["metrics"]) == len(out.splitlines())


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_metrics_are_served_while_a_flow_runs(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, pages = free(), []

    def look() -> None:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            pages.append(answer.read().decode())

    play(monkeypatch, MemoryEngine(), {4.5: look})
    words = ("run", "wordcount", "--for", "6s", "--no-view", "--metrics-port", str(port))
    code, _, err = penstock(*words)
    assert (code, err) == (0, f"penstock: metrics at http://127.0.0.1:{port}/metrics\n")
    (page,) = pages
    assert 'penstock_rows_ingested_total{flow="wordcount"} 4000.0\n' in page
    assert 'phase="running"' in page
    socket.create_server(("127.0.0.1", port)).close()  # and it is let go


def test_a_port_that_is_taken_stops_it_before_anything_starts(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = play(monkeypatch, MemoryEngine())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, out, err = penstock("run", "wordcount", "--for", "2s", "--metrics-port", port)
    assert (code, out) == (2, "")
    assert err == f"penstock: cannot serve metrics at 127.0.0.1:{port}: Address already in use\n"
    assert masters == []
    assert not [*Path("runs").glob("*")]
    said = penstock("run", "wordcount", "--metrics-address", "0.0.0.0")[2]
    assert said.startswith("penstock: --metrics-address needs --metrics-port")


def test_a_history_that_cannot_be_written_does_not_stop_the_flow(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    for words in ((), ("--no-view",)):
        play(monkeypatch, MemoryEngine())
        monkeypatch.setattr("penstock.store.recorder._opened", full)
        code, out, err = penstock("run", "wordcount", "--for", "3s", "--json", *words)
        assert (code, json.loads(out)["rows_ingested"] > 2000) == (0, True)
        assert err.count("the flow goes on without: database or disk is full") == 1


def test_the_file_is_one_that_any_tool_for_sqlite_reads(mine: Path) -> None:
    query = "SELECT max(rate_in) FROM pipelines JOIN snapshots USING (turn) WHERE at <= 3.5"
    with closing(sqlite3.connect(mine / FILE)) as connection:
        assert connection.execute(query).fetchone()[0] == pytest.approx(1000)


# --- report -------------------------------------------------------------------------------------


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
    assert err.startswith("penstock: no pictures beside it: pictures need matplotlib")


@pytest.mark.usefixtures("mine")
def test_what_cannot_be_reported_is_one_line(penstock: Run) -> None:
    for words in (["nowhere"], ["mine", "--out", "no/where.html"], ["mine", "--out", "."]):
        code, out, err = penstock("report", *words)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
