"""Delivery guarantees of sinks: what happens to rows when a batch is repeated."""

from __future__ import annotations

from enum import StrEnum

from penstock.dataflow import connectors
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Write


class Delivery(StrEnum):
    """How often each row reaches a sink."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    BY_BATCH_ID = "once by batch id"
    NOTHING = "nothing is kept"

    @property
    def meaning(self) -> str:
        """The guarantee in one sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Delivery.EXACTLY_ONCE: "every row is there once, also after a crash",
    Delivery.AT_LEAST_ONCE: "no row is missing; after a failure the rows of a batch may be there "
    "twice, and are counted as repeated",
    Delivery.BY_BATCH_ID: "after a failure a batch comes again with the same id: exactly once if "
    "the format remembers batch ids, else at least once",
    Delivery.NOTHING: "rows are computed and thrown away",
}

_FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "xml", "avro")
_NATIVE = {
    **dict.fromkeys((*_FILE_FORMATS, "memory"), Delivery.EXACTLY_ONCE),
    **dict.fromkeys(("kafka", "console"), Delivery.AT_LEAST_ONCE),
    "noop": Delivery.NOTHING,
}


def delivery(sink: connectors.Sink) -> Delivery:
    """Return the guarantee of a sink."""
    match sink:
        case connectors.FileSink() | connectors.Memory():
            return Delivery.EXACTLY_ONCE
        case connectors.Discard():
            return Delivery.NOTHING
        case connectors.Spark(format):
            return _NATIVE.get(format.lower(), Delivery.BY_BATCH_ID)
    return Delivery.AT_LEAST_ONCE


def deliveries(graph: Graph) -> dict[str, Delivery]:
    """Return the guarantee of every sink of a dataflow, by name."""
    found = {}
    for operator in graph.sinks:
        if isinstance(operator.body, Write):
            found[operator.name] = delivery(operator.body.sink)
    return found


def remembers_files(sink: connectors.Sink) -> bool:
    """True for a native sink that keeps a log of batches in its output directory."""
    return isinstance(sink, connectors.Spark) and sink.format.lower() in _FILE_FORMATS
