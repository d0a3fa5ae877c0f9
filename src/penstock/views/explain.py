"""Describes a dataflow before it runs: operators, regions, pipelines, plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.dataflow import duration, structure
from penstock.dataflow.delivery import deliveries
from penstock.dataflow.graph import Graph
from penstock.dataflow.regions import Region, regions
from penstock.dataflow.schema import Schema
from penstock.dataflow.validation import check
from penstock.plan.fusion import bounds, default_plan
from penstock.plan.plan import Pipeline, Plan

_WIDE = 110


Schemas = Mapping[str, Schema | None]


def explain_json(graph: Graph, schemas: Schemas | None = None) -> dict[str, Any]:
    """Dataflow as JSON values: structure, regions, sinks and the default plan.

    schemas: output schemas of operators, if Spark was asked for them. Raises `InvalidDataflow` if
    the dataflow could not run.
    """
    check(graph)
    return {
        "flow": graph.name,
        "fingerprint": graph.fingerprint,
        "structure": structure.to_json(graph, schemas),
        "regions": [
            {"operators": list(r.operators), "kind": r.kind, "key": list(r.key)}
            for r in regions(graph, schemas)
        ],
        "sinks": [
            {"name": name, "delivery": one.value, "meaning": one.meaning}
            for name, one in deliveries(graph).items()
        ],
        "plan": start_plan(graph).to_json(),
    }


def start_plan(graph: Graph) -> Plan:
    """Default plan of a run on this machine: maximum fusion, one instance per core."""
    return default_plan(graph, os.cpu_count() or 1)


def explain(graph: Graph, width: int = 80, schemas: Schemas | None = None) -> RenderableType:
    """The same description as `explain_json`, for a terminal of `width` columns."""
    check(graph)
    plan = start_plan(graph)
    parts: list[RenderableType] = [
        Text.assemble(("dataflow ", "dim"), (graph.name, "bold")),
        Text(""),
        _operators(graph, width, schemas),
        Text(""),
        _title("regions", "a parallel one can be copied as a whole, split by its key"),
        *(_region(r) for r in regions(graph, schemas)),
        Text(""),
        _title("pipelines", "what runs as one unit under the default plan"),
        _pipelines(graph, plan),
        Text(""),
        _title("sinks", "what each promises about rows that come again after a failure"),
        _sinks(graph),
    ]
    if graph.constraints:
        parts += [Text(""), _title("latency", "mean over a window"), _constraints(graph)]
    return Group(*parts)


def _operators(graph: Graph, width: int, schemas: Schemas | None) -> RenderableType:
    table = _table("operator", "form", "state", "key", "bounds")
    if width >= _WIDE:
        for head in ("on error", "output volume", "written"):
            table.add_column(head, no_wrap=True)
    table.add_column("columns out", overflow="fold")
    for step in structure.Structure.of(graph, schemas).operators:
        cells = [step.name, step.form, step.state.value, ", ".join(step.keys), str(step.bounds)]
        if width >= _WIDE:
            cells += [step.on_error.value, step.selectivity.value, str(step.written)]
        # Spark knows the columns of a native function only once it starts.
        columns = Text("known to Spark only", "dim") if step.schema is None else str(step.schema)
        table.add_row("", *cells, columns)
    return table


def _region(region: Region) -> Text:
    how = f"by {', '.join(region.key)}" if region.key else ""
    chain = " → ".join(region.operators)
    return Text.assemble("   ", (f"{region.kind:<9}", "cyan"), chain, (f"  {how}", "dim"))


def _pipelines(graph: Graph, plan: Plan) -> RenderableType:
    table = _table("instances", "bounds", "cadence", "admission")
    table.add_column("operators", overflow="fold")
    for pipeline in plan.pipelines:
        table.add_row("", *_settings(graph, pipeline), ", ".join(pipeline.operators))
    return table


def _sinks(graph: Graph) -> RenderableType:
    table = _table("sink", "delivery")
    table.add_column("meaning", overflow="fold")
    for name, one in deliveries(graph).items():
        table.add_row("", name, one.value, one.meaning)
    return table


def _settings(graph: Graph, pipeline: Pipeline) -> tuple[str, str, str, str]:
    limits = str(bounds(graph, pipeline.operators))
    cadence, admission = cadence_text(pipeline.cadence), admission_text(pipeline.admission)
    return str(pipeline.parallelism), limits, cadence, admission


def cadence_text(seconds: float) -> str:
    """Cadence of a pipeline as a word or two."""
    return duration.text(seconds) if seconds else "at once"


def admission_text(rows: int | None) -> str:
    """Maximum number of rows per batch, as a word or two."""
    return "all" if rows is None else f"{rows:,} rows"


def _constraints(graph: Graph) -> RenderableType:
    table = _table("from", "to", "below", "window")
    for c in graph.constraints:
        table.add_row("", c.first, c.last, duration.text(c.latency), duration.text(c.window))
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("")
    for head in heads:
        table.add_column(head, no_wrap=True)
    return table


def _title(word: str, more: str) -> Text:
    return Text.assemble((word, "bold"), (f"  {more}", "dim"))
