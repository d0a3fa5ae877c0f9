"""`penstock profile`: find the best plan of a dataflow."""

from __future__ import annotations

from penstock.cli import base, options
from penstock.cli.profiling import Profiling, profiling, run_command
from penstock.cli.standard_output import Streams


@base.command("profile", spark=True)
@options.flow()
@profiling
def command(streams: Streams, flow: str, profiling: Profiling) -> None:
    """Find the best plan of a dataflow under stress.

    Example: penstock profile wordcount --for 20m --max-slots 8
    """
    from penstock.views.profile_tables import profile_tables

    (found,) = profiling.profiles([flow], streams)
    streams.render(found.to_json(), [profile_tables(found), run_command(flow, found)])
