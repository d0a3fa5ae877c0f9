from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.report.live import LiveView
from penstock.report.plain import PlainView
from penstock.report.table import summary_table

from . import statuses


def drawn(width: int, *seen: object) -> str:
    console = Console(file=io.StringIO(), width=width, height=40)
    view = LiveView(console, clock=lambda: 0.0)
    for status in seen:
        view.show(status)  # type: ignore[arg-type]
    with console.capture() as captured:
        console.print(view._draw())
    view.close()
    return captured.get()


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_view_fits_and_shows_what_matters(width: int) -> None:
    seen = [statuses.status(s) for s in range(1, 40)]
    seen.append(statuses.status(40, transition=statuses.TRANSITION))
    page = drawn(width, statuses.first(), *seen)
    assert max(len(line) for line in page.splitlines()) <= width
    for word in ("wordcount", "running", "0:40 / 1:00", "1.25M", "97%", "missed", "dead"):
        assert word in page
    assert "count: parallelism 2 -> 4 (1.32 s, output held 310 ms)" in page
    assert "predicted wait" in page


def test_before_the_first_snapshot_the_view_says_so() -> None:
    page = drawn(80, statuses.first())
    assert "starting" in page


def test_draining_says_what_ctrl_c_does_now() -> None:
    assert "Ctrl-C stops at once" in drawn(80, statuses.status(61, "draining"))


def test_the_plain_view_writes_a_line_now_and_then() -> None:
    out = io.StringIO()
    view = PlainView(out)
    view.show(statuses.first())
    for second in range(1, 13):
        change = statuses.TRANSITION if second == 9 else None
        view.show(statuses.status(second, transition=change))
    view.show(statuses.status(13, "draining"))
    view.close()
    lines = out.getvalue().splitlines()
    assert lines[0] == "[ 0:00] wordcount: starting"
    assert lines[1].startswith(
        "[ 0:01] wordcount: in 5,444/s, ingested 5,221, delivered 36.5k, backlog 812, dead 26"
    )
    assert [line[1:6].strip() for line in lines] == [
        "0:00",
        "0:01",
        "0:06",
        "0:09",
        "0:11",
        "0:13",
        "0:13",
    ]
    assert "count: parallelism 2 -> 4" in lines[3]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("exact", [True, False, None])
def test_the_summary_table_fits(width: int, exact: bool | None) -> None:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(summary_table(statuses.summary(exact)))
    page = captured.get()
    assert max(len(line) for line in page.splitlines()) <= width
    assert {True: "yes: the sinks", False: "NO: the sinks", None: "not checked"}[exact] in page
    assert "1,500 dead" in page
