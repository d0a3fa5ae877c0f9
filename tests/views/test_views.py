from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from penstock.control.status import Status
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, Union
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.request import Mode, SetPolicyMode
from penstock.store.turn import Review, UserRequest, Veto
from penstock.views.live import LiveView
from penstock.views.plain_lines import PlainView
from penstock.views.summary_table import summary_table

from . import statuses


def drawn(width: int, *seen: object, height: int = 40) -> str:
    console = Console(file=io.StringIO(), width=width, height=height)
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


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 24), (60, 14), (200, 60), (40, 10)])
def test_the_live_view_fits_small_and_large_terminals(width: int, height: int) -> None:
    seen = [statuses.status(s) for s in range(1, 40)]
    seen += [statuses.status(40 + n, transition=statuses.TRANSITION) for n in range(9)]
    page = drawn(width, statuses.first(), *seen, height=height).splitlines()
    assert len(page) <= height
    assert max(map(len, page)) <= width
    whole = "\n".join(page)
    for word in ("wordcount", "running", "ingested", "latency", "missed", "97%", "Ctrl-C"):
        assert word in whole
    assert "count: parallelism 2 -> 4"[: width - 12] in whole
    assert "predicted wait" in whole or height < 14


def test_many_pipelines_are_cut_to_the_busiest() -> None:
    many = Plan(tuple(Pipeline((f"p{n}",)) for n in range(50)))
    measured = {
        f"p{n}": PipelineMetrics(f"p{n}", 1, busy=0.95 if n in (7, 33) else 0.1) for n in range(50)
    }
    status = turn(5, plan=many, snapshot=replace(statuses.snapshot(5), pipelines=measured))
    page = drawn(
        80,
        replace(
            status,
            plan=many,
            graph=Graph("wide", tuple(Operator(f"p{n}", Union()) for n in range(50))),
        ),
        height=24,
    )
    assert len(page.splitlines()) < 24
    assert page.index(" p7 ") < page.index(" p33 ")
    assert "more" in page
    assert " p49 " not in page


def test_latency_beyond_its_bound_is_red_and_the_pipelines_are_a_graph() -> None:
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True)
    view = LiveView(console, clock=lambda: 0.0)
    for second in (28, 29, 30, 31, 32):
        view.show(statuses.status(second))
    with console.capture() as captured:
        console.print(view._draw())
    view.close()
    line = next(one for one in captured.get().splitlines() if "latency" in one)
    assert re.search(r"\x1b\[32m▂\x1b\[0m(\x1b\[32m▂\x1b\[0m){2}(\x1b\[31m█\x1b\[0m){2}", line)
    assert "tweets · parse · split ×2 ─▶ count · counts ×4" in re.sub(  # noqa: RUF001
        r"\x1b\[[\d;]*m", "", captured.get()
    )


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


# --- news ---------------------------------------------------------------------------------------


def turn(second: float, **given: Any) -> Status:
    before = statuses.status(second)
    assert before.tick is not None
    return replace(before, tick=replace(before.tick, **given))


MORE = statuses.PLAN.with_pipeline("count", parallelism=5)
BUSY = Decision(MORE, "count is busy 0.93 > 0.80")


def vetoed(second: float, *rules: str, wanted: Decision = BUSY) -> Status:
    vetoes = tuple(Veto(rule, f"{second:.1f} s") for rule in rules)
    nothing = replace(wanted, plan=None)
    return turn(second, decision=nothing, review=Review(nothing, wanted, vetoes))


def lines(*seen: Status) -> list[str]:
    out = io.StringIO()
    view = PlainView(out, every=1000)
    for status in seen:
        view.show(status)
    return [line for line in out.getvalue().splitlines() if "ingested" not in line]


def test_a_veto_is_told_with_what_was_wanted_and_why_not() -> None:
    assert lines(vetoed(4, "cool-down", "undo")) == [
        "[ 0:04] wordcount: vetoed: count: parallelism 4 -> 5: count is busy 0.93 > 0.80 "
        "[cool-down: 4.0 s; undo: 4.0 s]"
    ]


def test_a_veto_is_told_again_only_if_something_else_is_wanted_or_in_the_way() -> None:
    other = replace(BUSY, plan=statuses.PLAN.with_pipeline("count", parallelism=6))
    told = lines(
        vetoed(1, "cool-down"),
        vetoed(2, "cool-down"),
        turn(3, decision=Decision(None, "fine")),
        vetoed(4, "cool-down"),
        vetoed(5, "cool-down", wanted=other),
        vetoed(6, "metrics", wanted=other),
        vetoed(7, "metrics", wanted=other),
        statuses.status(8, transition=statuses.TRANSITION),
        vetoed(9, "metrics", wanted=other),
    )
    assert [line[1:6].strip() for line in told] == ["0:01", "0:05", "0:06", "0:08", "0:09"]


def test_advice_is_told_once() -> None:
    advice = {"decision": BUSY, "review": Review(BUSY, BUSY), "mode": Mode.ADVISE}
    told = lines(turn(1, **advice), turn(2, **advice))
    assert told == [
        "[ 0:01] wordcount: would change: count: parallelism 4 -> 5: count is busy 0.93 > 0.80"
    ]
    assert lines(turn(1, **{**advice, "mode": Mode.ON})) == []  # the transition tells it


def test_a_policy_that_fails_is_told_once() -> None:
    told = lines(*(turn(at, error=f"policy 'x' failed: {at} is too many") for at in (1, 2, 3)))
    assert told == ["[ 0:01] wordcount: error: policy 'x' failed: 1 is too many"]


def test_a_switch_is_told() -> None:
    asked = UserRequest("asked", SetPolicyMode(Mode.OFF))
    assert lines(turn(1, request=asked)) == ["[ 0:01] wordcount: policy: off"]
    assert lines(turn(1, request=asked, refused="no\nroom")) == [
        "[ 0:01] wordcount: refused: no room"
    ]


def test_the_live_view_tells_the_same() -> None:
    page = drawn(160, statuses.first(), vetoed(4, "cool-down"), turn(5, error="policy failed"))
    assert "vetoed: count: parallelism 4 -> 5: count is busy 0.93 > 0.80 [cool-down: 4.0 s]" in page
    assert "error: policy failed" in page


def test_trouble_beside_the_flow_is_told_once() -> None:
    out = io.StringIO()
    view = PlainView(out)
    seen = [replace(statuses.status(s), trouble="the disk is full") for s in range(1, 9)]
    for status in seen:
        view.show(status)
    assert out.getvalue().count("trouble: the disk is full") == 1
    assert drawn(80, *seen).count("trouble: the disk is full") == 1
