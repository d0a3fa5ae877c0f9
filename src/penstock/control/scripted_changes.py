"""Changes that were written down before the run: what, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.control.requests import Asked
from penstock.dataflow import duration
from penstock.errors import InvalidInput
from penstock.plan.request import Request, RequestList, parse


@dataclass(frozen=True)
class Scripted:
    """A request, and the second of the run at which it is made."""

    at: float
    request: Request

    def __str__(self) -> str:
        return f"{duration.text(self.at)}:{self.request}"


def parse_change(text: str) -> Scripted:
    """Read `20s:count=4`. Raises `InvalidInput`."""
    when, colon, what = text.partition(":")
    if not colon:
        raise InvalidInput(f"cannot read the change '{text}': write when and what, 20s:count=4")
    at = duration.seconds(when)
    if at < 0:
        raise InvalidInput(f"the change '{text}' comes before the start of the run")
    return Scripted(at, parse(what))


class Script:
    """Scripted changes in the order of their times; those that are due at once are one change."""

    def __init__(self, changes: Iterable[Scripted] = ()) -> None:
        self._left = sorted(changes, key=lambda change: change.at)

    @property
    def left(self) -> tuple[str, ...]:
        """Changes whose time has not come, as they are written."""
        return tuple(str(change) for change in self._left)

    def due(self, at: float) -> bool:
        return bool(self._left) and self._left[0].at <= at

    def take(self, at: float) -> Asked | None:
        """What is due; nobody will be told of it again."""
        due: list[Request] = []
        while self.due(at):
            due.append(self._left.pop(0).request)
        if not due:
            return None
        return Asked("scripted", due[0] if len(due) == 1 else RequestList(tuple(due)))
