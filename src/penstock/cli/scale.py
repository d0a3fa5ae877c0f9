"""`penstock scale`: change settings of a running flow."""

from __future__ import annotations

import click

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput

_SETTING = (
    "NAME=NUMBER, where any operator names its pipeline: count=4, executors=2, "
    "without=3 (that executor), count.cadence=500ms, count.admission=1000 (or unlimited), "
    "count.ceiling=16 (or automatic)"
)


@base.command("scale")
@requests.run_dir
@click.argument("settings", metavar="SETTING...", nargs=-1, required=True, help=f"{_SETTING}.")
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, settings: tuple[str, ...], timeout: str) -> None:
    """Change settings of a running flow, all in one change.

    Example: penstock scale runs/mine count=4 executors=2
    """
    for word in settings:
        if "=" not in word:
            raise InvalidInput(f"cannot read the setting '{word}': write {_SETTING}")
    requests.ask(streams, run_dir, ", ".join(settings), timeout)
