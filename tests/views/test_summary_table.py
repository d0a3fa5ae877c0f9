"""The table at the end of a run: what is good is green, what is bad is red or yellow."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from penstock.control.summary import EventSummary, LatencySummary, Summary
from penstock.metrics.events import Event, EventKind
from penstock.views.plain_lines import PlainView
from penstock.views.summary_table import summary_table

from . import statuses


def rendered(summary: Summary) -> str:
    console = Console(file=io.StringIO(), width=240, force_terminal=True)
    with console.capture() as captured:
        console.print(summary_table(summary))
    return captured.get()


def plain(summary: Summary) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", rendered(summary))


@pytest.mark.parametrize(("mean", "colour"), [(2.9, 32), (3.0, 32), (3.1, 31)])
def test_a_missed_bound_is_red(mean: float, colour: int) -> None:
    latency = {"parse->count": LatencySummary(3.0, mean, 0.7, 1.9, 2.4, 0.9)}
    assert f"\x1b[{colour}m{mean:.2f} s mean" in rendered(
        replace(statuses.summary(), latency=latency)
    )


def test_latency_without_records_is_not_measured() -> None:
    latency = {"parse->count": LatencySummary(3.0)}
    assert "parse → count: not measured" in plain(replace(statuses.summary(), latency=latency))


def test_scripted_changes_that_were_not_reached_are_named() -> None:
    assert "left out" not in plain(statuses.summary())
    late = replace(statuses.summary(), changes_left=("90s:count=4", "95s:count=2"))
    assert "the run ended before 90s:count=4; 95s:count=2" in plain(late)


def test_rows_that_were_late_or_repeated_are_counted_only_if_there_are_any() -> None:
    assert not re.search(r"too late|delivered again", plain(statuses.summary()))
    found = plain(replace(statuses.summary(), rows_late=1200, rows_repeated=34))
    assert "1,200 too late, up to 34 delivered again" in found


@pytest.mark.parametrize(
    ("kind", "problem"), [(EventKind.EXECUTOR_LOST, True), (EventKind.EXECUTOR_ADDED, False)]
)
def test_events_are_in_one_row_which_is_yellow_after_a_problem(
    kind: EventKind, problem: bool
) -> None:
    assert "events" not in plain(statuses.summary())
    known = replace(statuses.summary(), events=EventSummary(2, (Event(41.0, kind, "executor 3"),)))
    words = f"2; last: 0:41 {kind}: executor 3"
    assert re.search(rf"events +{words}", plain(known))
    assert (f"\x1b[33m{words}" in rendered(known)) is problem


def test_the_plain_view_says_where_a_bound_is_missed() -> None:
    out = io.StringIO()
    view = PlainView(out, every=0.0)
    view.show(statuses.status(10.0))
    view.show(statuses.status(31.0))
    lines = out.getvalue().splitlines()
    assert lines[0].endswith("parse->count 840 ms")
    assert lines[1].endswith("parse->count 4.21 s MISSED")
