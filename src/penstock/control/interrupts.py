"""Counts Ctrl-C instead of raising an exception in the middle of something."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While entered, counts Ctrl-C (and SIGTERM) instead of raising.

    The handler only counts, because the code it interrupts may hold any lock; the caller polls.
    One means finish, two mean stop at once. In case the caller does not poll, the third raises
    `KeyboardInterrupt`. Outside the main thread, which alone has signal handlers, it counts none.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    @property
    def finish(self) -> bool:
        return self.count >= 1

    @property
    def at_once(self) -> bool:
        return self.count >= 2

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._before:
            number, handler = self._before.popitem()
            # None stands for a handler that was not installed from Python and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt
