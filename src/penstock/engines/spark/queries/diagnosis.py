"""Finds out why a batch failed: the operator at fault, and the decisive line of Spark's error."""

from __future__ import annotations

import re
from itertools import islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.dataflow import operators as op
from penstock.dataflow.generator import records
from penstock.dataflow.operators import Operator
from penstock.dataflow.schema import arrow_schema as arrow
from penstock.engines.spark import pipeline_graph
from penstock.engines.spark.channels import channel
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.pipeline_graph import Input
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.compiler import Compiler, PendingFrame, struct_of
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.session.flow_session import SOCKETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOO_LONG = re.compile(r"(AF_UNIX|Unix domain) path too long", re.IGNORECASE)
_PREFIX = re.compile(r"^(: |Caused by: )")
_CAUSE = re.compile(r"\[[A-Z_.0-9]+\]|(?!org\.)[\w.]*(Error|Exception|Invalid)\b")
"""How the last line of a Python traceback or a message of Spark begins."""


def told(pipeline: RunningPipeline, error: BaseException, times: int) -> str:
    """The error message for a pipeline that has failed so many times."""
    try:
        operator = culprit(pipeline)
    except Exception:  # a failed trial proves nothing
        operator = None
    where = (
        f"operator '{operator.name}' ({operator.written})"
        if operator is not None
        else f"pipeline {' + '.join(pipeline.spec.operators)}"
    )
    return f"{where} failed {times} times: {reason(str(error))}"


def reason(text: str) -> str:
    """The decisive line of one of Spark's long error texts."""
    if _TOO_LONG.search(text):
        return (
            "Spark's Python workers cannot open their sockets, because the path of their directory "
            f"is longer than a socket may have (some 100 characters): leave {SOCKETS} out, or give "
            "a short spark.python.unix.domain.socket.dir"
        )
    lines = [_PREFIX.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if _CAUSE.match(line)]
    return (causes[-1:] or lines or ["no message"])[0][:500]


def culprit(pipeline: RunningPipeline) -> Operator | None:
    """Run the failed batch again, one operator more each time, until it fails.

    Spark's errors name an expression at best. Sources and the stateless operators right behind
    them can be tried this way. If none of them fails, it was the next operator, if there is only
    one; otherwise None.
    """
    with TemporaryDirectory() as aside:  # dead letters of this trial are thrown away
        return _search(pipeline, Compiler(pipeline.context.graph, FileStore(aside)))


def _search(pipeline: RunningPipeline, compiler: Compiler) -> Operator | None:
    context = pipeline.context
    frames: dict[str, DataFrame] = {}
    names = pipeline.spec.operators
    for at, name in enumerate(names):
        operator = context.graph[name]
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
        frame = compiler.apply(operator, [PendingFrame(f) for f in inputs if f is not None]).frame()
        try:
            frame.write.format("noop").mode("overwrite").save()
        except Exception:
            return operator
        frames[name] = frame
    return None


def _input(pipeline: RunningPipeline, operator: str, upstream: str) -> DataFrame | None:
    """The rows of the batch that was begun last, as far as Penstock can read them itself."""
    entry = Input(operator, upstream)
    _, rows, _ = checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)
    found = read_table(pipeline, entry, pipeline.positions[entry.key], rows.get(entry.key, 0))
    return None if found is None else as_frame(pipeline, entry, found)


_BATCHES = 50
"""At most so many record batches are read."""


def read_table(pipeline: RunningPipeline, entry: Input, first: int, stop: int) -> pa.Table | None:
    """Rows [first, stop) of an input; None where Penstock cannot read them itself.

    Rows of a channel that all its readers have committed may be gone: then there are fewer.
    """
    context = pipeline.context
    generator = None if entry.upstream else pipeline_graph.generator(context.graph, entry.operator)
    if generator is not None:
        schema = generator.schema
        batches = records(generator, first, stop)
    elif entry.upstream:
        schema = context.schemas[entry.upstream]
        source = context.channel(entry.upstream)
        batches = channel.read(source.store, source.log.pieces(first, stop), arrow(schema))
    else:
        return None
    return pa.Table.from_batches(islice(batches, _BATCHES), arrow(schema))


def as_frame(pipeline: RunningPipeline, entry: Input, rows: pa.Table) -> DataFrame:
    """The rows as Spark has them."""
    context = pipeline.context
    source = entry.upstream or entry.operator
    return context.spark.createDataFrame(rows, struct_of(context.schemas[source]))
