"""Finding the operator that makes a batch fail."""

from __future__ import annotations

from itertools import islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.dataflow import operator as op
from penstock.dataflow.arrow import arrow_schema as arrow
from penstock.dataflow.generation import records
from penstock.dataflow.operator import Operator
from penstock.engines.spark import channel, checkpoint
from penstock.engines.spark.compiler import Compiler, Result, struct_of
from penstock.engines.spark.pipeline import RunningPipeline
from penstock.engines.spark.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCHES = 50
"""At most so many record batches are tried again."""


def culprit(pipeline: RunningPipeline) -> Operator | None:
    """Run the failed batch again, one operator more each time, until it fails.

    Spark's errors name an expression at best. Sources and stateless operators in front of
    everything else can be tried like this. If it was none of them, it is what comes next, if
    only one thing does; else None.
    """
    with TemporaryDirectory() as aside:  # letters of this trial are nobody's
        return _search(pipeline, Compiler(pipeline.site.graph, Store(aside)))


def _search(pipeline: RunningPipeline, compiler: Compiler) -> Operator | None:
    site = pipeline.site
    frames: dict[str, DataFrame] = {}
    names = pipeline.spec.operators
    for at, name in enumerate(names):
        operator = site.graph[name]
        if operator.stateful or isinstance(operator.body, op.Write):
            return operator if at == len(names) - 1 else None
        if isinstance(operator.body, op.Read):
            try:
                found = _input(pipeline, name, "")
            except Exception:
                return operator
            if found is None:
                return None
            frames[name] = found
            continue
        inputs = [frames.get(i) or _input(pipeline, name, i) for i in operator.inputs]
        frame = compiler.apply(operator, [Result(f) for f in inputs if f is not None]).frame()
        try:
            frame.write.format("noop").mode("overwrite").save()
        except Exception:
            return operator
        frames[name] = frame
    return None


def _input(pipeline: RunningPipeline, operator: str, upstream: str) -> DataFrame | None:
    """The rows of the batch that was begun last, as far as Penstock can read them itself."""
    site = pipeline.site
    key = f"{upstream}>{operator}" if upstream else operator
    _, rows, _ = checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)
    first, stop = pipeline.positions[key], rows.get(key, 0)
    generator = site.generator(operator) if not upstream else None
    if generator is not None:
        schema = generator.schema
        batches = records(generator, first, stop)
    elif upstream:
        schema = site.schemas[upstream]
        source = site.channel(upstream)
        batches = channel.read(source.store, source.log.pieces(first, stop), arrow(schema))
    else:
        return None
    table = pa.Table.from_batches(islice(batches, _BATCHES), arrow(schema))
    return site.spark.createDataFrame(table, struct_of(schema))
