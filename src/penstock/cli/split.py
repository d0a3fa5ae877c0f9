"""`penstock split`: cut a pipeline in two."""

from __future__ import annotations

import click

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams


@base.command("split")
@requests.run_dir
@click.argument("operator", metavar="OPERATOR", help="The first operator of the second pipeline.")
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, operator: str, timeout: str) -> None:
    """Split a pipeline of a running flow in two.

    Example: penstock split runs/mine count
    """
    requests.ask(streams, run_dir, f"split {operator}", timeout)
