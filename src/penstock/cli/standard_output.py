"""Standard output and standard error, kept apart from what Spark writes to them.

Spark's JVM and its workers write to the file descriptors 1 and 2 directly, past Python. So where
standard output must hold one JSON object, or the terminal a live view, the descriptors themselves
are redirected before the JVM starts and inherits them.
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
    """The command's own standard output `out` and standard error `err`.

    json: what others write to standard output goes to standard error. quiet: all that others
    write goes to a log file, `log`. spark: only what they write to descriptor 2 goes there;
    Python's `sys.stderr` stays where it was.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False, spark: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.spark = spark
        self.log: Path | None = None
        self.out: TextIO = sys.stdout
        self.err: TextIO = sys.stderr
        self._stdout, self._stderr = sys.stdout, sys.stderr
        self._saved: dict[int, int] = {}

    def __enter__(self) -> Streams:
        if self.json or self.quiet:
            self.out = self._own(1)
        if self.quiet or self.spark:
            self.err = self._own(2)
            handle, name = tempfile.mkstemp(prefix="penstock-", suffix=".log")
            self.log = Path(name)
            os.dup2(handle, 2)
            os.close(handle)
        others = 2  # where standard output of others goes
        if self.spark and not self.quiet:
            sys.stderr, others = self.err, self.err.fileno()
        if 1 in self._saved:
            os.dup2(others, 1)
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
        """Move the log into the directory of a run that went well."""
        if self.log is not None and self.log.stat().st_size > 0:
            with suppress(OSError):
                self.log = Path(shutil.move(self.log, run_dir / "spark.log"))

    def print(self, shown: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Print one JSON object if that is asked for, else the lines."""
        for line in [json.dumps(shown, indent=2)] if self.json else lines:
            print(line, file=self.out, flush=True)

    def render(self, shown: Mapping[str, Any], parts: Iterable[Any]) -> None:
        """Print one JSON object if that is asked for, else tables and texts of Rich."""
        if self.json:
            self.print(shown, ())
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(file=self.out)
        for part in parts:
            console.print(
                part, soft_wrap=isinstance(part, str | Text), markup=False, highlight=False
            )

    def note(self, message: str) -> None:
        """Print a line for people to standard error."""
        print(f"penstock: {message}", file=self.err, flush=True)

    def _own(self, number: int) -> TextIO:
        """A text stream to where a descriptor points now."""
        (sys.stdout if number == 1 else sys.stderr).flush()
        self._saved[number] = os.dup(number)
        return open(self._saved[number], "w", encoding="utf-8", closefd=False, buffering=1)
