"""Pictures: values that are checked, files that are the same each time."""

import builtins
import hashlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.errors import InvalidInput, PenstockError
from penstock.report import lettering
from penstock.report.figures import Bars, Figure, Level, Line, Mark, Panel, save

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
    assert lettering.short(value) == shown
