"""Which turns of a long run need not be kept any more.

The newest `FULL` turns are kept whole, of ten times as many before them each 10th, of a hundred
times as many before those each 100th, and so on: at a turn a second an hour, then ten hours, then
four days. So a history grows by `FULL` turns each time a run gets ten times longer.
"""

from __future__ import annotations

from collections.abc import Iterator

FULL = 3600
NEWS = 10_000
"""Turns with news in them are kept whatever their age; so many of them at most."""


def leaving(turn: int, full: int = FULL) -> Iterator[int]:
    """The turns that go when one is written; if asked at each, all that should go have gone."""
    step, age = 1, 0
    while (age := age + full * step) < turn:
        step *= 10
        if (turn - age) % step:
            yield turn - age
