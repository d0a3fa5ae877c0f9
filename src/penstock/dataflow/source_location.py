"""Where the user wrote an operator, for messages and views."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

# not resolved: code objects carry the path the package was imported by, links included
_PACKAGE = f"{Path(__file__).parent.parent}/"


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


def caller() -> Location:
    """The nearest line on the stack that is not in this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)
