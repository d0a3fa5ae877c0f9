from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.app import run
from penstock.control.requests import Script, ScriptedChange, parse_change
from penstock.control.summary import Summary
from penstock.errors import InvalidInput, Refused
from penstock.plan.request import RequestList, Scale, SetExecutors, Split
from penstock.store.history import decisions, snapshots
from penstock.store.turn import UserRequest
from penstock.testing import MemoryEngine, fake_clock

from .doubles import flow


def played(run_dir: Path, *changes: str, seconds: float = 10) -> Summary:
    engine = MemoryEngine()
    clock = fake_clock(engine)
    return run(
        flow(), engine=engine, seconds=seconds, changes=changes, run_dir=run_dir, clock=clock
    )


def decided(run_dir: Path, how: str = "scripted") -> list[dict[str, Any]]:
    return [d for d in decisions(run_dir) if d["reason"].startswith(how)]


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("20s:count=4", ScriptedChange(20, Scale("count", 4))),
        ("500ms:split count", ScriptedChange(0.5, Split("count"))),
        (
            "1m:count=4, executors=2",
            ScriptedChange(60, RequestList((Scale("count", 4), SetExecutors(2)))),
        ),
    ],
)
def test_a_change_is_read_and_written(text: str, change: ScriptedChange) -> None:
    assert parse_change(text) == change
    assert str(change) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "count=4",
            "cannot read the change 'count=4': write the time and the change, as in 20s:count=4",
        ),
        ("soon:count=4", "cannot read the duration 'soon'"),
        ("-1s:count=4", "comes before the start of the run"),
        ("20s:faster", "cannot read the request 'faster'"),
        ("20s:", "cannot read the request ''"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_change(text)


def test_what_is_due_at_once_is_one_change_and_comes_once() -> None:
    late, first, second = (
        ScriptedChange(at, Scale("count", n)) for at, n in ((9, 8), (2, 2), (2, 4))
    )
    script = Script([late, first, second])
    assert not script.due(1.9)
    assert script.take(1.9) is None
    assert script.take(2.0) == UserRequest("scripted", RequestList((first.request, second.request)))
    assert script.take(8.9) is None
    assert script.take(99.0) == UserRequest("scripted", late.request)
    assert not script.due(99.0)


def test_scripted_changes_are_made_at_their_time(tmp_path: Path) -> None:
    summary = played(tmp_path, "6.5s:double=2", "3s:double=4", "3s:split double")
    assert [t.reason for t in summary.transitions] == [
        "scripted: double=4, split double",
        "scripted: double=2",
    ]
    assert [t.at for t in summary.transitions] == pytest.approx([3.0, 6.5], abs=0.11)
    assert [p.parallelism for p in summary.plan.pipelines] == [4, 2]
    assert summary.slot_seconds == pytest.approx(3 * 1 + 3.5 * 8 + 3.5 * 6, abs=1)


def test_a_change_that_is_refused_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    summary = played(tmp_path, "2s:split numbers, double=9", "5s:double=2")
    refused, made = decided(tmp_path)
    assert refused["refused"].startswith(
        "there is nothing to split: 'numbers' is already the first operator"
    )
    assert (refused["plan"], made["refused"]) == (None, None)
    assert [t.changes for t in summary.transitions] == [("numbers: parallelism 1 -> 2",)]
    assert summary.seconds == pytest.approx(10, abs=0.2)


def test_the_policy_decides_in_all_other_turns(tmp_path: Path) -> None:
    played(tmp_path, "3s:double=4")
    assert len(decided(tmp_path)) == 1
    assert len(decided(tmp_path, "static")) == 8


def test_a_paused_flow_takes_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    played(tmp_path, "2s:pause", "6s:resume")
    rows = {round(s.at): s.rows_ingested for s in snapshots(tmp_path)}
    assert rows[2] == rows[5] == 2000
    assert rows[9] == pytest.approx(9000, rel=0.1)


def test_a_script_that_cannot_be_played_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'dubble' is no operator of 'numbers'; did you mean"):
        played(tmp_path / "run", "2s:dubble=4")
    with pytest.raises(InvalidInput, match="'20s:double=4' comes too late: the run ends after 10s"):
        played(tmp_path / "run", "20s:double=4")
    assert not (tmp_path / "run").exists()
