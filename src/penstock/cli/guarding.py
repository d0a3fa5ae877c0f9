"""The options of `run` that say what may be used, and when something may change."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.control.guard import Guard
    from penstock.plan.limits import Limits

_QUIET = (
    "when nothing may change: 22:00..06:00 (every day) or 10m..20m (of the run); may be given "
    "several times"
)


def add(run: argparse.ArgumentParser) -> None:
    """Make the options known to the parser of `run`."""
    run.add_argument("--advise", action="store_true", help="let the policy say what it would do")
    add_limits(run)
    run.add_argument("--cooldown", metavar="T", help="time between two changes (10s)")
    run.add_argument("--settle", metavar="T", help="wait so long for a backlog to go (30s)")
    run.add_argument("--undo", metavar="T", help="turn nothing back before that (30s)")
    run.add_argument("--horizon", metavar="T", help="time in which a change has to pay (5m)")
    run.add_argument("--quiet", metavar="A..B", action="append", default=[], help=_QUIET)


def add_limits(command: argparse.ArgumentParser) -> None:
    """The budget alone."""
    command.add_argument("--max-slots", metavar="N", type=int, help="instances in all, at most")
    command.add_argument("--max-executors", metavar="N", type=int, help="executors, at most")


def limits(given: argparse.Namespace) -> Limits:
    """The budget that was given."""
    from penstock.plan.limits import Limits

    return Limits(slots=given.max_slots, executors=given.max_executors)


def guard(given: argparse.Namespace) -> Guard:
    """The guard that was asked for; what was not said is as usual."""
    from penstock.control.guard import Guard
    from penstock.control.quiet_periods import Quiet
    from penstock.dataflow import duration

    words = {name: getattr(given, name) for name in ("cooldown", "settle", "undo", "horizon")}
    times = {name: duration.seconds(word) for name, word in words.items() if word is not None}
    return Guard(**times, quiet=tuple(Quiet.parse(text) for text in given.quiet))
