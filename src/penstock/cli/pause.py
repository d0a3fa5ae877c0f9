"""`penstock pause`: stop the sources of a running flow."""

from __future__ import annotations

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams


@base.command("pause")
@requests.run_dir
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, timeout: str) -> None:
    """Stop the sources of a running flow until `penstock resume`.

    Example: penstock pause runs/mine
    """
    requests.ask(streams, run_dir, "pause", timeout)
