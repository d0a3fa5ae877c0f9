from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.drawing.chart_labels import log_ticks, short, ticks
from penstock.drawing.charts import chart, thinned
from penstock.drawing.figures import Bars, Figure, Level, Line, Mark, Panel
from penstock.drawing.svg import svg
from tests.strategies import few

finite = st.floats(-1e12, 1e12, allow_nan=False)


def drawn(*panels: Panel) -> ET.Element:
    return ET.fromstring(svg(chart(Figure("a & b", panels)), inline=True))


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [one for one in root.iter() if one.attrib.get("class", "").startswith(name)]


def curve(path: ET.Element) -> bool:
    return path.attrib["class"].startswith("line")


def numbers(path: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+\.?\d*", path)]


@few
@given(
    st.lists(st.tuples(finite, st.none() | finite | st.just(math.nan)), max_size=30), st.booleans()
)
def test_every_line_stays_inside_the_picture(
    pairs: list[tuple[float, float | None]], log: bool
) -> None:
    pairs.sort(key=lambda pair: pair[0])
    line = Line("l", tuple(x for x, _ in pairs), tuple(y for _, y in pairs))
    root = drawn(Panel("x", "y", (line,), log=log))
    _, _, wide, high = map(float, root.attrib["viewBox"].split())
    for path in root.iter("path"):
        values = numbers(path.attrib["d"])
        assert all(0 <= x <= wide for x in values[::2])
        assert all(0 <= y <= high for y in values[1::2])


@given(st.floats(1e-9, 1e12))
def test_ticks_are_round_and_reach_the_top(highest: float) -> None:
    found = ticks(0, highest)
    assert found[0] == 0
    assert found[-1] >= highest * 0.999999
    assert 2 <= len(found) <= 6


@given(st.floats(-1e6, -1.0), st.floats(1.0, 1e6))
def test_ticks_enclose_what_is_below_zero(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low * 0.999999
    assert found[-1] >= high * 0.999999
    assert 0.0 in found


@given(st.floats(1e-6, 1e6), st.floats(1, 1e6))
def test_ticks_of_a_logarithmic_axis_enclose_all_values(low: float, ratio: float) -> None:
    found = log_ticks(low, low * ratio)
    assert found[0] <= low * 1.001
    assert found[-1] >= low * ratio * 0.999
    assert found == sorted(set(found))
    assert 2 <= len(found) <= 20


@pytest.mark.parametrize("highest", [0.0, -1.0, math.inf, math.nan])
def test_nothing_has_ticks_too(highest: float) -> None:
    assert ticks(0, highest) == [0.0, 1.0]


def test_numbers_on_an_axis_are_short() -> None:
    values = (0, 0.25, 5, 1500, 12_500, 2_000_000)
    assert [short(v) for v in values] == ["0", "0.25", "5", "1,500", "12.5k", "2M"]


def test_a_long_line_keeps_its_peaks_and_its_order() -> None:
    y = [float(n % 7) for n in range(10_000)]
    y[4321], y[7777] = 99.0, -99.0
    found = [*thinned(Line("l", tuple(map(float, range(10_000))), tuple(y)))]
    assert len(found) <= 710
    assert {(4321.0, 99.0), (7777.0, -99.0)} <= set(found)
    assert found == sorted(found)


def test_a_gap_is_a_gap_and_a_step_holds_its_value() -> None:
    line = Line("l", (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, None, 3.0), style="step")
    parts = [p.attrib["d"] for p in drawn(Panel("x", "y", (line,))).iter("path") if curve(p)]
    assert [len(numbers(part)) // 2 for part in parts] == [3, 2]  # a corner between two values
    (_, y, corner_x, corner_y, x, _) = numbers(parts[0])
    assert (corner_x, corner_y) == (x, y)


def test_levels_marks_bars_and_points_are_drawn_and_names_escaped() -> None:
    bars = (Bars("<seed>", (3.0, None)), Bars("here", (2.0, 1.0)))
    first = Panel("x", "y", categories=("a<b", "c"), bars=bars, levels=(Level(2.5, "<bound>"),))
    points = Line("p", (0.0, 1.0), (1.0, None), style="points")
    second = Panel("x", "y", (points,), marks=(Mark(0.5, "a -> b"),))
    root = drawn(first, second)
    assert len([*root.iter("rect")]) == 1 + 3 + 2  # the page, bars, and their legend
    assert len(list(root.iter("circle"))) == 1
    words = [e.text for e in root.iter() if e.tag in ("text", "title")]
    assert {"a<b", "<bound>", "a -> b", "<seed>: 3"} <= set(words)


def test_bars_stand_on_the_floor_in_proportion() -> None:
    panel = Panel("x", "y", categories=("a", "b"), bars=(Bars("v", (4.0, 2.0)),))
    high, low = (float(r.attrib["height"]) for r in of_class(drawn(panel), "fill0"))
    assert high == pytest.approx(2 * low, abs=0.2)


def test_nothing_is_an_empty_picture() -> None:
    assert drawn().attrib["aria-label"] == "a & b"
