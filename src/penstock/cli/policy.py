"""`penstock policy`: switch the policy of a running flow on or off."""

from __future__ import annotations

import click

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams


@base.command("policy")
@requests.run_dir
@click.argument(
    "mode", metavar="MODE", help="on, advise (report decisions without applying them) or off."
)
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, mode: str, timeout: str) -> None:
    """Switch the policy of a running flow on or off.

    Example: penstock policy runs/mine off
    """
    requests.ask(streams, run_dir, f"policy {mode}", timeout)
