"""Why a batch failed: the operator that did it, and the line of Spark's error that says so."""

from __future__ import annotations

import re
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.dataflow import operators as op
from penstock.dataflow.operators import Operator
from penstock.engines.spark.channels.remote_files import Store
from penstock.engines.spark.measuring import sample
from penstock.engines.spark.pipeline_graph import Input
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.compiler import Compiler, Result
from penstock.engines.spark.queries.pipeline import RunningPipeline
from penstock.engines.spark.session.flow_session import SOCKETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOO_LONG = re.compile(r"(AF_UNIX|Unix domain) path too long", re.IGNORECASE)
_PREFIX = re.compile(r"^(: |Caused by: )")
_CAUSE = re.compile(r"\[[A-Z_.0-9]+\]|(?!org\.)[\w.]*(Error|Exception|Invalid)\b")
"""How the last line of a Python traceback or a message of Spark begins."""


def told(pipeline: RunningPipeline, error: BaseException, times: int) -> str:
    """What to tell somebody whose pipeline has failed so many times."""
    try:
        operator = culprit(pipeline)
    except Exception:  # a trial that fails proves nothing
        operator = None
    where = (
        f"operator '{operator.name}' ({operator.written})"
        if operator is not None
        else f"pipeline {' + '.join(pipeline.spec.operators)}"
    )
    return f"{where} failed {times} times: {reason(str(error))}"


def reason(text: str) -> str:
    """The telling lines of one of Spark's long error texts."""
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
