"""`penstock fuse`: make one pipeline of two."""

from __future__ import annotations

import click

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams


@base.command("fuse")
@requests.run_dir
@click.argument(
    "operators", metavar="OPERATOR OPERATOR", nargs=2, help="One of each of the two pipelines."
)
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, operators: tuple[str, str], timeout: str) -> None:
    """Fuse two neighbouring pipelines of a running flow.

    Example: penstock fuse runs/mine split count
    """
    requests.ask(streams, run_dir, " ".join(["fuse", *operators]), timeout)
