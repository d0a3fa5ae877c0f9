"""`penstock explain`: what would run, as text or as a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams

if TYPE_CHECKING:
    from penstock.cli.flows import Reference
    from penstock.dataflow.graph import Graph
    from penstock.dataflow.schema import Schema


@base.command("explain")
@options.flow()
@options.spark
@click.option(
    "--draw",
    metavar="FILE",
    help="Draw the dataflow and its pipelines instead, to FILE.svg or FILE.png.",
)
@options.as_json
def command(streams: Streams, flow: str, spark: options.SparkOptions, draw: str | None) -> None:
    """Show the pipelines and the plan of a dataflow.

    Prints operators with their columns, regions, pipelines and what each sink promises. Runs
    nothing.

    Example: penstock explain wordcount --draw wordcount.svg
    """
    from penstock.cli import flows
    from penstock.dataflow.validation import check
    from penstock.views.explain import explain, explain_json

    reference = flows.Reference.read(flow)
    if draw is not None:
        _draw(streams, reference, draw)
        return
    graph = flows.loaded(reference, spark.master, spark.conf, "out").graph
    check(graph)  # report what needs no Spark without waiting for Spark
    schemas, notes = _schemas(graph, spark.master, spark.conf)
    for line in notes:
        streams.note(line)
    if streams.json:
        streams.print(explain_json(graph, schemas), ())
        return
    from rich.console import Console

    console = Console(file=streams.out)
    console.print(explain(graph, console.width, schemas))


def _draw(streams: Streams, reference: Reference, file: str) -> None:
    """Draw it without Spark, unless the file with the dataflow needs a session to be read."""
    from penstock.cli import flows
    from penstock.dataflow.validation import check
    from penstock.drawing import diagram, files
    from penstock.views.explain import start_plan

    files.check(file)  # report a typing error before the flow is loaded
    graph = flows.loaded_lightly(reference).graph
    check(graph)
    path = files.save(diagram.diagram(graph, start_plan(graph)), file)
    streams.print({"flow": graph.name, "drawn": str(path)}, [f"drawn to {path}"])


def _schemas(
    graph: Graph, master: str | None, conf: Mapping[str, str]
) -> tuple[Mapping[str, Schema], tuple[str, ...]]:
    """The output schema of every operator, and settings of the user that a run would not follow.

    Only Spark knows what native functions return.
    """
    from penstock.engines.spark.queries.spark_checks import check
    from penstock.engines.spark.session.flow_session import active, overridden, own, session

    spark = session(master, conf)
    with active(copied := own(spark, conf)):
        return check(graph, copied).schemas, overridden(spark, conf)
