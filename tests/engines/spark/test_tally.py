"""Rows counted once for each batch."""

from __future__ import annotations

from pathlib import Path

from penstock.engines.spark.queries.sinks import RowCount


def test_a_batch_that_runs_again_counts_once(tmp_path: Path) -> None:
    tally = RowCount(tmp_path / "out.tally")
    tally.add("1-0", 10)
    tally.add("1-1", 5)
    tally.add("1-1", 7)
    assert tally.rows == 17
    again = RowCount(tmp_path / "out.tally")  # after a crash
    again.add("1-1", 5)
    assert again.rows == 15
    again.add("1-2", 1)
    assert again.rows == 16


def test_what_is_handed_over_again_is_counted_as_repeated(tmp_path: Path) -> None:
    tally = RowCount(tmp_path / "out.tally")
    tally.begin("1-0")
    tally.add("1-0", 10)
    tally.begin("1-1")  # fails
    tally = RowCount(tmp_path / "out.tally")
    tally.begin("1-1")  # fails again
    tally = RowCount(tmp_path / "out.tally")
    tally.begin("1-1")
    tally.add("1-1", 4)
    assert (tally.rows, tally.repeated) == (14, 8)
    tally.begin("1-1")  # its commit was missing
    tally.add("1-1", 4)
    assert (tally.rows, tally.repeated) == (14, 12)
    tally.begin("1-2")
    tally.add("1-2", 6)
    assert (tally.rows, tally.repeated) == (20, 12)
    assert RowCount(tmp_path / "out.tally").repeated == 12


def test_a_count_that_is_known_takes_the_place_of_what_was_counted(tmp_path: Path) -> None:
    tally = RowCount(tmp_path / "out.tally")
    tally.reach(30)
    tally.reach(50)
    assert RowCount(tmp_path / "out.tally").rows == 50


def test_a_torn_file_counts_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "out.tally").write_text('{"tag": "1-')
    assert RowCount(tmp_path / "out.tally").rows == 0
