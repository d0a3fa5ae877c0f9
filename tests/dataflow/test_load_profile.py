"""Load profiles against closed forms, brute force and each other."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataflow.load_profile import Load, Segment, parse
from penstock.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "at", "offered"),
    [
        ("5000/s", 12.0, 60_000),
        ("300/m", 60.0, 300),
        ("7200/h", 1.0, 2),
        ("5k/s", 2.0, 10_000),
        ("1.5k/s", 2.0, 3_000),
        ("steps:1000,4000,1000@20s", 20.0, 20_000),
        ("steps:1000,4000,1000@20s", 40.0, 100_000),
        ("steps:1000,4000,1000@20s", 80.0, 140_000),
        ("ramp:1000-5000@60s", 60.0, 180_000),
        ("ramp:1000,5000@60s", 30.0, 60_000),
        ("ramp:1000-5000@60s", 61.0, 185_000),
        ("ramp:1000-0@10s", 1000.0, 5_000),
        ("sine:1000-5000@60s", 60.0, 180_000),
        ("sine:1000-5000@60s", 120.0, 360_000),
        ("spikes:1000,8000@30s", 27.0, 27_000),
        ("spikes:1000,8000@30s", 30.0, 51_000),
        ("spikes:1000,8000@30s/6s", 30.0, 72_000),
        ("points:0=0,10=10,20=10,20=0,30=5", 10.0, 50),
        ("points:0=0,10=10,20=10,20=0,30=5", 31.0, 180),
        ("2*ramp:1000-5000@60s", 60.0, 360_000),
        ("0/s", 1e6, 0),
        ("5000/s", 0.0, 0),
        ("5000/s", -1.0, 0),
    ],
)
def test_the_records_due_by_a_time_follow_the_closed_form(
    text: str, at: float, offered: int
) -> None:
    assert parse(text).offered(at) == offered


@pytest.mark.parametrize(
    ("text", "at", "rate"),
    [
        ("300/m", 5.0, 5.0),
        ("steps:1000,4000@20s", 19.9, 1000.0),
        ("steps:1000,4000@20s", 20.0, 4000.0),
        ("steps:1000,4000@20s", 40.0, 1000.0),
        ("ramp:1000-5000@60s", 15.0, 2000.0),
        ("ramp:1000-5000@60s", 600.0, 5000.0),
        ("sine:1000-5000@60s", 0.0, 3000.0),
        ("sine:1000-5000@60s", 15.0, 5000.0),
        ("sine:1000-5000@60s", 45.0, 1000.0),
        ("spikes:1000,8000@30s", 26.9, 1000.0),
        ("spikes:1000,8000@30s", 27.1, 8000.0),
        ("spikes:1000,8000@30s", 30.1, 1000.0),
    ],
)
def test_the_rate_at_a_time_is_the_one_written(text: str, at: float, rate: float) -> None:
    assert parse(text).rate(at) == pytest.approx(rate)


def test_a_record_is_due_when_the_integral_reaches_its_number_plus_one() -> None:
    np.testing.assert_allclose(parse("4/s").arrival(np.arange(4)), [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(parse("ramp:0-10@10s").arrival(np.arange(2)), np.sqrt([2.0, 4.0]))


def test_stretches_without_records_are_passed_over() -> None:
    load = parse("steps:0,2,0@1s")
    np.testing.assert_allclose(load.arrival(np.arange(4)), [1.5, 2.0, 4.5, 5.0])


def test_records_that_are_never_due_arrive_at_infinity() -> None:
    assert np.isinf(parse("0/s").arrival(np.arange(3))).all()
    assert np.isinf(parse("steps:0,0@5s").arrival(np.arange(3))).all()
    ending = parse("ramp:4-0@1s").arrival(np.arange(3))
    assert np.isfinite(ending[:2]).all()
    assert math.isinf(ending[2])


rates = st.one_of(st.just(0.0), st.floats(0.01, 5000))
loads = st.builds(
    Load,
    st.lists(st.builds(Segment, st.floats(0.01, 100), rates, rates), min_size=1, max_size=6).map(
        tuple
    ),
    st.booleans(),
)


@given(load=loads, at=st.floats(0, 300))
@settings(max_examples=150, deadline=None)
def test_what_is_offered_is_what_has_arrived(load: Load, at: float) -> None:
    offered = load.offered(at)
    near = np.arange(max(offered - 1000, 0), offered + 1000)
    arrived = np.count_nonzero(load.arrival(near) <= at)
    assert arrived == offered - near[0]


@given(load=loads, times=st.lists(st.floats(0, 300), min_size=2, max_size=20))
@settings(max_examples=100, deadline=None)
def test_offered_and_arrival_never_fall(load: Load, times: list[float]) -> None:
    offered = [load.offered(t) for t in sorted(times)]
    assert offered == sorted(offered)
    arrival = load.arrival(np.arange(3000))
    assert (arrival[1:] >= arrival[:-1]).all()


@given(load=loads, at=st.floats(0.1, 300))
@settings(max_examples=40, deadline=None)
def test_the_integral_is_that_of_the_rate(load: Load, at: float) -> None:
    middles = (np.arange(4000) + 0.5) * at / 4000
    brute = sum(load.rate(t) for t in middles.tolist()) * at / 4000
    top = max(max(p.first, p.last) for p in load.segments)
    jumps = (len(load.segments) + 1) * (at / load.period + 1)
    assert float(load.cumulative(at)) == pytest.approx(brute, abs=top * at / 4000 * jumps + 1e-6)


@given(load=loads, factor=st.floats(0, 10))
@settings(max_examples=50, deadline=None)
def test_scaling_scales_the_integral(load: Load, factor: float) -> None:
    scaled = float(load.scaled(factor).cumulative(77.0))
    assert scaled == pytest.approx(factor * float(load.cumulative(77.0)))


@pytest.mark.parametrize("factor", [-0.5, math.inf, math.nan])
def test_a_load_is_scaled_by_a_finite_positive_factor_or_zero(factor: float) -> None:
    with pytest.raises(InvalidInput, match="cannot be scaled by"):
        parse("5000/s").scaled(factor)
    assert parse("5000/s").scaled(0.0).rate(1.0) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "5000/s",
        "steps:1000,4000,1000@20s",
        "ramp:1000-5000@60s",
        "sine:1000-5000@60s",
        "spikes:1000,8000@30s/3s",
        "points:0=1000,10=5000",
    ],
)
def test_a_load_is_written_as_it_was_read(text: str) -> None:
    load = parse(text)
    assert str(load) == load.text == load.portable == text
    assert parse(str(load.scaled(0.5))) == load.scaled(0.5)


BAD = [
    "",
    "5000",
    "fast",
    "-5/s",
    "5/d",
    "nan/s",
    "1e400/s",
    "steps:@20s",
    "steps:1,,2@20s",
    "steps:1,2@0s",
    "steps:1,2@-5s",
    "steps:1,2",
    "steps:1,-2@5s",
    "stps:1,2@3s",
    "ramp:1@3s",
    "ramp:1-2-3@3s",
    "ramp:1-2@",
    "sine:5-1@3s",
    "spikes:1,2@3s/5s",
    "spikes:1,2@3s/0s",
    "points:",
    "points:1",
    "points:5=1,2=1",
    "trace:",
    "trace:/no/such/file.csv",
]


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_read_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse(text)
    message = str(refusal.value)
    assert message.startswith(f"cannot read the load '{text}': ")
    assert "\n" not in message


@given(st.text(max_size=30) | st.from_regex(r"(steps|ramp|sine|spikes|points):[-0-9ks,@/=]*"))
@settings(max_examples=120, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert parse(text).offered(1.0) >= 0


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'steps:'"):
        parse("step:1,2@3s")


def test_a_trace_is_joined_by_straight_lines_and_holds_its_last_rate(tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("seconds,rate\n0,0\n10,100\n\n20,100\n")
    load = parse(f"trace:{file}")
    assert [load.rate(t) for t in (5.0, 15.0, 99.0)] == [50.0, 100.0, 100.0]
    assert load.offered(30.0) == 2500
    elsewhere = parse(load.portable)
    file.unlink()
    index = np.arange(5000)
    np.testing.assert_array_equal(elsewhere.arrival(index), load.arrival(index))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no line of the form seconds,rate"),
        ("seconds,rate\n", "has no line of the form seconds,rate"),
        ("0,1\n5\n", "line 2: '5' is not of the form seconds,rate"),
        ("t,r\n0,1\n5,x\n", "line 3: 'x' is not a number"),
        ("0,1\n5,1\n3,1\n", "line 3: the time 3 comes after 5"),
        ("0,1\n5,-1\n", "line 2: a rate of -1"),
        ("-1,1\n", "line 1: the time -1"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(content)
    with pytest.raises(InvalidInput, match=message):
        parse(f"trace:{file}")


def test_days_are_low_at_night_and_have_bursts() -> None:
    day = parse("days:1000-5000@24h/3")
    assert day.period == pytest.approx(86_400)
    assert day.rate(0) == pytest.approx(1000)
    assert parse("days:1000-5000@24h/0").rate(43_200) == pytest.approx(5000)
    quiet, noisy = (parse(f"days:1000-5000@24h/{n}").cumulative(86_400) for n in (0, 3))
    assert float(quiet) == pytest.approx(3000 * 86_400, rel=1e-3)
    assert float(noisy - quiet) == pytest.approx(3 * 864 * 5000, rel=1e-3)
    assert parse("days:1000-5000@24h") == replace(day, text="days:1000-5000@24h")


@pytest.mark.parametrize("text", ["days:5-1@24h", "days:1-5@24h/x", "days:1-5@24h/99", "days:1-5"])
def test_days_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)


@pytest.mark.parametrize(
    ("text", "peak"),
    [("300/m", 5.0), ("sine:10-50@60s", 50.0), ("ramp:70-5@10s", 70.0), ("2*spikes:1,8@30s", 16.0)],
)
def test_the_peak_is_the_highest_rate(text: str, peak: float) -> None:
    assert parse(text).peak == pytest.approx(peak)


@pytest.mark.parametrize(
    "text",
    ["5000/s", "steps:1000,4000,1000@20s", "ramp:1000-5000@60s", "sine:1000-5000@60s",
     "days:100-500@1h/3", "points:0=0,10=10,20=10,20=0,30=5", "0.5*spikes:1000,8000@30s"],
)  # fmt: skip
@pytest.mark.parametrize("at", [0.0, 7.5, 20.0, 59.9, 1234.5])
def test_a_load_goes_on_from_a_time(text: str, at: float) -> None:
    whole = parse(text)
    later = np.linspace(0.0, 200.0, 401)
    expected = whole.cumulative(at + later) - whole.cumulative(at)
    found = whole.since(at)
    np.testing.assert_allclose(found.cumulative(later), expected, rtol=1e-9, atol=1e-4)
    assert found.rate(3.0) == pytest.approx(whole.rate(at + 3.0))
    assert str(found).startswith(text)
