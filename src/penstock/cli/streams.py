"""Which file descriptor gets what.

Spark's JVM and the workers write to descriptors 1 and 2 directly, past Python. So where
standard output must hold one JSON object, or the terminal a live view, the descriptors
themselves are pointed elsewhere, before the JVM starts and inherits them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO


class Streams:
    """Our own way to standard output and error, whatever happens to the descriptors.

    json: what others write to standard output goes to standard error; quiet: what others
    write to either goes to a log file, `log`; apart: only what they write to standard error
    does, and Python's own way to it stays.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False, apart: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.apart = apart
        self.log: Path | None = None
        self.out: TextIO = sys.stdout
        self.err: TextIO = sys.stderr
        self._stdout, self._stderr = sys.stdout, sys.stderr
        self._saved: dict[int, int] = {}

    def __enter__(self) -> Streams:
        if self.json or self.quiet:
            self.out = self._own(1)
        if self.quiet or self.apart:
            self.err = self._own(2)
            handle, name = tempfile.mkstemp(prefix="penstock-", suffix=".log")
            self.log = Path(name)
            os.dup2(handle, 2)
            os.close(handle)
        rest = 2  # where what others write to standard output goes
        if self.apart and not self.quiet:
            sys.stderr, rest = self.err, self.err.fileno()
        if 1 in self._saved:
            os.dup2(rest, 1)
            sys.stdout = sys.stderr
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stdout, sys.stderr = self._stdout, self._stderr
        for stream in (sys.stdout, sys.stderr, self.out, self.err):
            with suppress(BrokenPipeError):
                stream.flush()
        while self._saved:
            number, saved = self._saved.popitem()
            os.dup2(saved, number)
            os.close(saved)
        self.out, self.err = sys.stdout, sys.stderr
        if self.log is not None and self.log.exists() and self.log.stat().st_size == 0:
            self.log.unlink()

    def keep_log(self, run_dir: Path) -> None:
        """The run went well: what Spark said belongs to it."""
        if self.log is not None and self.log.stat().st_size > 0:
            with suppress(OSError):
                self.log = Path(shutil.move(self.log, run_dir / "spark.log"))

    def _own(self, number: int) -> TextIO:
        """A text file of our own over where a descriptor points now."""
        (sys.stdout if number == 1 else sys.stderr).flush()
        self._saved[number] = os.dup(number)
        return open(self._saved[number], "w", encoding="utf-8", closefd=False, buffering=1)


def tell(streams: Streams, shown: Mapping[str, Any], lines: Iterable[str]) -> int:
    """Print one JSON object where that is asked for, else the lines; the exit code."""
    if streams.json:
        print(json.dumps(shown, indent=2), file=streams.out, flush=True)
    else:
        for line in lines:
            print(line, file=streams.out, flush=True)
    return 0
