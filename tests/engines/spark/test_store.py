"""Small files in a directory: whole or absent, wherever the directory is."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.engines.spark.channels.remote_files import FileStore


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path))


def test_what_is_written_is_read_back(store: FileStore) -> None:
    store.write("a.json", {"rows": [1, 2], "name": "é"})
    assert store.read("a.json") == {"rows": [1, 2], "name": "é"}
    store.write("a.json", 7)
    assert store.read("a.json") == 7


def test_bytes_are_written_as_they_are(store: FileStore, tmp_path: Path) -> None:
    store.child("in").make()
    store.write_bytes("in/a.bin", b"\x00\n")
    assert (tmp_path / "in" / "a.bin").read_bytes() == b"\x00\n"


def test_no_draft_is_left_beside_a_written_file(store: FileStore, tmp_path: Path) -> None:
    store.child("in").make()
    store.write("in/a.json", 1)
    store.write("b.json", 2)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "b.json",
        "in",
        "in/a.json",
    ]


def test_a_write_that_is_cut_off_leaves_the_old_value(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("a.json", "old")

    class CutOff:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def move(self, *_: str) -> None:
            raise OSError("cut off")

    broken = FileStore(store.root)
    broken.__dict__["_at"] = (CutOff(store.filesystem), store.path())
    with pytest.raises(OSError, match="cut off"):
        broken.write("a.json", "new")
    assert store.read("a.json") == "old"
    assert store.names() == [".a.json.draft", "a.json"]
    store.write("a.json", "newer")
    assert store.read("a.json") == "newer"


def test_names_are_sorted_and_chosen_by_how_they_begin(store: FileStore) -> None:
    for name in ("b2", "a1", "b1"):
        store.write(name, 0)
    store.child("b0").make()
    assert store.names() == ["a1", "b0", "b1", "b2"]
    assert store.names("b") == ["b0", "b1", "b2"]
    assert store.names("c") == []


def test_names_in_a_directory_that_does_not_exist_are_none(store: FileStore) -> None:
    assert store.child("nowhere").names() == []


def test_files_and_directories_are_removed(store: FileStore) -> None:
    store.child("full").make()
    store.write("full/a", 1)
    store.write("b", 1)
    store.remove("full")
    store.remove("b")
    assert store.names() == []


def test_removing_what_is_gone_is_no_error(store: FileStore) -> None:
    store.remove("nothing")
    store.child("nowhere").remove("nothing")
    assert not store.exists("nothing")


def test_a_file_exists_once_it_is_written(store: FileStore) -> None:
    assert not store.exists("a")
    store.write("a", 1)
    assert store.exists("a")


def test_a_child_is_a_directory_inside() -> None:
    assert FileStore("/data/run").child("log") == FileStore("/data/run/log")
    assert FileStore("/data/run/").child("log") == FileStore("/data/run/log")
    assert FileStore("s3://bucket/run/").child("log") == FileStore("s3://bucket/run/log")


def test_a_relative_path_starts_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert FileStore("run").path("a") == f"{tmp_path}/run/a"


def test_spark_gets_a_local_path_as_it_is_written() -> None:
    # Hadoop does not decode: an escaped blank would be another directory.
    assert FileStore("/data/my run/é").uri("log") == "file:///data/my run/é/log"
    assert FileStore("/data/run").uri() == "file:///data/run"


def test_spark_gets_a_uri_unchanged() -> None:
    assert FileStore("s3a://bucket/run").uri() == "s3a://bucket/run"
    assert FileStore("s3a://bucket/run/").uri("a/b") == "s3a://bucket/run/a/b"


def test_a_file_uri_is_a_local_directory(tmp_path: Path) -> None:
    FileStore(f"file://{tmp_path}").write("a", 1)
    assert (tmp_path / "a").read_text() == "1"


def test_a_store_travels_to_another_process(store: FileStore) -> None:
    store.write("a", 1)
    assert pickle.loads(pickle.dumps(store)).read("a") == 1
