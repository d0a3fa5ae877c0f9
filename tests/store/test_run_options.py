from __future__ import annotations

from pathlib import Path

import pytest

from penstock import policies
from penstock.app import run
from penstock.control.blackout_periods import Quiet
from penstock.control.guard import Guard
from penstock.control.requests import parse_change
from penstock.plan.limits import Limits
from penstock.store import run_options
from penstock.store.run_options import RunOptions
from penstock.testing import MemoryEngine, fake_clock
from tests.control.doubles import flow


def ask(home: Path, **more: object) -> None:
    engine = MemoryEngine()
    run(flow(), engine=engine, seconds=3, run_dir=home, clock=fake_clock(engine), **more)  # type: ignore[arg-type]


def test_what_was_asked_is_kept_for_every_run_of_a_directory(tmp_path: Path) -> None:
    ask(tmp_path)
    ask(
        tmp_path,
        policy="threshold:above=0.7",
        load="500/s",
        changes=["1s:executors=2", parse_change("2s:executors=1")],
        backup="200ms..5s",
        limits=Limits(slots=9),
        guard=Guard(cooldown=20, quiet=(Quiet.parse("10m..20m"),)),
        advise=True,
    )
    first, second = run_options.read(tmp_path)
    assert (first.policy, first.mode, first.seconds) == ("static", "on", 3)
    assert (second.policy, second.mode) == ("threshold:above=0.7", "advise")
    assert set(second.loads.values()) == {"500/s"} != set(first.loads.values())
    assert second.changes == ("1s:executors=2", "2s:executors=1")
    assert (second.backup, second.limits) == ("200ms..5s", Limits(slots=9))
    assert second.guard == {"cooldown": 20, "settle": 30, "undo": 30, "horizon": 300}
    assert (second.quiet, second.engine) == (("10m..20m",), "memory")
    assert second.time > 0
    assert second.version


def test_a_policy_is_named_with_the_options_that_differ() -> None:
    assert run_options.policy(policies.get("latency")) == "latency"
    assert (
        run_options.policy(policies.get("latency:adjust=10s,most=7")) == "latency:adjust=10,most=7"
    )

    class Own:
        name = "own"

    assert run_options.policy(Own()) == "own"


def test_a_line_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    run_options.append(tmp_path, RunOptions(1.0, "spark", "static"))
    with (tmp_path / run_options.FILE).open("a") as file:
        file.write('{"time": 2.0, "engi')
    assert [one.time for one in run_options.read(tmp_path)] == [1.0]


@pytest.mark.parametrize("text", ["[]", '"x"', '{"time": "now"}'])
def test_what_is_no_such_line_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / run_options.FILE).write_text(f"{text}\n")
    assert run_options.read(tmp_path) == []


def test_a_directory_from_before_has_none(tmp_path: Path) -> None:
    assert run_options.read(tmp_path) == []
