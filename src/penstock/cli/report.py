"""`penstock report`: the story of a run as a page."""

from __future__ import annotations

import time

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams


@base.command("report")
@options.run_dir()
@click.option(
    "--out",
    metavar="FILE",
    help="Page to write; pictures (PNG) go beside it.  [default: report.html in RUN_DIR]",
)
@options.as_json
def command(streams: Streams, run_dir: str, out: str | None) -> None:
    """Write a report of a run as one HTML page.

    Tells what was asked, what happened, every decision, what it cost and what it gained.

    Example: penstock report runs/mine
    """
    from penstock.report import document
    from penstock.report.story import story

    found = story(run_dir)
    written = document.write(found, out, time.time())
    pictures = [str(path) for path in written.pictures]
    if written.missing:
        streams.note(f"no pictures beside it: {written.missing}")
    shown = {"flow": found.graph.name, "page": str(written.page), "pictures": pictures}
    streams.print(shown, [str(written.page), *pictures])
