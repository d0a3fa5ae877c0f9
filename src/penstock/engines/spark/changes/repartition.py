"""Copies checkpoints, and repartitions their state with Spark's own function.

Spark marks its repartitioning as experimental and keeps it private, so only this module uses it. If
it fails, the checkpoint cannot be started, so a copy made of hard links is kept beside it until the
change is committed:

    state-count.draft    an incomplete copy
    state-count.before   a complete copy, to restore when the change is undone
    state-count.discard  a copy that is no longer needed
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engines.spark.queries import checkpoint as checkpoints
from penstock.errors import Refused
from penstock.store.run_directory import Wired

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "RocksDBStateStoreProvider"
_TRIES = 5


def partitions(checkpoint: Path) -> int | None:
    """Number of state partitions of a checkpoint; None before its first batch."""
    settings = _settings(checkpoint)
    key = "spark.sql.streaming.internal.stateStore.partitions"
    found = settings.get(key) or settings.get("spark.sql.shuffle.partitions")
    return None if found is None else int(found)


def check(checkpoint: Path) -> None:
    """Raise `Refused` if Spark cannot repartition the state of a checkpoint."""
    provider = _settings(checkpoint).get(_PROVIDER, _ROCKSDB).rpartition(".")[2]
    if provider != _ROCKSDB:
        raise Refused(
            f"the state in {checkpoint} is kept by {provider}, and Spark can cut only state in "
            "RocksDB into another number of parts; the ceiling of this pipeline cannot change"
        )


def repartition(spark: SparkSession, checkpoint: Path, parts: int, *, guarded: bool = True) -> bool:
    """Repartition the state of a stopped query; return False if that was not needed.

    With `guarded` a copy is kept for `restore` until `discard_copy`. An existing copy is restored
    first. Raises `Refused` if the state is not in RocksDB.
    """
    restore(checkpoint)
    if partitions(checkpoint) in (None, parts):
        return False
    check(checkpoint)
    if guarded:
        _keep_copy(checkpoint)
    spark._streamingCheckpointManager.repartition(str(checkpoint), parts, True)
    return True


def restore(checkpoint: Path) -> None:
    """Undo a guarded repartitioning, whether it is complete or not."""
    copy = _beside(checkpoint, "before")
    if copy.exists():
        shutil.rmtree(checkpoint, ignore_errors=True)
        copy.rename(checkpoint)


def discard_copy(checkpoint: Path) -> None:
    """Delete the copy that a guarded repartitioning kept."""
    copy, discarded = _beside(checkpoint, "before"), _beside(checkpoint, "discard")
    if copy.exists():  # renamed first: a partial copy must not be restored
        copy.rename(discarded)
    for left in (discarded, _beside(checkpoint, "draft")):
        shutil.rmtree(left, ignore_errors=True)


def copy_running(source: Path, target: Path, wired: Wired) -> dict[str, int]:
    """Copy the last commit of a checkpoint in use, as hard links with a new id.

    Returns the rows read up to that commit, by input. Spark never writes to existing files, so
    links are as good as copies. Files that Spark deletes meanwhile are older than the last commit
    or are replaced under another name; in that case the copy is tried again.
    """
    for _ in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        number = checkpoints.last_commit(source)
        try:
            shutil.copytree(source, target, copy_function=os.link, ignore=_later(source, number))
        except (shutil.Error, FileNotFoundError):
            continue
        (target / "metadata").unlink()
        (target / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        checkpoints.correct_paths(target)
        return {**wired.first, **checkpoints.committed(target, wired.epoch)}
    raise OSError(f"cannot copy {source}: it changes faster than it can be read")


def _settings(checkpoint: Path) -> Mapping[str, str]:
    """Settings that Spark recorded with the last batch."""
    offsets = [f for f in (checkpoint / "offsets").glob("*") if f.name.isdigit()]
    if not offsets:
        return {}
    newest = max(offsets, key=lambda f: int(f.name))
    conf: Mapping[str, str] = json.loads(newest.read_text().splitlines()[1])["conf"]
    return conf


def _keep_copy(checkpoint: Path) -> None:
    draft, copy = _beside(checkpoint, "draft"), _beside(checkpoint, "before")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(checkpoint, draft, copy_function=_linked)
    draft.rename(copy)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # the file system has no hard links
        shutil.copy2(source, target)


def _beside(checkpoint: Path, suffix: str) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.{suffix}")


def _later(root: Path, commit: int) -> Callable[[str, list[str]], list[str]]:
    """Filter of files not to copy: later batches, and hidden drafts and checksums.

    Logs have a file `7` for batch 7; state has `8.changelog` and `8.zip` after it.
    """

    def names(folder: str, entries: list[str]) -> list[str]:
        kind = (*Path(folder).relative_to(root).parts, "")[0]
        return [name for name in entries if name.startswith(".") or later(kind, name)]

    def later(kind: str, name: str) -> bool:
        number, dot, _ = name.replace("_", ".").partition(".")
        if not number.isdigit() or (kind == "state") != bool(dot):
            return False
        return int(number) > commit + (kind == "state")

    return names
