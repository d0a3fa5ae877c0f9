"""Finding the operator that makes a batch fail."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.dataflow import operator as op
from penstock.dataflow.operator import Operator
from penstock.engines.spark import checkpoint, sample
from penstock.engines.spark.compiler import Compiler, Result
from penstock.engines.spark.pipeline import RunningPipeline
from penstock.engines.spark.site import Input
from penstock.engines.spark.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    entry = Input(operator, upstream)
    _, rows, _ = checkpoint.progress(pipeline.checkpoint, pipeline.wired.epoch)
    found = sample.table(pipeline, entry, pipeline.positions[entry.key], rows.get(entry.key, 0))
    return None if found is None else sample.frame(pipeline, entry, found)
