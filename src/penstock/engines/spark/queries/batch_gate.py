"""The gate before the batches of a query: holds those that have not begun yet.

Spark cuts off the batch that runs when a query is stopped. A sink that has got a part of it gets
that part again with the next start. So a query is stopped while its next batch waits here: then
the last one is committed, and of the next one nothing has been delivered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK = 0.02
"""Seconds between two looks of a batch that waits."""


class Gate:
    """Lets batches of one query begin, one at a time.

    inside: the batch that is under way; held: the batch that waits before the closed gate;
    pending: the batch that an earlier start of the query has planned and not committed. That one
    is always let in, because what it may have delivered is known by the batch's present name.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._ended = False
        self.pending = -1
        self.inside: int | None = None
        self.held: int | None = None

    def renew(self, pending: int) -> None:
        """The query is about to start. A gate that is closed stays closed."""
        with self._lock:
            self._ended = False
            self.pending, self.inside, self.held = pending, None, None

    def close(self) -> None:
        """Let no batch begin any more but a pending one."""
        with self._lock:
            self._closed = True

    def open(self) -> None:
        """Let batches begin, also the one that waits."""
        with self._lock:
            self._closed = False

    def end(self) -> None:
        """The query is about to stop: turn away the batch that waits."""
        with self._lock:
            self._ended = True

    def enter(self, batch: int, ready: Callable[[], bool]) -> bool:
        """Wait until a batch may begin and `ready` holds; False if its query is being stopped."""
        while True:
            may = ready()
            with self._lock:
                if self._ended:
                    return False
                if self._closed and batch != self.pending:
                    self.held = batch
                elif may:
                    self.inside, self.held = batch, None
                    return True
            time.sleep(_LOOK)

    def leave(self) -> None:
        """The batch that was let in has ended."""
        with self._lock:
            self.inside = None
