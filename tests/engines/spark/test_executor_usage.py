"""Telling the cost of a task from that of its rows."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.spark.measuring.executor_usage import fixed_and_per_row, processor_seconds


@given(
    fixed=st.floats(0, 1),
    per_row=st.floats(0, 0.1),
    sizes=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 5000)), min_size=4, max_size=30),
)
def test_exact_costs_are_found(fixed: float, per_row: float, sizes: list[tuple[int, int]]) -> None:
    found = fixed_and_per_row([(k, n, fixed * k + per_row * n) for k, n in sizes])
    if found is not None:
        assert found[0] == pytest.approx(fixed, abs=1e-6, rel=1e-5)
        assert found[1] == pytest.approx(per_row, abs=1e-6, rel=1e-5)


def test_batches_of_one_size_tell_nothing() -> None:
    assert fixed_and_per_row([(2, 100, 0.5)] * 20) is None
    assert fixed_and_per_row([(2, 100, 0.5), (2, 900, 1.5)]) is None
    assert fixed_and_per_row([(1, 0, 0.1)] * 5) is None


def test_noise_never_makes_a_cost_negative() -> None:
    assert fixed_and_per_row([(1, 100, 0.1), (1, 200, 0.3), (1, 300, 0.9)]) == (
        0.0,
        pytest.approx(1.3 / 600),
    )
    assert fixed_and_per_row([(1, 100, 0.9), (1, 200, 0.5), (1, 300, 0.1)]) == (
        pytest.approx(0.5),
        0.0,
    )


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
