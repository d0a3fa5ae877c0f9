"""Where a run directory may be: on this machine, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import run
from penstock.errors import RunDirectoryError
from penstock.report.story import story
from penstock.store.mailbox import ask
from penstock.store.run_directory import RunDirectory, choose, local
from penstock.testing import MemoryEngine
from tests.engines.spark.test_rundir import graph

ELSEWHERE = [
    *("s3a://bucket/x", "s3a:/bucket/x", "hdfs://name:8020/runs", "abfss://c@account/x"),
    *("gs://bucket", "s3a://", "dbfs:/runs/one", "memory://", "file://another-machine/runs"),
]


@pytest.mark.parametrize("place", ELSEWHERE)
def test_a_directory_that_is_not_on_this_machine_is_refused(place: str) -> None:
    with pytest.raises(RunDirectoryError, match="a directory of this machine") as refused:
        local(place)
    assert place in str(refused.value)


@pytest.mark.parametrize("place", ["s3a://bucket/x", "hdfs://name:8020/runs"])
def test_a_path_object_keeps_no_second_slash_and_is_refused_too(place: str) -> None:
    with pytest.raises(RunDirectoryError, match="a directory of this machine"):
        local(Path(place))


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("runs/mine", "runs/mine"),
        ("/data/runs", "/data/runs"),
        ("file:///data/runs", "/data/runs"),
        ("file:/data/runs", "/data/runs"),
        ("file://localhost/data/runs", "/data/runs"),
        ("file:///data/my%20runs", "/data/my runs"),
        (Path("file:///data/runs"), "/data/runs"),
        ("./s3a:/x", "s3a:/x"),
        ("runs/12:30", "runs/12:30"),
        ("runs:old", "runs:old"),
    ],
)
def test_what_is_on_this_machine_becomes_a_path(written: str | Path, path: str) -> None:
    assert local(written) == Path(path)


def test_a_home_directory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert local("~/runs") == Path("/home/someone/runs")


def test_nothing_is_made_for_a_directory_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for attempt in (
        lambda: choose("flow", "s3a://bucket/x", 0.0),
        lambda: run(graph(), engine=MemoryEngine(), run_dir="s3a://bucket/x"),
        lambda: RunDirectory.open(Path("s3a://bucket/x"), graph(), "spark"),
        lambda: ask("s3a://bucket/x", "pause"),
        lambda: story("s3a://bucket/x"),
    ):
        with pytest.raises(RunDirectoryError, match="a directory of this machine"):
            attempt()
    assert [*tmp_path.iterdir()] == []
