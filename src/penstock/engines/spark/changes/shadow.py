"""Make before break: the successor of a pipeline is running before the pipeline stops.

The successor gets a copy of the checkpoint as of some commit, with its state cut anew, reads from
there on what the pipeline has read since, and throws its output away: the pipeline has delivered
that. When both have come to the same row it is the successor that goes on. So the output rests
only while the pipeline finishes its last batch, however large the state is.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.dataflow import operators as op
from penstock.engines.spark.changes.repartition import repartition
from penstock.engines.spark.queries import checkpoint, dead_letters
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.plan.plan import Pipeline
from penstock.store.run_directory import Wired

if TYPE_CHECKING:
    from penstock.engines.spark.engine import SparkEngine

_ROUNDS = 3
_TRIES = 5


def possible(pipeline: RunningPipeline) -> bool:
    """Whether a replay in other batches leads to the same state, and its output can be dropped."""
    body = pipeline.stateful.body if pipeline.stateful is not None else None
    clocked = pipeline.stateful and any(
        lag is not None for lag in pipeline.site.times.follows.get(pipeline.stateful.name, ())
    )
    return not pipeline.foreign and pipeline.native_sink is None and not clocked and _timeless(body)


def _timeless(body: object) -> bool:
    """What a watermark or a clock drops or emits depends on where one batch ends."""
    match body:
        case op.Aggregate(window=window):
            return window is None
        case op.Deduplicate(on=on):
            return on is None
        case op.Process(time_mode=mode):
            return mode == "none"
        case op.Join(how=how, left_watermark=left, right_watermark=right):
            return how == "inner" and left is None and right is None
    return False


class Shadow:
    """The successor of a running pipeline, before it is in force."""

    def __init__(
        self, engine: SparkEngine, old: RunningPipeline, spec: Pipeline, parts: int
    ) -> None:
        assert old.stateful is not None
        self._engine = engine
        self._old = old
        epoch = engine.wiring.number + 1
        name = f"state-{old.stateful.name}-{epoch:06d}"
        folder = engine.site.directory / "checkpoints" / name
        engine.hold(old)
        first = copy(old.checkpoint, folder, old.wired)
        repartition(engine.spark, folder, parts)
        self.wired = Wired(name, epoch, first, parts)
        self.running = engine.open_shadow(spec, self.wired)

    def approach(self) -> None:
        """Come as close as one can get to a pipeline that goes on."""
        self.running.turn(limits=dict(self._old.positions), admission=None, cadence=0.0)
        self.running.start()
        for _ in range(_ROUNDS):
            self.reach(dict(self._old.positions))

    def reach(self, positions: Mapping[str, int]) -> None:
        """Come to where the pipeline has come, by the rows that it has read of each input."""
        goal = {entry.key: positions[entry.key] for entry in self.running.inputs}
        self.running.turn(limits=goal)
        self._engine.wait(lambda: self._at() == goal or self.running.failure() is not None)
        error = self.running.failure()
        if error is not None:
            raise error

    def _at(self) -> Mapping[str, int]:
        done = checkpoint.committed(self.running.checkpoint, self.wired.epoch)
        return {**self.wired.first, **done}

    def go_live(self, limits: Mapping[str, int]) -> None:
        """Deliver from the next batch on."""
        self.running.go_live(self._at(), limits=dict(limits), **self.running.usual)

    def dismiss(self) -> None:
        """It is not needed after all."""
        self.running.stop()
        self._engine.let_go(self._old.name)
        dead_letters.forget(self._engine.site.dead, self.running.lettering, self.wired.epoch)
        shutil.rmtree(self.running.checkpoint, ignore_errors=True)


def copy(source: Path, target: Path, wired: Wired) -> dict[str, int]:
    """A checkpoint as of its last commit, as links, under an id of its own; where it has read to.

    Spark never writes into a file that is there, so links are copies. What it deletes while we
    look is older than the last commit, or comes again under another name: then once more.
    """
    for _ in range(_TRIES):
        shutil.rmtree(target, ignore_errors=True)
        number = checkpoint.last_commit(source)
        try:
            shutil.copytree(source, target, copy_function=os.link, ignore=_later(source, number))
        except (shutil.Error, FileNotFoundError):
            continue
        (target / "metadata").unlink()
        (target / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        checkpoint.come_home(target)
        return {**wired.first, **checkpoint.committed(target, wired.epoch)}
    raise OSError(f"cannot copy {source}: it changes faster than it can be read")


def _later(root: Path, commit: int) -> Callable[[str, list[str]], list[str]]:
    """What not to copy: batches after a commit, and what is hidden, such as drafts and checksums.

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
