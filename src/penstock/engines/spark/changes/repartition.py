"""Cutting a stopped query's state into another number of parts, with Spark's own means.

Spark calls this experimental and keeps it private, so nothing else touches it. When it fails it
leaves a checkpoint that cannot be started, so a copy as links is kept beside until it is through:

    state-count.draft    a copy that is being made
    state-count.before   a complete copy: whoever finds it puts it back
    state-count.discard  a copy that is no longer needed
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "RocksDBStateStoreProvider"


def partitions(checkpoint: Path) -> int | None:
    """Into how many parts the state of a checkpoint is cut now; None before its first batch."""
    settings = _settings(checkpoint)
    key = "spark.sql.streaming.internal.stateStore.partitions"
    found = settings.get(key) or settings.get("spark.sql.shuffle.partitions")
    return None if found is None else int(found)


def check(checkpoint: Path) -> None:
    """Raise `Refused` if Spark cannot cut the state of a checkpoint anew."""
    provider = _settings(checkpoint).get(_PROVIDER, _ROCKSDB).rpartition(".")[2]
    if provider != _ROCKSDB:
        raise Refused(
            f"the state in {checkpoint} is kept by {provider}, and Spark can cut only state in "
            "RocksDB into another number of parts; the ceiling of this pipeline cannot change"
        )


def repartition(spark: SparkSession, checkpoint: Path, parts: int) -> bool:
    """Cut the state anew if it is cut differently; returns whether it had to be.

    Raises `Refused` if the state is not in RocksDB. If it fails, the checkpoint is as it was.
    """
    if partitions(checkpoint) in (None, parts):
        return False
    check(checkpoint)
    copy = _copied(checkpoint)
    try:
        spark._streamingCheckpointManager.repartition(str(checkpoint), parts, True)
    except BaseException:
        _put_back(copy, checkpoint)
        raise
    _discarded(copy)
    return True


def undo(checkpoints: Path) -> None:
    """Put checkpoints back whose cut a crash has interrupted: their old plan is still in force."""
    for copy in checkpoints.glob("*.before"):
        _put_back(copy, copy.with_suffix(""))


def _settings(checkpoint: Path) -> Mapping[str, str]:
    """The settings that Spark has noted with the last batch."""
    offsets = [f for f in (checkpoint / "offsets").glob("*") if f.name.isdigit()]
    if not offsets:
        return {}
    newest = max(offsets, key=lambda f: int(f.name))
    conf: Mapping[str, str] = json.loads(newest.read_text().splitlines()[1])["conf"]
    return conf


def _copied(checkpoint: Path) -> Path:
    """A copy as links: Spark never writes into a file that is there."""
    draft, copy = _beside(checkpoint, "draft"), _beside(checkpoint, "before")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(checkpoint, draft, copy_function=_linked)
    draft.rename(copy)
    return copy


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _put_back(copy: Path, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint, ignore_errors=True)
    copy.rename(checkpoint)


def _discarded(copy: Path) -> None:
    """Renamed first: half a copy must not be put back."""
    shutil.rmtree(copy.rename(copy.with_suffix(".discard")), ignore_errors=True)


def _beside(checkpoint: Path, suffix: str) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.{suffix}")
