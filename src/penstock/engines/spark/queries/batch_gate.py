"""The gate in front of a query's batches: holds the next batch so that a query can be stopped.

Spark interrupts the batch that runs when a query is stopped, and a sink that has received part of
it receives that part again after the next start. So a query is stopped while its next batch waits
here: then the last batch is committed, and nothing of the next one has been delivered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK = 0.02
"""Seconds after which a waiting batch checks the gate again."""


class Gate:
    """Lets batches of one query begin, one at a time.

    inside: the batch that is running; held: the batch that waits in front of the closed gate;
    pending: the batch that an earlier start of the query has planned and not committed. It may
    always begin, because what it has already delivered carries the name it has now.
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
        """Let no batch begin but a pending one."""
        with self._lock:
            self._closed = True

    def open(self) -> None:
        """Let batches begin, including the one that waits."""
        with self._lock:
            self._closed = False

    def end(self) -> None:
        """The query is about to stop: reject the batch that waits."""
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
