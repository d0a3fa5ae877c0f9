"""`penstock workloads`: the ready-made dataflows."""

from __future__ import annotations

from penstock.cli import base, options
from penstock.cli.standard_output import Streams


@base.command("workloads")
@options.as_json
def command(streams: Streams) -> None:
    """List the ready-made dataflows.

    Example: penstock workloads
    """
    from penstock import workloads

    known = [workloads.describe(name) for name in workloads.names()]
    shown = [{"name": w.name, "description": w.description, "from": w.source} for w in known]
    if not known:
        streams.note(f"no workloads are installed; {workloads.LAB}")
    width = max((len(w.name) for w in known), default=0)
    lines = [f"{w.name:<{width}}  {w.description}  ({w.source})" for w in known]
    streams.print({"workloads": shown}, lines)
