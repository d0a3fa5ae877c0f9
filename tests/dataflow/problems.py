"""The messages of validation about a small dataflow that a test adds to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator
from penstock.dataflow.schema import Schema
from penstock.dataflow.validation import problems
from tests.strategies import nothing

SCHEMA = "word string, n bigint, at timestamp, tags map<string,int>"


def messages(flow: Dataflow | Graph, schemas: Any = None) -> list[str]:
    """What is wrong, without the places."""
    graph = flow.graph if isinstance(flow, Dataflow) else flow
    return [
        f"{p.operator}: {p.message}" if p.operator else p.message for p in problems(graph, schemas)
    ]


def written(write: Callable[[Dataflow, Stream], Any]) -> list[str]:
    """The problems of a flow whose source `in` ends in a sink, and what a test adds to it."""
    flow = Dataflow("flow")
    stream = flow.source("in", Generator(nothing, SCHEMA))
    stream.sink("out", Memory())
    write(flow, stream)
    return messages(flow)


def ended(write: Callable[[Stream], Stream]) -> list[str]:
    """The problems of a flow in which what a test adds ends in a sink."""
    return written(lambda flow, stream: write(stream).sink("end", Memory()))


def raw(*operators: Operator, **more: Any) -> list[str]:
    """The problems of operators that the API would not write."""
    source = Operator("in", op.Read(Generator(nothing, SCHEMA)), schema=Schema.of(SCHEMA))
    out = Operator("out", op.Write(Memory()), ("in",))
    return messages(Graph("flow", (source, out, *operators), **more))


def sink(name: str, upstream: str) -> Operator:
    return Operator(name, op.Write(Memory()), (upstream,))
