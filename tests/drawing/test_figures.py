"""Pictures: values that are checked, files that are the same each time."""

import builtins
import hashlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.drawing import chart_labels, charts
from penstock.drawing.figures import Bars, Figure, Level, Line, Mark, Panel, save
from penstock.errors import InvalidInput, PenstockError

FIGURE = Figure(
    "a run",
    (
        Panel(
            "time (s)",
            "latency (ms)",
            lines=(
                Line("mean", (0.0, 5.0, 10.0), (12.0, None, 19.0)),
                Line("instances", (0.0, 5.0, 10.0), (1.0, 2.0, 2.0), style="step"),
                Line("batches", (1.0, 2.0), (3.0, 4.0), style="points"),
            ),
            levels=(Level(20.0, "bound 20 ms"),),
            marks=(Mark(5.0, "1 to 2"), Mark(5.1, "hidden"), Mark(9.9)),
        ),
        Panel(
            "layout",
            "rows/s",
            categories=("star", "linear"),
            bars=(Bars("here", (10.0, None)), Bars("there", (5.0, 6.0), spread=(1.0, 1.0))),
        ),
    ),
    columns=2,
    note="simulated",
)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_figure_is_saved_as_png_and_svg(tmp_path: Path) -> None:
    png, svg = save(FIGURE, tmp_path / "run.png")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    first = [digest(path) for path in save(FIGURE, tmp_path / "one")]
    assert [digest(path) for path in save(FIGURE, tmp_path / "two")] == first


def test_another_figure_gives_other_bytes(tmp_path: Path) -> None:
    other = Figure("a run", (Panel("x", "y", (Line("a", (0.0, 1.0), (0.0, 1.0)),), log=True),))
    assert digest(save(FIGURE, tmp_path / "a")[1]) != digest(save(other, tmp_path / "b")[1])


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="2 x and 1 y"):
        Line("a", (0.0, 1.0), (1.0,))
    with pytest.raises(InvalidInput, match="1 values for 2 categories"):
        Panel("x", "y", categories=("a", "b"), bars=(Bars("b", (1.0,)),))


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builtins.__import__

    def missing(name: str, *args: object, **kwargs: object) -> object:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return found(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(PenstockError, match=r"pip install 'penstock\[pictures\]'"):
        save(FIGURE, tmp_path / "run")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.25, "0.25"), (36, "36"), (1650, "1,650"), (12500, "12.5k"), (2e6, "2M"),
     (9999, "9,999"), (99.96, "100"), (-0.5, "-0.5"), (1e-5, "1e-05")],
)  # fmt: skip
def test_numbers_are_short(value: float, shown: str) -> None:
    assert chart_labels.short(value) == shown


def test_the_largest_decisions_have_words_and_slight_ones_none() -> None:
    marks = (
        Mark(0.0, "198 → 197", 1.0),
        Mark(1.0, "197 → 236", 39.0),
        Mark(50.0, "236 → 197", 39.0),
    )
    named = chart_labels.mark_labels(marks, (10.0, 10.0, 10.0), 0.0, 100.0)
    assert [place.mark.label for place in named] == ["197 → 236", "236 → 197"]


def test_words_of_decisions_keep_off_each_other() -> None:
    marks = tuple(Mark(float(at), str(at), 1.0) for at in (0, 5, 12, 95))
    named = chart_labels.mark_labels(marks, (10.0,) * 4, 0.0, 100.0)
    assert [(p.mark.at, p.row, p.left) for p in named] == [
        (0.0, 0, False),
        (12.0, 0, False),  # that at 5 would have its tick in the words of the first
        (95.0, 0, True),  # no room on the right
    ]
    below = chart_labels.mark_labels(
        (Mark(20.0, "a", 2.0), Mark(15.0, "b", 1.0)), (10.0, 10.0), 0.0, 100.0
    )
    assert [(p.mark.label, p.row) for p in below] == [("a", 0), ("b", 1)]


def test_of_very_many_decisions_the_largest_are_marked_and_the_legend_says_so() -> None:
    few = tuple(Mark(float(at), "", 1.0) for at in range(chart_labels.MANY))
    assert chart_labels.largest(few) == few
    many = (*few, Mark(99.0, "", 7.0))
    shown = chart_labels.largest(many)
    assert (len(shown), shown[-1].at) == (chart_labels.MARKED, 99.0)


def test_names_of_levels_keep_off_each_other() -> None:
    assert chart_labels.spread((1.0, 2.0, 30.0), 10.0) == [-3.5, 6.5, 30.0]
    assert chart_labels.spread((1.0, 20.0), 10.0) == [1.0, 20.0]


def test_legends_have_as_many_columns_as_fit() -> None:
    widths = (10.0, 50.0, 10.0, 10.0)
    assert [chart_labels.columns(widths, 5.0, room) for room in (100, 90, 70, 50)] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("values", "digits", "shown"),
    [((99.2, -0.401, 0.0808, 67), 3, ["99.2", "-0.4", "0.1", "67"]),
     ((1.02, 0.0101, 0.0), 3, ["1.02", "0.01", "0"]),
     ((3201, 2039.4), 3, ["3.2k", "2.04k"]),
     ((3201, 2039.4), 2, ["3.2k", "2k"]),
     ((14_000, 9_500), 3, ["14k", "9.5k"])],
)  # fmt: skip
def test_numbers_of_one_panel_are_equally_exact(
    values: tuple[float, ...], digits: int, shown: list[str]
) -> None:
    assert chart_labels.same_precision(values, digits) == shown


def test_a_line_over_another_has_gaps_where_they_are_the_same() -> None:
    x = tuple(map(float, range(10)))
    one = Line("a", x, (5.0,) * 10)
    other = Line("b", x, (5.0,) * 5 + (9.0,) * 5)
    panel = Panel("x", "y", (one, other))
    assert charts._covers(panel, 0) == [0] * 9
    assert charts._covers(panel, 1) == [1] * 4 + [0] * 5
    apart = Panel("x", "y", (one, Line("b", x, (6.0,) * 10)))
    assert charts._covers(apart, 1) == [0] * 9
