"""Copies checkpoints, and repartitions their state with Spark's own means.

Spark calls its repartitioning experimental and keeps it private, so nothing else touches it. When
it fails it leaves a checkpoint that cannot be started, so a copy as links is kept beside it until
the change is committed:

    state-count.draft    a copy that is being made
    state-count.before   a complete copy: to undo the change is to put it back
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
    """State partitions of a checkpoint; None before its first batch."""
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
    """Repartition the state of a stopped query. Returns False if it has `parts` partitions already.

    With `guarded` a copy is kept for `restore` until `discard_copy`; one that is there is put back
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
    """Delete the copy that a guarded repartitioning has kept."""
    copy, discarded = _beside(checkpoint, "before"), _beside(checkpoint, "discard")
    if copy.exists():  # renamed first: half a copy must not be put back
        copy.rename(discarded)
    for left in (discarded, _beside(checkpoint, "draft")):
        shutil.rmtree(left, ignore_errors=True)


def copy_running(source: Path, target: Path, wired: Wired) -> dict[str, int]:
    """Copy a checkpoint in use as of its last commit, as links, under an id of its own.

    Returns the rows read as of then, by input. Spark never writes into a file that is there, so
    links are copies. What it deletes meanwhile is older than the last commit, or comes again under
    another name: then another try is made.
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
        checkpoints.come_home(target)
        return {**wired.first, **checkpoints.committed(target, wired.epoch)}
    raise OSError(f"cannot copy {source}: it changes faster than it can be read")


def _settings(checkpoint: Path) -> Mapping[str, str]:
    """The settings that Spark has noted with the last batch."""
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
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _beside(checkpoint: Path, suffix: str) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.{suffix}")


def _later(root: Path, commit: int) -> Callable[[str, list[str]], list[str]]:
    """What not to copy: batches after a commit, and hidden files such as drafts and checksums.

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
