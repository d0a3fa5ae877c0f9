"""`penstock workloads`: the built-in dataflows."""

from __future__ import annotations

from penstock.cli import base, options
from penstock.cli.streams import Streams


@base.command("workloads")
@options.as_json
def command(streams: Streams) -> None:
    """List the built-in dataflows.

    Example: penstock workloads
    """
    from penstock import workloads

    known = [workloads.describe(name) for name in workloads.names()]
    shown = [{"name": w.name, "description": w.description, "from": w.source} for w in known]
    width = max(len(w.name) for w in known)
    lines = [f"{w.name:<{width}}  {w.description}  ({w.source})" for w in known]
    streams.print({"workloads": shown}, lines)
