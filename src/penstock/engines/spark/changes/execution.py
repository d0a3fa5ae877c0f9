"""Runs the steps of a change, and completes or undoes it after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from penstock.engines.spark.changes.journal import Journal
from penstock.engines.spark.changes.steps import CommitWiring, Pipelines, Results, Step
from penstock.metrics.events import EventKind


class Undone(Exception):
    """A step failed before the commit, and the whole change was undone."""

    def __init__(self, step: Step, error: Exception) -> None:
        super().__init__(str(error))
        self.step = step
        self.error = error


class Execution:
    """Runs the steps of one change; `results` and `phases` are complete after `run`.

    phases: seconds by phase, in the order in which the phases began.
    """

    def __init__(
        self, flow: Pipelines, steps: Sequence[Step], clock: Callable[[], float] = time.time
    ) -> None:
        self.results = Results()
        self.phases: dict[str, float] = {}
        self._flow = flow
        self._steps = steps
        self._clock = clock

    def run(self, journal: Journal, reason: str) -> None:
        """Run all steps. Raises `Undone` if one fails before the commit."""
        number = next(s.number for s in self._steps if isinstance(s, CommitWiring))
        journal.begin(number, reason, self._steps)
        for at, step in enumerate(self._steps):
            try:
                self._run(step)
                journal.finished(at)
            except Exception as error:
                if self._flow.wiring.number >= number:
                    raise
                undo(self._flow, self._steps[: at + 1])
                journal.end("undone")
                raise Undone(step, error) from error
        journal.end("done")

    def run_unrecorded(self) -> None:
        """Run steps without a journal; they must leave nothing that a crash has to undo."""
        for step in self._steps:
            self._run(step)

    def _run(self, step: Step) -> None:
        began = self._clock()
        step.run(self._flow, self.results)
        if step.phase is not None:
            spent = self._clock() - began
            self.phases[step.phase] = self.phases.get(step.phase, 0.0) + spent


def undo(flow: Pipelines, steps: Sequence[Step]) -> None:
    """Undo steps in reverse order, including steps that were never begun."""
    for step in reversed(steps):
        step.undo(flow)


def recover(flow: Pipelines, journal: Journal) -> tuple[EventKind, str] | None:
    """Complete or undo the change that the previous process left unfinished.

    Call before any pipeline runs: all pipelines of the wiring in force are started afterwards, so
    only the effects of steps on disk matter. Returns the event to report, None if there was no such
    change.
    """
    left = journal.unfinished()
    if left is None:
        return None
    commit = next(at for at, s in enumerate(left.steps) if isinstance(s, CommitWiring))
    if flow.wiring.number < left.number:
        begun = left.steps[: left.finished + 1]
        undo(flow, [step for step in begun if step.on_disk])
        journal.end("undone")
        return EventKind.ROLLED_BACK, f"a crash cut off the change to wiring {left.number}"
    for step in left.steps[commit + 1 :]:
        if step.on_disk:
            step.run(flow, Results())
    journal.end("done")
    return EventKind.RECOVERED, f"the change to wiring {left.number} is finished after a crash"
