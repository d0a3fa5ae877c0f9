"""What the commands that change a running flow have in common."""

from __future__ import annotations

import click

from penstock.cli import options
from penstock.cli.standard_output import Streams

run_dir = options.run_dir("The directory of the running flow.")
timeout = click.option(
    "--timeout",
    metavar="DURATION",
    default="60s",
    show_default=True,
    help="Longest time to wait for the answer.",
)


def ask(streams: Streams, run_dir: str, request: str, timeout: str) -> None:
    """Send a request to the flow that runs in a directory, and print its answer."""
    from penstock.dataflow import duration
    from penstock.store import mailbox

    answer = mailbox.ask(run_dir, request, duration.seconds(timeout))
    streams.print(answer.to_json(), [answer.message])
