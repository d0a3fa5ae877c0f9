"""Rows that a pipeline has read, read once more, as an ordinary DataFrame."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.dataflow.generator import records
from penstock.dataflow.schema import arrow_schema as arrow
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.channels import channel
from penstock.engines.spark.pipeline_graph import Input
from penstock.engines.spark.queries.compiler import struct_of
from penstock.engines.spark.queries.pipeline import RunningPipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCHES = 50
"""At most so many record batches are read."""


def table(pipeline: RunningPipeline, entry: Input, first: int, stop: int) -> pa.Table | None:
    """Rows [first, stop) of an input; None where Penstock cannot read them itself.

    Rows of a channel that all its readers have committed may be gone: then there are fewer.
    """
    site = pipeline.site
    generator = None if entry.upstream else pipeline_graph.generator(site.graph, entry.operator)
    if generator is not None:
        schema = generator.schema
        batches = records(generator, first, stop)
    elif entry.upstream:
        schema = site.schemas[entry.upstream]
        source = site.channel(entry.upstream)
        batches = channel.read(source.store, source.log.pieces(first, stop), arrow(schema))
    else:
        return None
    return pa.Table.from_batches(islice(batches, _BATCHES), arrow(schema))


def frame(pipeline: RunningPipeline, entry: Input, rows: pa.Table) -> DataFrame:
    """The rows as Spark has them."""
    site = pipeline.site
    source = entry.upstream or entry.operator
    return site.spark.createDataFrame(rows, struct_of(site.schemas[source]))
