"""`penstock scale-out`: add executors to a running flow."""

from __future__ import annotations

import click

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams


@base.command("scale-out")
@requests.run_dir
@click.argument("executors", metavar="EXECUTORS", help="How many executors to add.")
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, executors: str, timeout: str) -> None:
    """Add executors to a running flow.

    Adds instances, too, where they raise throughput most.

    Example: penstock scale-out runs/mine 2
    """
    requests.ask(streams, run_dir, f"scale-out {executors}", timeout)
