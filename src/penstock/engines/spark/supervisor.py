"""Looks after the pipelines of a flow: reads what is new, mends what broke, cleans up behind."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from penstock.engines.spark.changes.interruption import Changes
from penstock.engines.spark.measuring.gauges import Gauges
from penstock.engines.spark.measuring.observer import Observer
from penstock.engines.spark.queries import diagnosis
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.run_context import Site
from penstock.errors import FlowFailed

_RESTARTS = 3
_TICK = 0.1
_MARK = re.compile(r"\[penstock\] (operator '.*)")
"""What the error of an operator that is set to fail begins with."""


class Supervisor:
    """Ticks in a thread of its own, and whenever somebody waits for the flow.

    `lock` is held during a tick; `failure` says why the flow stopped by itself, if it did.
    """

    def __init__(
        self,
        site: Site,
        pipelines: Mapping[str, RunningPipeline],
        observer: Observer,
        gauges: Gauges,
        changes: Changes,
        lock: threading.RLock,
    ) -> None:
        self._site = site
        self._pipelines = pipelines
        self._observer = observer
        self._gauges = gauges
        self._changes = changes
        self._lock = lock
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
        """Read what is new, mend what broke, clean up behind the readers."""
        with self._lock:
            for pipeline in tuple(self._pipelines.values()):
                if self._observer.take(pipeline):
                    self._restarts[pipeline.name] = 0
                    self._hasten(pipeline)
                error = pipeline.failure()
                if error is not None:
                    self._mend(pipeline, error)
            self._clean()
            self._look_at_changes()

    def _hasten(self, pipeline: RunningPipeline) -> None:
        """Let a pipeline that began with a few rows take more of them."""
        last, valve = self._observer.last(pipeline.name), pipeline.valve
        if last is None or not valve.open:
            return
        pace = self._site.pace
        rows = pace.hastened(pipeline.spec, valve.admission, last.rows_in, last.seconds)
        if rows:
            pipeline.turn(admission=rows)

    def keep_rows(self, name: str, rows: Mapping[str, int]) -> None:
        """Keep rows in channels, from these on, until `release_rows` is called with that name."""
        with self._lock:
            self._kept[name] = rows

    def release_rows(self, name: str) -> None:
        with self._lock:
            self._kept.pop(name, None)

    def give_up(self, reason: str) -> None:
        """Stop everything: the flow cannot go on."""
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
            except Exception as error:  # a flow that nobody watches must not go on
                self.give_up(f"the supervisor failed: {type(error).__name__}: {error}")

    def _mend(self, pipeline: RunningPipeline, error: BaseException) -> None:
        """Restart a failed pipeline alone, from its last commit; give up after a few times."""
        tries = self._restarts.get(pipeline.name, 0) + 1
        self._restarts[pipeline.name] = tries
        said = _MARK.search(str(error))
        if said is None and tries <= _RESTARTS:
            with suppress(Exception):  # the next look will find it, and count it as another try
                pipeline.restart()
            return
        self.give_up(said[1] if said else diagnosis.told(pipeline, error, tries))

    def _clean(self) -> None:
        for operator, channel in tuple(self._site.channels.items()):
            kept = [rows[operator] for rows in self._kept.values() if operator in rows]
            channel.clean(min([self._gauges.slowest(operator), *kept]))

    def _look_at_changes(self) -> None:
        watched = self._changes.watched
        if watched is not None:
            concerned = [p for p in tuple(self._pipelines.values()) if watched.touches(p.spec)]
            waiting = self._gauges.waiting(concerned)
            self._changes.look(self._observer.outputs, waiting, time.time())
