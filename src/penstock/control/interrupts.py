"""Ctrl-C as a request that is counted, not as an exception in the middle of something."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While entered, counts Ctrl-C (and termination) instead of raising.

    The handler does nothing but count, because what it interrupts may hold any lock; the
    caller asks. One request means finish, two mean stop at once. Should the caller not come to
    look, the third raises `KeyboardInterrupt`. Outside the main thread, where Python has no
    signal handlers, it counts nothing.
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
            # None stands for a handler that was not installed from Python; it cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt
