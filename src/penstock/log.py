"""Where the log records of Penstock go. The library itself is silent: it only has a NullHandler."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import MemoryHandler, RotatingFileHandler
from pathlib import Path
from typing import IO

FILE = "penstock.log"
"""The log in a run directory."""

_LOGGER = logging.getLogger("penstock")
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_SIZE, _BACKUPS = 1_000_000, 3


def to_stderr(level: int = logging.INFO, stream: IO[str] | None = None) -> logging.Handler:
    """Write records of at least a level to stderr. Returns the handler, for `remove`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter("penstock: %(levelname)s: %(name)s: %(message)s"))
    return _add(handler, level)


def to_file(path: Path, level: int = logging.INFO) -> logging.Handler:
    """Write records of at least a level to a file. Returns the handler, for `remove`.

    The file is rotated: it and its three predecessors have at most 1 MB each. Records of other
    packages, such as py4j, are not in it.
    """
    return _add(_file_handler(path), level)


def remove(handler: logging.Handler) -> None:
    """Stop writing to a handler, and close it."""
    _LOGGER.removeHandler(handler)
    handler.close()
    if all(isinstance(one, logging.NullHandler | _ToApplication) for one in _LOGGER.handlers):
        for forwarding in [h for h in _LOGGER.handlers if isinstance(h, _ToApplication)]:
            _LOGGER.removeHandler(forwarding)
            _LOGGER.setLevel(forwarding.before)
            _LOGGER.propagate = True


@contextmanager
def buffered() -> Iterator[_Buffer]:
    """Collect records until `open` says to which file they go: nothing else is written before.

    A run directory is only written to when the engine has accepted it.
    """
    buffer = _Buffer()
    _add(buffer, logging.INFO)
    try:
        yield buffer
    finally:
        remove(buffer)


class _Buffer(MemoryHandler):
    def __init__(self) -> None:
        super().__init__(capacity=1000, flushLevel=logging.DEBUG, flushOnClose=False)

    def open(self, path: Path) -> None:
        """Write what was collected to a file, and from now on every record at once."""
        self.setTarget(_file_handler(path))
        self.flush()

    def shouldFlush(self, record: logging.LogRecord) -> bool:
        return self.target is not None or len(self.buffer) >= self.capacity

    def flush(self) -> None:
        if self.target is None:
            del self.buffer[: -self.capacity]
        else:
            super().flush()

    def close(self) -> None:
        target = self.target
        super().close()
        if target is not None:
            target.close()


def _file_handler(path: Path) -> logging.Handler:
    handler = RotatingFileHandler(path, "a", _SIZE, _BACKUPS, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter(_FORMAT))
    return handler


def _add(handler: logging.Handler, level: int) -> logging.Handler:
    handler.setLevel(level)
    if not _LOGGER.isEnabledFor(level):
        if not any(isinstance(one, _ToApplication) for one in _LOGGER.handlers):
            _LOGGER.addHandler(_ToApplication())
            _LOGGER.propagate = False
        _LOGGER.setLevel(level)
    _LOGGER.addHandler(handler)
    return handler


class _ToApplication(logging.Handler):
    """Passes records on to the root logger's handlers as if our level had not been lowered."""

    def __init__(self) -> None:
        super().__init__(_LOGGER.getEffectiveLevel())
        self.before = _LOGGER.level

    def emit(self, record: logging.LogRecord) -> None:
        for handler in logging.getLogger().handlers:
            if record.levelno >= handler.level:
                handler.handle(record)
