"""Steps of a change: frozen values that can be run, undone and journaled.

A step must be able to run twice, and to be undone without having begun, because of crashes. A new
kind of step needs a class here, its methods in `Pipelines`, and its place in the planner.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from penstock.dataflow.graph import Graph
from penstock.engines.spark.changes import wiring as wirings
from penstock.errors import Refused, RunDirectoryError
from penstock.plan.plan import Pipeline, Plan
from penstock.store.run_directory import Wired, Wiring
from penstock.store.serialization import plain, restored

EXECUTORS, PREPARE, QUIESCE = "executors", "prepare", "quiesce"
HAND_OVER, REPARTITION, RESTART = "hand over", "repartition", "restart"
"""Phases by which a transition reports the time of its steps."""


class Pipelines(Protocol):
    """Operations of a running flow that steps need. Pipelines are given by name."""

    @property
    def graph(self) -> Graph: ...

    @property
    def wiring(self) -> Wiring:
        """The wiring in force."""

    def channel_end(self, operator: str) -> int:
        """Number of rows that an operator has written to its channel so far."""

    # --- stopping a pipeline, and resuming it

    def empty(self, pipeline: str, inside: tuple[str, ...], instances: int, final: bool) -> None:
        """Let a pipeline read its inputs `inside` to their end, then close its valve."""

    def stop(self, pipeline: str) -> Mapping[str, int]:
        """Stop a pipeline between two batches; return the rows it has read, by input."""

    def resume(self, pipeline: str) -> None:
        """Undo `empty` and `stop`."""

    # --- a successor beside a running pipeline

    def keep_rows(self, pipeline: str) -> None:
        """Keep rows that the pipeline has not committed, even after it commits them."""

    def release_rows(self, pipeline: str) -> None: ...

    def copy_checkpoint(self, pipeline: str, checkpoint: str) -> Mapping[str, int]:
        """Copy a running pipeline's checkpoint; return the rows read by then, by input."""

    def start_successor(self, spec: Pipeline, wired: Wired) -> None:
        """Start the successor of a running pipeline. It catches up but delivers nothing."""

    def catch_up(self, pipeline: str, positions: Mapping[str, int]) -> None:
        """Let a successor read up to these rows."""

    def stop_successor(self, spec: Pipeline, epoch: int) -> None: ...

    # --- state and checkpoints

    def repartition(self, checkpoint: str, partitions: int, guarded: bool) -> bool:
        """Repartition state at rest; return False if that was not needed.

        guarded: keep a copy for `restore`.
        """

    def restore(self, checkpoint: str) -> None:
        """Undo a guarded `repartition`."""

    def discard(self, checkpoint: str) -> None:
        """Delete a checkpoint and its copies."""

    def discard_copy(self, checkpoint: str) -> None:
        """Delete the copy that a guarded `repartition` kept."""

    # --- the new wiring

    def commit(self, wiring: Wiring) -> None:
        """Put a wiring in force, which is the instant of the change."""

    def start(self, pipeline: str) -> None: ...

    def switch_over(self, pipeline: str) -> None:
        """Let a successor deliver from its next batch on."""

    def adjust(self, spec: Pipeline) -> None:
        """Set a running pipeline's parallelism, admission and cadence."""

    def add_executors(self, total: int) -> None: ...

    def remove_executors(self, total: int, leaving: tuple[str, ...]) -> None: ...

    def spread_state(self, pipeline: str) -> bool:
        """Spread a pipeline's state evenly over executors; return False if none moves."""


@dataclass
class Results:
    """Results of the finished steps of a change."""

    positions: dict[str, int] = field(default_factory=dict)
    """Rows that stopped pipelines have read, by input."""
    copied: dict[str, dict[str, int]] = field(default_factory=dict)
    """Rows read as of a copied checkpoint, by pipeline and input."""
    moved: list[str] = field(default_factory=list)
    """Pipelines whose state was moved."""

    def has_moved(self, pipeline: str) -> None:
        if pipeline not in self.moved:
            self.moved.append(pipeline)


@dataclass(frozen=True)
class Step:
    """One step of a change.

    phase: phase by which its time is reported, None for no report. on_disk: effects outlive the
    process; effects of other steps end with it.
    """

    phase: ClassVar[str | None] = None
    on_disk: ClassVar[bool] = False

    def run(self, flow: Pipelines, results: Results) -> None:
        raise NotImplementedError

    def undo(self, flow: Pipelines) -> None:
        """Undo the step, whether it is finished, half done or not begun."""


# --- before the commit: all of these can be undone ------------------------------------------------


@dataclass(frozen=True)
class AddExecutors(Step):
    """Wait until there are `total` executors."""

    phase: ClassVar[str | None] = EXECUTORS
    before: int
    total: int

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.add_executors(self.total)

    def undo(self, flow: Pipelines) -> None:
        with suppress(Refused):  # unneeded executors do no harm
            flow.remove_executors(self.before, ())


@dataclass(frozen=True)
class KeepRows(Step):
    """Keep the rows that a successor will have to read again."""

    phase: ClassVar[str | None] = PREPARE
    pipeline: str

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.keep_rows(self.pipeline)

    def undo(self, flow: Pipelines) -> None:
        flow.release_rows(self.pipeline)


@dataclass(frozen=True)
class CopyCheckpoint(Step):
    """Copy the checkpoint of a running pipeline for its successor."""

    phase: ClassVar[str | None] = PREPARE
    on_disk: ClassVar[bool] = True
    pipeline: str
    checkpoint: str
    partitions: int

    def run(self, flow: Pipelines, results: Results) -> None:
        results.copied[self.pipeline] = dict(flow.copy_checkpoint(self.pipeline, self.checkpoint))
        flow.repartition(self.checkpoint, self.partitions, guarded=False)

    def undo(self, flow: Pipelines) -> None:
        flow.discard(self.checkpoint)


@dataclass(frozen=True)
class StartSuccessor(Step):
    """Start the successor on the copied checkpoint."""

    phase: ClassVar[str | None] = PREPARE
    on_disk: ClassVar[bool] = True
    spec: Pipeline
    checkpoint: str
    epoch: int
    partitions: int

    @property
    def pipeline(self) -> str:
        return self.spec.name

    def run(self, flow: Pipelines, results: Results) -> None:
        first = results.copied[self.pipeline]
        wired = Wired(self.checkpoint, self.epoch, first, self.partitions)
        flow.start_successor(self.spec, wired)

    def undo(self, flow: Pipelines) -> None:
        flow.stop_successor(self.spec, self.epoch)


@dataclass(frozen=True)
class Empty(Step):
    """Let a pipeline read the rest of its input, and take in nothing new.

    inside: upstream operators that stop before it, so their channels are read to the end;
    instances: number to use for that, including slots that upstream pipelines have freed; final:
    nothing is started afterwards, so windows have to close now.
    """

    phase: ClassVar[str | None] = QUIESCE
    pipeline: str
    inside: tuple[str, ...]
    instances: int
    final: bool = False

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.empty(self.pipeline, self.inside, self.instances, self.final)

    def undo(self, flow: Pipelines) -> None:
        flow.resume(self.pipeline)


@dataclass(frozen=True)
class StopPipeline(Step):
    """Stop an empty pipeline between two batches."""

    phase: ClassVar[str | None] = QUIESCE
    pipeline: str

    def run(self, flow: Pipelines, results: Results) -> None:
        results.positions |= flow.stop(self.pipeline)

    def undo(self, flow: Pipelines) -> None:
        flow.resume(self.pipeline)


@dataclass(frozen=True)
class HandOver(Step):
    """Let the successor read up to the row at which its pipeline stopped."""

    phase: ClassVar[str | None] = HAND_OVER
    pipeline: str

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.catch_up(self.pipeline, results.positions)
        results.has_moved(self.pipeline)


