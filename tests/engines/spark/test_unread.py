"""Files that were in a directory and are not yet in committed batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.engines.spark.changes import draining
from penstock.engines.spark.changes.draining import Unread

SOURCE = "source_lines"


class Checkpoint:
    """The logs of a query with one file source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("offsets", "commits", f"sources/{SOURCE}"):
            (folder / name).mkdir(parents=True)

    def find(self, offset: int, *files: str, ending: str = "") -> None:
        lines = [json.dumps({"path": f, "timestamp": 1, "batchId": offset}) for f in files]
        log = self.folder / "sources" / SOURCE / f"{offset}{ending}"
        log.write_text("\n".join(["v1", *lines]))
        log.with_name(f".{log.name}.crc").write_bytes(b"crc\x00")

    def plan(self, batch: int, offset: int) -> None:
        lines = ["v2", json.dumps({"conf": {}}), f'{SOURCE}:{{"logOffset":{offset}}}']
        (self.folder / "offsets" / str(batch)).write_text("\n".join(lines))

    def commit(self, batch: int) -> None:
        (self.folder / "commits" / str(batch)).write_text("v1\n{}")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def left(checkpoint: Checkpoint, *files: str, by_name: bool = False) -> Unread:
    return Unread(lambda: frozenset(files), checkpoint.folder, SOURCE, by_name)


def test_an_empty_directory_is_read(checkpoint: Checkpoint) -> None:
    assert left(checkpoint).none()


def test_a_file_is_read_when_its_batch_is_committed(checkpoint: Checkpoint) -> None:
    files = left(checkpoint, "file:///in/a", "file:///in/b")
    assert not files.none()
    checkpoint.find(0, "file:///in/a")
    checkpoint.plan(0, 0)
    checkpoint.commit(0)
    checkpoint.find(1, "file:///in/b")
    assert not files.none()
    checkpoint.plan(1, 1)
    assert not files.none()
    checkpoint.commit(1)
    assert files.none()


def test_files_that_came_later_are_not_waited_for(checkpoint: Checkpoint) -> None:
    files = left(checkpoint, "file:///in/a")
    checkpoint.find(0, "file:///in/a")
    checkpoint.find(1, "file:///in/later")
    checkpoint.plan(4, 0)
    checkpoint.commit(4)
    checkpoint.plan(5, 1)
    assert files.none()


def test_compact_logs_hold_the_files_of_several_offsets(checkpoint: Checkpoint) -> None:
    files = left(checkpoint, "file:///in/a", "file:///in/b")
    checkpoint.find(9, "file:///in/a", "file:///in/b", ending=".compact")
    checkpoint.plan(12, 9)
    checkpoint.commit(12)
    assert files.none()


def test_a_file_that_is_gone_is_not_waited_for(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"file:///in/a", "file:///in/b"}
    files = Unread(lambda: frozenset(there), checkpoint.folder, SOURCE)
    there.remove("file:///in/b")
    checkpoint.find(0, "file:///in/a")
    checkpoint.plan(0, 0)
    checkpoint.commit(0)
    assert not files.none()  # it was listed a moment ago
    monkeypatch.setattr(draining, "_LISTING", 0.0)
    assert files.none()


def test_files_may_count_by_their_name(checkpoint: Checkpoint) -> None:
    checkpoint.find(0, "s3a://old/in/a")
    checkpoint.plan(0, 0)
    checkpoint.commit(0)
    assert not left(checkpoint, "s3a://new/in/a").none()
    assert left(checkpoint, "s3a://new/in/a", by_name=True).none()
