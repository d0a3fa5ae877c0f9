"""What the processes of a run have had of the processors."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock.engines.spark.measuring.executor_usage import processor_seconds


def process(proc: Path, number: int, parent: int, *ticks: int, name: str = "java") -> None:
    (proc / str(number)).mkdir(parents=True)
    fields = ["S", str(parent), *["0"] * 9, *map(str, ticks), "20"]
    (proc / str(number) / "stat").write_text(f"{number} ({name}) {' '.join(fields)}\n")


def test_a_process_and_all_that_it_started_are_added_up(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    process(tmp_path, 7, 1, tick, 0, 0, 0, name="python")
    process(tmp_path, 8, 7, 10 * tick, tick, 0, 0)
    process(tmp_path, 9, 8, 0, 0, 3 * tick, 2 * tick, name="a (strange) name")
    process(tmp_path, 10, 1, 100 * tick, 0, 0, 0)
    (tmp_path / "11").mkdir()  # it has ended meanwhile
    (tmp_path / "self").mkdir()
    assert processor_seconds(7, tmp_path) == 17.0


def test_where_nobody_tells_nothing_is_known(tmp_path: Path) -> None:
    assert processor_seconds(7, tmp_path / "none") is None
    process(tmp_path, 8, 1, 5, 0, 0, 0)
    assert processor_seconds(7, tmp_path) is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_this_process_is_one_of_them() -> None:
    before = processor_seconds()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = processor_seconds()
    assert before is not None
    assert after is not None
    assert after - before >= 0.08
