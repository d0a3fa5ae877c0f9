"""The event-time marks that the inputs of a pipeline bring, and the clock that makes some."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.dataflow.operators import Operator
from penstock.engines.spark.channels import event_clock
from penstock.engines.spark.channels.event_clock import UNKNOWN, EventClock
from penstock.engines.spark.pipeline_graph import Input
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.compiler import CLOCK
from penstock.engines.spark.run_context import RunContext


class PipelineMarks:
    """What a pipeline reads beside rows from the logs of its channels (see `event_clock`).

    tail: the operator whose output leaves the pipeline.
    """

    def __init__(
        self,
        context: RunContext,
        stateful: Operator | None,
        tail: str,
        folder: Path,
        epoch: int,
    ) -> None:
        self._context = context
        self._tail = tail
        self._folder = folder
        self._epoch = epoch
        name = stateful.name if stateful is not None else ""
        self._operator = name
        self._origin, self.delay = context.times.clocks.get(name, ("", 0))
        self._file = context.directory / "control" / f"{name}.clock"

    @property
    def clocked(self) -> bool:
        """True if a clock makes the watermark of the stateful operator."""
        return bool(self._origin)

    def follows_clock(self, entry: Input) -> bool:
        """True if the rows of an input go into the operator with the clock."""
        reached = self._context.graph.reachable(entry.operator)
        return self.clocked and bool(entry.upstream) and self._operator in reached

    def passes_on(self, entry: Input) -> bool:
        """True if what an input's log says of origins goes on to the output."""
        if not entry.upstream or self.follows_clock(entry):
            return False
        times, graph = self._context.times, self._context.graph
        return all(times.notes_origins(graph, end) for end in (entry.upstream, self._tail))

    def options(self, entry: Input) -> dict[str, str]:
        """Options of the source that reads an input."""
        if self.follows_clock(entry):
            return {"clock": str(self._file), "origin": self._origin}
        return {"entries": "true"} if self.passes_on(entry) else {}

    def owed(self, entry: Input) -> bool:
        """True if an input's log holds a mark, or origins, that no batch has brought yet."""
        channel = self._context.channel(entry.upstream)
        if self.passes_on(entry):
            last = channel.entry(channel.end)
            come = checkpoint.entries(self._folder, self._epoch).get(entry.key, -1)
            if last is not None and come < last:
                return True
        if self.follows_clock(entry):
            low, _ = self._context.origins(entry.upstream, channel.end)[self._origin]
            there = EventClock.load(self._file, self._origin).at(low)
        elif self._context.times.marked(entry.upstream):
            there = channel.mark
        else:
            return False
        done = checkpoint.marks(self._folder, self._epoch).get(entry.key)
        return there is not None and (done is None or done < there)

    def set_clock(self, inputs: Iterable[Input], batch: int, metrics: Any) -> None:
        """Set the clock by a batch that was delivered; before its commit, so it is never lost.

        metrics: what Spark observed in the batch.
        """
        if not metrics.contains(CLOCK):
            return
        rows = checkpoint.planned(self._folder, self._epoch, batch)
        entries = [entry for entry in inputs if self.follows_clock(entry)]
        read = event_clock.merged(self._context.origins(i.upstream, rows[i.key]) for i in entries)
        low, high = read[self._origin]
        if high == UNKNOWN:
            return
        row = metrics.apply(CLOCK)
        latest = None if row.isNullAt(0) else int(row.getLong(0))
        EventClock.load(self._file, self._origin).after(low, high, latest).save(self._file)