@dataclass(frozen=True)
class Repartition(Step):
    """Repartition the state of a stopped pipeline."""

    phase: ClassVar[str | None] = REPARTITION
    on_disk: ClassVar[bool] = True
    pipeline: str
    checkpoint: str
    partitions: int

    def run(self, flow: Pipelines, results: Results) -> None:
        if flow.repartition(self.checkpoint, self.partitions, guarded=True):
            results.has_moved(self.pipeline)

    def undo(self, flow: Pipelines) -> None:
        flow.restore(self.checkpoint)


# --- the commit ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommitWiring(Step):
    """Put the new wiring in force; pipelines not in `changed` keep their entries."""

    number: int
    plan: Plan
    changed: tuple[str, ...]
    successors: Mapping[str, Wired]
    """Wiring of successors; first rows are known only once checkpoints are copied."""

    def run(self, flow: Pipelines, results: Results) -> None:
        if flow.wiring.number >= self.number:
            return
        ready = {
            name: Wired(wired.checkpoint, wired.epoch, results.copied[name], wired.partitions)
            for name, wired in self.successors.items()
        }
        flow.commit(
            wirings.following(
                flow.graph,
                flow.wiring,
                self.plan,
                self.changed,
                results.positions,
                flow.channel_end,
                ready,
            )
        )


# --- after the commit: these are repeated until they succeed --------------------------------------


@dataclass(frozen=True)
class SwitchOver(Step):
    """Let a successor deliver instead of its pipeline."""

    pipeline: str

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.switch_over(self.pipeline)
        flow.release_rows(self.pipeline)


@dataclass(frozen=True)
class StartPipeline(Step):
    """Start a pipeline of the new wiring."""

    phase: ClassVar[str | None] = RESTART
    pipeline: str

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.start(self.pipeline)


@dataclass(frozen=True)
class Adjust(Step):
    """Set the new parallelism, admission and cadence of a pipeline that goes on."""

    spec: Pipeline

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.adjust(self.spec)


@dataclass(frozen=True)
class DiscardCheckpoint(Step):
    """Delete a checkpoint that the new wiring does not name."""

    on_disk: ClassVar[bool] = True
    checkpoint: str

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.discard(self.checkpoint)


@dataclass(frozen=True)
class DiscardCopy(Step):
    """Delete the copy of a checkpoint made before its state was repartitioned."""

    on_disk: ClassVar[bool] = True
    checkpoint: str

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.discard_copy(self.checkpoint)


@dataclass(frozen=True)
class RemoveExecutors(Step):
    """Remove executors: named ones first, then those with least state."""

    phase: ClassVar[str | None] = EXECUTORS
    total: int
    leaving: tuple[str, ...] = ()

    def run(self, flow: Pipelines, results: Results) -> None:
        flow.remove_executors(self.total, self.leaving)


@dataclass(frozen=True)
class SpreadState(Step):
    """Spread a pipeline's state over the current executors."""

    pipeline: str

    def run(self, flow: Pipelines, results: Results) -> None:
        if flow.spread_state(self.pipeline):
            results.has_moved(self.pipeline)


# --- as JSON -------------------------------------------------------------------------------------

KINDS: Mapping[str, type[Step]] = {kind.__name__: kind for kind in Step.__subclasses__()}


def to_json(step: Step) -> dict[str, Any]:
    return {"step": type(step).__name__, **plain(step)}


def from_json(data: Mapping[str, Any]) -> Step:
    """Step that `to_json` wrote. Raises `RunDirectoryError` for an unknown kind."""
    kind = KINDS.get(data["step"])
    if kind is None:
        raise RunDirectoryError(
            f"a change was interrupted at a step '{data['step']}' that this version does not "
            "know; finish that run with the version that began it"
        )
    return restored(kind, {name: value for name, value in data.items() if name != "step"})
