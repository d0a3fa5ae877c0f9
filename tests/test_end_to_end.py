"""The command as a user runs it; what it does when it is killed is in test_torture."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.store import history

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent
SHOP = ROOT / "examples" / "shop.py"
FLOW = """
import shop
flow = shop.build(out="out", load="800/s", limit=5200)
"""


def penstock(folder: Path, *words: str) -> subprocess.Popen[str]:
    """The command in a process group of its own, so that all of it can be killed."""
    with (folder / "stderr.txt").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def until(condition: Callable[[], bool], process: subprocess.Popen[str], what: str) -> None:
    end = time.monotonic() + 90
    while not condition():
        assert process.poll() is None, f"it ended before {what}"
        assert time.monotonic() < end, f"waited 90 s for {what}"
        time.sleep(0.05)


def ingested(run_dir: Path) -> int:
    """By the last snapshot; it is read while the run goes on, and after it was killed."""
    turns = [one.turn for one in history.turn_times(run_dir)]
    return max(
        (one.snapshot.rows_ingested for one in history.recorded_snapshots(run_dir, turns[-1:])),
        default=0,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(FLOW)
    (tmp_path / "shop.py").write_text(SHOP.read_text())
    return tmp_path


def test_ctrl_c_drains_and_ends_well_with_an_exact_result(folder: Path) -> None:
    (folder / "mine.py").write_text(FLOW.replace("limit=5200", "limit=None"))
    process = penstock(folder, "run", "mine.py:flow", "--run-dir", "here", "--json")
    try:
        until(lambda: ingested(folder / "here") > 1000, process, "a thousand records")
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does: the whole group gets it
        out, _ = process.communicate(timeout=90)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    summary = json.loads(out)
    assert process.returncode == 0
    assert summary["interrupted"] is True
    assert summary["exact"] is True
    assert summary["rows_ingested"] == summary["rows_offered"]


def test_a_workload_runs_in_an_empty_directory_by_its_name_alone(tmp_path: Path) -> None:
    """The first thing a user tries: no options but an end, everything else by default."""
    process = penstock(tmp_path, "run", "wordcount", "--for", "4s", "--json")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, (tmp_path / "stderr.txt").read_text()[-2000:]
    summary = json.loads(out)
    assert summary["exact"] is True
    assert summary["rows_ingested"] > 0
