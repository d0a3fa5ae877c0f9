"""Too many dead letters: said in every view, in the summary and by the exit code."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from penstock.app import run
from penstock.control.run_input import dead_letter_limit
from penstock.control.summary import DeadLetters, Summary
from penstock.errors import InvalidInput
from penstock.testing import fake_clock
from penstock.views.live import LiveView
from penstock.views.plain_lines import PlainView
from penstock.views.summary_table import summary_table

from .doubles import LossyEngine, Watcher, flow


def lossy(lost: float, before: int = 0, **options: Any) -> Summary:
    engine = LossyEngine(lost, before)
    return run(flow(), engine=engine, seconds=5, clock=fake_clock(engine), **options)


@pytest.mark.parametrize(
    ("rows", "entered", "at_most", "too_many"),
    [
        (1, 5, 0.1, False),
        (9, 9, 0.1, False),
        (10, 100, 0.1, False),
        (10, 99, 0.1, True),
        (60, 60, 0.1, True),
        (10, 0, 0.1, True),
        (44_161, 44_161, 1.0, False),
        (50_000, 44_161, 1.0, False),
        (10, 1_000_000, 0.0, True),
        (0, 0, 0.0, False),
    ],
)
def test_a_tenth_is_too_many_unless_they_are_few(
    rows: int, entered: int, at_most: float, too_many: bool
) -> None:
    found = DeadLetters(rows, entered, at_most)
    assert found.too_many is too_many
    assert (found.alarm is not None) is too_many


@pytest.mark.parametrize(
    ("text", "share"), [("0.25", 0.25), (0, 0.0), ("5%", 0.05), ("100%", 1.0), (1, 1.0)]
)
def test_a_share_is_read(text: Any, share: float) -> None:
    assert dead_letter_limit(text) == share


@pytest.mark.parametrize("text", ["a tenth", "-0.1", "1.5", "nan", True, "200%"])
def test_what_is_no_share_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        dead_letter_limit(text)


def test_the_summary_says_that_there_are_too_many(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    summary = lossy(0.5)
    assert summary.dead_letters.too_many
    assert summary.to_json()["dead_letters"] == {"share": 0.5, "at_most": 0.1, "too_many": True}
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        console.print(summary_table(summary))
    assert "50% of the rows, more than the 10% allowed" in " ".join(captured.get().split())


def test_a_few_are_no_alarm_and_the_share_can_be_set(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert not lossy(0.05).dead_letters.too_many
    assert lossy(0.05, dead_letters_at_most=0.01).dead_letters.too_many
    assert not lossy(0.5, dead_letters_at_most="100%").dead_letters.too_many
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        lossy(0.5, dead_letters_at_most=3)


def test_letters_of_the_runs_before_do_not_count(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    summary = lossy(0.0, before=5000)
    assert summary.rows_dead == 5000
    assert not summary.dead_letters.too_many


def test_the_views_say_so_once_and_as_long_as_it_is_so(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    watcher = Watcher()
    lossy(0.5, view=watcher)
    alarms = [status.alarm for status in watcher.seen if status.tick is not None]
    assert "more than 10% of the rows became dead letters" in str(alarms[-1])
    out = io.StringIO()
    plain = PlainView(out)
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    live = LiveView(console)
    for status in watcher.seen:
        plain.show(status)
        live.show(status)
    live.close()
    assert out.getvalue().count("ALARM: more than 10%") == 1
    with console.capture() as captured:
        console.print(live._draw())
    assert captured.get().count("more than 10% of the rows became dead letters") >= 1
