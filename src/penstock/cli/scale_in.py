"""`penstock scale-in`: take executors from a running flow."""

from __future__ import annotations

import click

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams


@base.command("scale-in")
@requests.run_dir
@click.argument("executors", metavar="EXECUTORS", help="How many executors to remove.")
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, executors: str, timeout: str) -> None:
    """Remove executors from a running flow.

    Chooses those whose removal costs the least throughput.

    Example: penstock scale-in runs/mine 1
    """
    requests.ask(streams, run_dir, f"scale-in {executors}", timeout)
