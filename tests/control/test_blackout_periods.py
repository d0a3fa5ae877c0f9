from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.clock import Clock
from penstock.control.blackout_periods import Quiet
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.errors import InvalidInput
from tests.control.doubles import flow

HOUR = 3600.0


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("22:00..06:30", Quiet(22 * HOUR, 6.5 * HOUR, daily=True)),
        ("00:00..24:00", Quiet(0, 24 * HOUR, daily=True)),
        ("10m..20m", Quiet(600, 1200)),
        ("500ms..90s", Quiet(0.5, 90)),
    ],
)
def test_a_period_is_read_and_written(text: str, period: Quiet) -> None:
    assert Quiet.parse(text) == period
    assert str(period) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("22:00-06:00", "cannot read the quiet period '22:00-06:00': write 22:00..06:00"),
        ("22:60..06:00", "'22:60' is no time of the day, write 06:30"),
        ("22:00..24:01", "'24:01' is no time of the day"),
        ("10m..06:00", "'10m' is no time of the day"),
        ("soon..later", "cannot read the duration 'soon'"),
        ("20m..10m", "the quiet period '20m..10m' has no end after its beginning"),
        ("06:00..06:00", "the quiet period '06:00..06:00' has no end"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Quiet.parse(text)


@pytest.mark.parametrize(
    ("text", "hours", "quiet"),
    [
        ("22:00..06:00", 21.99, False),
        ("22:00..06:00", 22.0, True),
        ("22:00..06:00", 0.0, True),
        ("22:00..06:00", 6.0, False),
        ("08:00..17:00", 12.0, True),
        ("08:00..17:00", 17.0, False),
        ("08:00..17:00", 3.0, False),
    ],
)
def test_a_daily_period_may_go_past_midnight(text: str, hours: float, quiet: bool) -> None:
    assert Quiet.parse(text).holds(0.0, hours * HOUR) is quiet
    assert not Quiet.parse(text).holds(12 * HOUR, None)


def test_a_period_of_the_run_does_not_look_at_the_day() -> None:
    period = Quiet.parse("10s..20s")
    assert [period.holds(at, 15.0) for at in (9.9, 10.0, 19.9, 20.0)] == [False, True, True, False]


def test_a_simulation_has_days_of_its_own(tmp_path: Path) -> None:
    engine = SimulatorEngine(load="100/s")
    clock = engine.clock
    assert clock.time_of_day() == 0.0
    engine.start(flow().graph, None, tmp_path)
    clock.sleep(23 * HOUR)
    assert clock.time_of_day() == 23 * HOUR
    clock.sleep(2 * HOUR)
    assert clock.time_of_day() == HOUR


def test_other_clocks_have_the_days_of_this_machine() -> None:
    moment = time.mktime((2026, 5, 4, 13, 2, 1, 0, 0, -1))
    assert Clock(wall=lambda: moment).time_of_day() == 13 * HOUR + 121
