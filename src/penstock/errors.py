"""Everything Penstock raises, in one tree.

PenstockError
├── InvalidDataflow      the dataflow has problems; all of them are listed at once
├── InvalidPlan          a plan that does not fit its dataflow
├── InvalidInput         something the user wrote cannot be read (load, duration, path ...)
├── Refused              a valid request that cannot be carried out now; nothing was changed
├── RunDirectoryError    the run directory belongs to another dataflow, version or process
└── FlowFailed           the running flow stopped because of an error in it

Every message is for a person: what is wrong, where it was written, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Location:
    """A line of a user's file."""

    file: str
    line: int

    def __str__(self) -> str:
        path = Path(self.file)
        try:
            return f"{path.relative_to(Path.cwd())}:{self.line}"
        except ValueError:
            return f"{path}:{self.line}"


UNKNOWN = Location("<unknown>", 0)


@dataclass(frozen=True)
class Problem:
    """One reason why a dataflow cannot run, and where it was written."""

    message: str
    operator: str | None = None
    written: Location | None = None

    def __str__(self) -> str:
        place = str(self.written) if self.written is not None and self.written.line > 0 else ""
        if self.operator is None:
            return f"{place}: {self.message}" if place else self.message
        return f"operator '{self.operator}'{f' ({place})' if place else ''}: {self.message}"


class PenstockError(Exception):
    """Base of all errors that Penstock raises on purpose."""


class InvalidDataflow(PenstockError):
    """The dataflow cannot run; `problems` holds every reason."""

    def __init__(self, flow: str, problems: Sequence[Problem]) -> None:
        self.flow = flow
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            super().__init__(f"dataflow '{flow}' has a problem: {self.problems[0]}")
            return
        head = f"dataflow '{flow}' has {len(self.problems)} problems:"
        super().__init__("\n".join([head, *(f"  - {p}" for p in self.problems)]))

    def __reduce__(self) -> tuple[type[InvalidDataflow], tuple[str, tuple[Problem, ...]]]:
        """Make it picklable, so that it can cross processes."""
        return type(self), (self.flow, self.problems)


class InvalidPlan(PenstockError):
    """The plan does not fit its dataflow."""


class InvalidInput(PenstockError):
    """Something the user wrote cannot be read."""


class Refused(PenstockError):
    """The request is valid but cannot be carried out now. Nothing was changed."""


class RunDirectoryError(PenstockError):
    """The run directory cannot be used for this run."""


class FlowFailed(PenstockError):
    """The flow stopped because an operator or Spark failed."""
