from __future__ import annotations

import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from penstock.store.history import FILE
from penstock.testing import MemoryEngine

from .conftest import Run, play

pytestmark = pytest.mark.usefixtures("here")


def test_all_names_are_explained(penstock: Run) -> None:
    code, out, err = penstock("metrics")
    assert (code, err) == (0, "")
    line = (
        "pipeline  backlog_seconds   s        time to process the backlog at the rate of the window"
    )
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
