"""Restarts failed pipelines, deletes consumed rows, and watches the executors."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.engines.spark.changes.executors import ClusterExecutors
from penstock.engines.spark.changes.transitions import TransitionLog
from penstock.engines.spark.measuring.observer import Observer
from penstock.engines.spark.measuring.snapshots import Gauges
from penstock.engines.spark.queries import diagnosis
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.run_context import RunContext
from penstock.errors import FlowFailed
from penstock.metrics.events import Event, EventKind

log = logging.getLogger(__name__)

_RESTARTS = 3
"""Number of restarts without a finished batch before the flow gives up."""
_TICK = 0.1
_EXECUTOR_CHECK = 2.0
"""Seconds between two checks of a cluster's executors."""
_MARK = re.compile(r"\[penstock\] (operator '.*)")
"""Start of the error message of an operator with `on_error="fail"`."""
_UNREACHABLE = re.compile(
    r"Connection (refused|reset)|ConnectException|UnknownHost|TimeoutException|TimeoutError"
    r"|No route to host|Timed out waiting|not reachable|PATH_NOT_FOUND"
)
"""Matches error messages of a source that cannot be reached."""


class Supervisor:
    """Ticks in its own thread, and whenever another thread waits for the flow.

    `lock` is held during a tick; `failure`: why the flow stopped by itself, None if it did not.
    """

    def __init__(
        self,
        context: RunContext,
        pipelines: Mapping[str, RunningPipeline],
        observer: Observer,
        gauges: Gauges,
        changes: TransitionLog,
        executors: ClusterExecutors,
        events: EventLog,
        lock: threading.RLock,
    ) -> None:
        self._context = context
        self._pipelines = pipelines
        self._observer = observer
        self._gauges = gauges
        self._changes = changes
        self._lock = lock
        self._executors = executors
        self._events = events
        self._known_executors: set[str] | None = None
        self._checked = 0.0  # when the executors were checked last
        self._unreachable: set[str] = set()  # pipelines that cannot reach their source
        self._restarts: dict[str, int] = {}
        self._kept: dict[str, Mapping[str, int]] = {}
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-supervisor", daemon=True)
        self.failure: FlowFailed | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._halt.set()
        self._thread.join()

    def tick(self) -> None:
        """Read new reports, restart failed pipelines, delete rows that all readers have."""
        with self._lock:
            for pipeline in tuple(self._pipelines.values()):
                if self._observer.take(pipeline):
                    self._recovered(pipeline)
                    self._enlarge_batches(pipeline)
                error = pipeline.failure()
                if error is not None:
                    self._restart_failed(pipeline, error)
            self._clean()
            self._look_at_changes()
            self._look_at_executors()

    def _enlarge_batches(self, pipeline: RunningPipeline) -> None:
        """Raise the batch limit of a pipeline that started with small batches."""
        last, valve = self._observer.last(pipeline.name), pipeline.valve
        if last is None or not valve.open:
            return
        pace = self._context.pace
        rows = pace.enlarged_batch(pipeline.spec, valve.admission, last.rows_in, last.seconds)
        if rows:
            pipeline.turn(admission=rows)

    def keep_rows(self, name: str, rows: Mapping[str, int]) -> None:
        """Keep channel rows from these positions on until `release_rows` is called.

        name: identifies the reservation; rows: first row to keep, by writing operator.
        """
        with self._lock:
            self._kept[name] = rows

    def release_rows(self, name: str) -> None:
        with self._lock:
            self._kept.pop(name, None)

    def give_up(self, reason: str) -> None:
        """Stop all pipelines because the flow cannot continue."""
        log.error("the flow gives up: %s", reason)
        with self._lock:
            self.failure = FlowFailed(reason)
            for pipeline in self._pipelines.values():
                pipeline.stop()

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _watch(self) -> None:
        while not self._halt.wait(_TICK):
            if self.failure is not None:
                continue
            try:
                self.tick()
            except Exception as error:  # an unsupervised flow must not go on
                self.give_up(f"the supervisor failed: {type(error).__name__}: {error}")

    def _restart_failed(self, pipeline: RunningPipeline, error: BaseException) -> None:
        """Restart a failed pipeline from its last commit; give up after several tries."""
        tries = self._restarts.get(pipeline.name, 0) + 1
        self._restarts[pipeline.name] = tries
        said = _MARK.search(str(error))
        if said is None and tries <= _RESTARTS:
            self._report(pipeline, error, tries)
            with suppress(Exception):  # the next tick finds the failure and counts another try
                pipeline.restart()
            return
        self.give_up(said[1] if said else diagnosis.failure_message(pipeline, error, tries))

    def _report(self, pipeline: RunningPipeline, error: BaseException, tries: int) -> None:
        why = diagnosis.reason(str(error))
        if pipeline.spark_sources and _UNREACHABLE.search(str(error)):
            names = ", ".join(source.name for source in pipeline.spark_sources)
            self._unreachable.add(pipeline.name)
            self._events.add(EventKind.SOURCE_UNREACHABLE, f"source {names}: {why}", pipeline.name)
        text = f"pipeline {pipeline.name} has failed and is restarted (try {tries} of {_RESTARTS})"
        self._events.add(EventKind.RESTART, f"{text}: {why}", pipeline.name)

    def _recovered(self, pipeline: RunningPipeline) -> None:
        """End a series of restarts, because the pipeline has finished a batch."""
        if self._restarts.pop(pipeline.name, 0) == 0:
            return
        self._events.add(EventKind.RECOVERED, f"pipeline {pipeline.name} runs again", pipeline.name)
        if pipeline.name in self._unreachable:
            self._unreachable.remove(pipeline.name)
            names = ", ".join(source.name for source in pipeline.spark_sources)
            self._events.add(EventKind.SOURCE_BACK, f"source {names}", pipeline.name)

    def _look_at_executors(self) -> None:
        """Report executors that were added or lost since the last check."""
        now = time.monotonic()
        if self._executors.fixed or now - self._checked < _EXECUTOR_CHECK:
            return
        self._checked = now
        there = set(self._executors.ids())
        known = there if self._known_executors is None else self._known_executors
        self._known_executors = there
        for name in sorted(there - known):
            self._events.add(EventKind.EXECUTOR_ADDED, f"executor {name}")
        gone = known - there - self._executors.released
        for name in sorted(gone) if not self._executors.dynamic else ():  # Spark removed them
            self._events.add(EventKind.EXECUTOR_LOST, f"executor {name}")

    def _clean(self) -> None:
        for operator, channel in tuple(self._context.channels.items()):
            kept = [rows[operator] for rows in self._kept.values() if operator in rows]
            channel.clean(min([self._gauges.slowest(operator), *kept]))

    def _look_at_changes(self) -> None:
        watched = self._changes.watched
        if watched is not None:
            concerned = [p for p in tuple(self._pipelines.values()) if watched.touches(p.spec)]
            waiting = self._gauges.waiting(concerned)
            self._changes.look(self._observer.outputs, waiting, time.time())


class EventLog:
    """Queue of events; `add` may be called from any thread.

    clock: returns the seconds since the start of the run.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[Event] = deque(maxlen=1000)

    def add(self, kind: EventKind, text: str, pipeline: str | None = None) -> None:
        event = Event(self._clock(), kind, text, pipeline)
        self._waiting.append(event)
        log.log(logging.WARNING if event.is_problem else logging.INFO, "%s: %s", kind, text)

    def take(self) -> tuple[Event, ...]:
        """Remove and return the waiting events, oldest first."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return tuple(taken)
