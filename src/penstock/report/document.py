"""Writes the report of a run: an HTML page, and PNG pictures beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.drawing import files
from penstock.drawing.charts import chart
from penstock.drawing.diagram import diagram
from penstock.errors import InvalidInput, PenstockError
from penstock.files import write_text
from penstock.report.curves import curves
from penstock.report.page import page
from penstock.report.story import Story


@dataclass(frozen=True)
class Written:
    """Files of a report; missing: why there are no pictures."""

    page: Path
    pictures: tuple[Path, ...] = ()
    missing: str = ""


def write(story: Story, out: str | Path | None = None, now: float | None = None) -> Written:
    """Write the report of a run to `out`, by default `report.html` in its directory.

    The page is self-contained; the pictures are for other documents. Raises `InvalidInput` if the
    page cannot be written.
    """
    path = story.run_dir / "report.html" if out is None else Path(out).expanduser()
    if path.is_dir():
        raise InvalidInput(f"'{path}' is a directory: name a file, such as {path / 'report.html'}")
    try:
        write_text(path, page(story, now))
    except OSError as error:
        raise InvalidInput(f"cannot write to '{path}': {error.strerror}") from None
    try:
        return Written(path, _pictures(story, path))
    except PenstockError as error:
        return Written(path, missing=str(error))


def _pictures(story: Story, path: Path) -> tuple[Path, ...]:
    here = story.busiest
    shown = (story.graph,) if here is None else (story.graph, here.plan, here.snapshot)
    pictures = [(diagram(*shown), "dataflow")]
    course = curves(story)
    if course.panels:
        pictures.append((chart(course, labelled=False), "course"))
    return tuple(
        files.save(sketch, path.with_name(f"{path.stem}-{name}.png")) for sketch, name in pictures
    )
