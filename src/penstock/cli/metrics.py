"""`penstock metrics`: the vocabulary of what is measured."""

from __future__ import annotations

from penstock.cli import base, options
from penstock.cli.standard_output import Streams


@base.command("metrics")
@options.as_json
def command(streams: Streams) -> None:
    """List everything that is measured: name, unit and meaning.

    Example: penstock metrics
    """
    from penstock.metrics.catalog import CATALOG

    shown = [
        {"level": m.level.value, "name": m.name, "unit": m.unit.value, "meaning": m.meaning}
        for m in CATALOG
    ]
    lines = [f"{m['level']:<9} {m['name']:<17} {m['unit']:<8} {m['meaning']}" for m in shown]
    streams.print({"metrics": shown}, lines)
