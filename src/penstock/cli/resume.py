"""`penstock resume`: let the sources of a paused flow read again."""

from __future__ import annotations

from penstock.cli import base, options, requests
from penstock.cli.standard_output import Streams


@base.command("resume")
@requests.run_dir
@requests.timeout
@options.as_json
def command(streams: Streams, run_dir: str, timeout: str) -> None:
    """Let the sources of a paused flow read again, without limit.

    Example: penstock resume runs/mine
    """
    requests.ask(streams, run_dir, "resume", timeout)
