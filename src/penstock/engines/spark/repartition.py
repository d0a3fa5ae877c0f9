"""Cutting a stopped query's state into another number of parts, with Spark's own means.

Spark calls this experimental and keeps it private, so nothing else touches it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def partitions(checkpoint: Path) -> int | None:
    """Into how many parts the state of a checkpoint is cut now; None before its first batch."""
    offsets = [f for f in (checkpoint / "offsets").glob("*") if f.name.isdigit()]
    if not offsets:
        return None
    newest = max(offsets, key=lambda f: int(f.name))
    settings = json.loads(newest.read_text().splitlines()[1])["conf"]
    key = "spark.sql.streaming.internal.stateStore.partitions"
    found = settings.get(key) or settings.get("spark.sql.shuffle.partitions")
    return None if found is None else int(found)


def repartition(spark: SparkSession, checkpoint: Path, parts: int) -> bool:
    """Cut the state anew if it is cut differently; returns whether it had to be."""
    if partitions(checkpoint) in (None, parts):
        return False
    note = checkpoint.with_name(f"{checkpoint.name}.repartition")
    note.write_text(str(parts))  # one that was cut off can only be done again, to the same number
    spark._streamingCheckpointManager.repartition(str(checkpoint), parts, True)
    note.unlink()
    return True


def finish(spark: SparkSession, checkpoints: Path) -> None:
    """Do again what a crash cut off."""
    for note in checkpoints.glob("*.repartition"):
        checkpoint = checkpoints / note.name.removesuffix(".repartition")
        parts = int(note.read_text() or 0)
        if parts and partitions(checkpoint) != parts:
            spark._streamingCheckpointManager.repartition(str(checkpoint), parts, True)
        note.unlink()
