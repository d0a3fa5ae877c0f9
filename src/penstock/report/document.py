"""The report of a run as files: one page, and its pictures beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from penstock import files
from penstock.drawing import figures, raster
from penstock.drawing.diagram import diagram
from penstock.drawing.figures import Figure
from penstock.errors import InvalidInput, PenstockError
from penstock.report.curves import curves
from penstock.report.page import page
from penstock.report.story import Story


@dataclass(frozen=True)
class Written:
    """What was written; `missing` says why there are no pictures, if there are none."""

    page: Path
    pictures: tuple[Path, ...] = ()
    missing: str = ""


def write(story: Story, out: str | Path | None = None, now: float | None = None) -> Written:
    """Write the report of a run, into its directory unless told otherwise.

    The page is whole without its pictures, which are for other documents. Raises `InvalidInput`.
    """
    path = story.run_dir / "report.html" if out is None else Path(out).expanduser()
    if path.is_dir():
        raise InvalidInput(f"'{path}' is a directory: name a file, such as {path / 'report.html'}")
    try:
        files.write_text(path, page(story, now))
    except OSError as error:
        raise InvalidInput(f"cannot write to '{path}': {error.strerror}") from None
    try:
        return Written(path, _pictures(story, path))
    except PenstockError as error:
        return Written(path, missing=str(error))


def _pictures(story: Story, path: Path) -> tuple[Path, ...]:
    here = story.busiest
    flow = diagram(story.graph) if here is None else diagram(story.graph, here.plan, here.snapshot)
    drawn = [raster.save(flow, path.with_name(f"{path.stem}-dataflow.png"))]
    figure = curves(story)
    if figure.panels:
        course, beside = figures.save(_bare(figure), path.with_name(f"{path.stem}-course.png"))
        beside.unlink()  # the page has its own
        drawn.append(course)
    return tuple(drawn)


def _bare(figure: Figure) -> Figure:
    """Without words at its marks: there is nothing to point with on paper."""
    panels = (
        replace(one, marks=tuple(replace(mark, label="") for mark in one.marks))
        for one in figure.panels
    )
    return replace(figure, panels=tuple(panels))
