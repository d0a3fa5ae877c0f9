"""`penstock version`: print the versions."""

from __future__ import annotations

from penstock.cli import base
from penstock.cli.standard_output import Streams


@base.command("version")
def command(streams: Streams) -> None:
    """Print the versions of Penstock and of pyspark.

    Example: penstock version
    """
    from penstock.cli.main import versions

    streams.print({}, [versions()])
