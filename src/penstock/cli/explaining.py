"""The command `explain`: what would run, in words or as a drawing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.cli import starting
from penstock.cli.streams import Streams, tell

if TYPE_CHECKING:
    from penstock.dataflow.graph import Graph
    from penstock.dataflow.schema import Schema

_DRAW = "draw the dataflow and its pipelines instead, into FILE.svg or FILE.png"


def add(commands: Any, flow: str, conf: str) -> None:
    """Make the command known to the parser."""
    explain = commands.add_parser(
        "explain",
        help="show what would run",
        description="Show operators, regions, pipelines and the plan of a dataflow; run nothing.",
    )
    explain.add_argument("flow", metavar="FLOW", help=flow)
    explain.add_argument("--master", metavar="M", help="Spark's master (default: this machine)")
    explain.add_argument("--conf", metavar="K=V", action="append", default=[], help=conf)
    explain.add_argument("--draw", metavar="FILE", help=_DRAW)
    explain.add_argument("--json", action="store_true", help="one JSON object on standard output")
    explain.set_defaults(do=_explain)


def _explain(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.cli import flows
    from penstock.dataflow.validation import check
    from penstock.views.explain import explain, explain_json

    conf = starting.settings(given.conf)
    reference = flows.Reference.read(given.flow)
    if given.draw is not None:
        return _draw(given, streams, reference)
    graph = starting.loaded(reference, given.master, conf, "out").graph
    check(graph)  # what can be seen without Spark is said without waiting for it
    schemas, notes = _schemas(graph, given.master, conf)
    for line in notes:
        print(f"penstock: {line}", file=streams.err, flush=True)
    if given.json:
        print(json.dumps(explain_json(graph, schemas), indent=2), file=streams.out, flush=True)
    else:
        from rich.console import Console

        console = Console(file=streams.out)
        console.print(explain(graph, console.width, schemas))
    return 0


def _draw(given: argparse.Namespace, streams: Streams, reference: Any) -> int:
    """No Spark is needed for that, unless the file with the dataflow needs it to be read."""
    from penstock.dataflow.validation import check
    from penstock.drawing import diagram, files
    from penstock.views.explain import start_plan

    files.check(given.draw)  # a typing error should not wait for a file to be read
    graph = starting.loaded_lightly(reference).graph
    check(graph)
    path = files.save(diagram.diagram(graph, start_plan(graph)), given.draw)
    return tell(streams, {"flow": graph.name, "drawn": str(path)}, [f"drawn to {path}"])


def _schemas(
    graph: Graph, master: str | None, conf: Mapping[str, str]
) -> tuple[Mapping[str, Schema], tuple[str, ...]]:
    """The output schema of every operator, and the user's settings that a run would not follow.

    Native functions have to be put to Spark for that.
    """
    from penstock.engines.spark.queries.spark_checks import check
    from penstock.engines.spark.session.flow_session import active, overridden, own, session

    spark = session(master, conf)
    with active(copied := own(spark, conf)):
        return check(graph, copied).schemas, overridden(spark, conf)
