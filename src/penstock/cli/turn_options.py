"""Options that select turns of a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.store.history import TurnTime

since = click.option(
    "--since", metavar="DURATION", help="Start at this time of the last run, e.g. 90s or 5m."
)
run = click.option(
    "--run",
    metavar="N",
    type=int,
    help="With a time: the Nth run of the directory, if it was continued (1: the first).",
)


def selected(home: Path, since: str | None, run: int | None) -> list[TurnTime]:
    """The turns from a time of a run on; all of them if neither is given."""
    from penstock.dataflow import duration
    from penstock.store import history

    moments = history.turn_times(home)
    if since is None and run is None:
        return moments
    start = 0.0 if since is None else duration.seconds(since)
    number = run_number(run, moments)
    found = [m for m in moments if m.run > number or (m.run == number and m.at >= start)]
    if not found:
        raise InvalidInput(f"nothing was measured in '{home}' since then")
    return found


def run_number(run: int | None, moments: list[TurnTime]) -> int:
    """The run with this number if there is one, the last run of the directory for None."""
    runs = sorted({m.run for m in moments})
    if run is None:
        return runs[-1] if runs else 0
    if run not in runs:
        there = ", ".join(map(str, runs)) or "none yet"
        raise InvalidInput(f"there is no run {run} in this directory: it has {there}")
    return run
