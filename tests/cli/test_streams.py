from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.cli.standard_output import Streams


def everyone_speaks(streams: Streams) -> None:
    """Others past Python to both descriptors, a user's functions, and the command itself."""
    os.write(1, b"a console sink\n")
    os.write(2, b"the JVM\n")
    print("a user's print")
    print("a user's warning", file=sys.stderr)
    print("result", file=streams.out)
    print("progress", file=streams.err)


def test_what_spark_says_is_put_aside_and_what_a_user_prints_is_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Streams(spark=True) as streams:
        everyone_speaks(streams)
        assert streams.log is not None
        assert streams.log.read_text() == "the JVM\n"
        streams.log.unlink()
    print("after")
    print("after", file=sys.stderr)
    said = capfd.readouterr()
    assert sorted(said.out.splitlines()) == ["a console sink", "a user's print", "after", "result"]
    assert said.err.splitlines() == ["a user's warning", "progress", "after"]


def test_with_json_nothing_else_is_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    with Streams(json=True, spark=True) as streams:
        everyone_speaks(streams)
        assert streams.log is not None
        assert streams.log.read_text() == "the JVM\n"
        streams.log.unlink()
    said = capfd.readouterr()
    assert said.out == "result\n"
    assert sorted(said.err.splitlines()) == [
        "a console sink",
        "a user's print",
        "a user's warning",
        "progress",
    ]


def test_a_live_view_has_the_terminal_to_itself(capfd: pytest.CaptureFixture[str]) -> None:
    with Streams(quiet=True, spark=True) as streams:
        os.write(1, b"a console sink\n")
        os.write(2, b"the JVM\n")
        print("result", file=streams.out)
        print("progress", file=streams.err)
        assert streams.log is not None
        assert streams.log.read_text() == "a console sink\nthe JVM\n"
        streams.log.unlink()
    said = capfd.readouterr()
    assert (said.out, said.err) == ("result\n", "progress\n")


def test_a_log_with_something_in_it_is_kept_with_the_run(tmp_path: Path) -> None:
    with Streams(spark=True) as streams:
        os.write(2, b"before\n")
        streams.keep_log(tmp_path)
        os.write(2, b"after\n")
    assert (tmp_path / "spark.log").read_text().startswith("before\n")


def test_a_log_with_nothing_in_it_is_not_left_behind() -> None:
    with Streams(spark=True) as streams:
        assert streams.log is not None
    assert not streams.log.exists()
