"""A random query as a dataflow, one operator a step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from penstock import Dataflow, Files, Memory, Stream
from tests.differential import queries as q
from tests.differential.functions import Changed, Copies, Kept, KeptArrow, Numbering
from tests.differential.queries import TIME, ddl


def flow(query: q.Query, folder: Path) -> Dataflow:
    """The dataflow of a query, which reads the directories `folder / "one"` and `"two"`."""
    made = Dataflow("random")
    interpreter = _Interpreter(query, made, folder)
    interpreter.steps(query.steps, interpreter.source("one", query.one)).sink("out", Memory())
    return made


class _Interpreter:
    def __init__(self, query: q.Query, made: Dataflow, folder: Path) -> None:
        self._query = query
        self._made = made
        self._folder = folder
        self._numbers: Iterator[int] = count(1)

    def source(self, name: str, columns: q.Columns) -> Stream:
        files = Files(str(self._folder / name), ddl(columns), self._query.format)
        return self._made.source(name, files)

    def steps(self, steps: tuple[q.Step, ...], stream: Stream) -> Stream:
        for step in steps:
            stream = self._step(step, stream)
        return stream

    def _name(self, step: q.Step) -> str:
        return f"{type(step).__name__.lower()}{next(self._numbers)}"

    def _step(self, step: q.Step, stream: Stream) -> Stream:
        name = self._name(step)
        match step:
            case q.Where(condition):
                return stream.frame(name, lambda df: df.where(condition))
            case q.Put(column, sql):
                return stream.frame(name, lambda df: df.withColumn(column, F.expr(sql)))
            case q.Select(names):
                return stream.frame(name, lambda df: df.select(*(f"`{one}`" for one in names)))
            case q.Explode(column, outer):
                exploded = F.explode_outer if outer else F.explode
                return stream.frame(name, lambda df: df.withColumn(column, exploded(f"`{column}`")))
            case q.Map(column, _, columns):
                return stream.map(name, Changed(column), schema=ddl(columns))
            case q.FlatMap(modulus, columns):
                return stream.flat_map(name, Copies(modulus), schema=ddl(columns))
            case q.Filter(modulus):
                return stream.filter(name, Kept(modulus))
            case q.Arrow(modulus, columns):
                return stream.arrow(name, KeptArrow(modulus), schema=ddl(columns))
            case q.Union(one, two):
                return self.steps(one, stream).union(name, self.steps(two, stream))
            case q.Process(key, kind):
                schema = f"`{key}` {kind}, number bigint"
                return stream.key_by(key).process(name, Numbering(key), schema=schema)
            case q.Deduplicate():
                return self._deduplicate(name, step, stream)
            case q.Join():
                return self._join(name, step, stream)
            case q.Aggregate():
                return self._aggregate(name, step, stream)

    @property
    def _delay(self) -> str:
        """Longer than any row is late: Spark drops a row that is as old as the watermark."""
        return f"{self._query.late + 1}s"

    def _deduplicate(self, name: str, step: q.Deduplicate, stream: Stream) -> Stream:
        columns = [f"`{one}`" for one in step.names]
        some = stream.frame(f"{name}-columns", lambda df: df.select(*columns))
        marks: dict[str, Any] = {"on": TIME, "watermark": self._delay} if step.timed else {}
        return some.key_by(*step.names).deduplicate(name, **marks)

    def _join(self, name: str, step: q.Join, stream: Stream) -> Stream:
        other = self.steps(step.steps, self.source("two", self._query.two))
        near = f"l.{TIME} BETWEEN r.{TIME} - INTERVAL {step.seconds} SECONDS "
        near += f"AND r.{TIME} + INTERVAL {step.seconds} SECONDS"
        return stream.key_by(step.key).join(
            name,
            other.key_by(step.key),
            how=step.how,
            condition=near,
            left_watermark=(TIME, self._delay),
            right_watermark=(TIME, self._delay),
        )

    def _aggregate(self, name: str, step: q.Aggregate, stream: Stream) -> Stream:
        keyed = stream.key_by(*step.names)
        if step.window is not None:
            window = step.window
            marks = {} if window.delay is None else {"watermark": f"{window.delay}s"}
            slide = None if window.slide is None else f"{window.slide}s"
            keyed = keyed.window(f"{window.size}s", on=window.on, slide=slide, **marks)
        emit = "final" if step.final else "update"
        result = keyed.aggregate(name, emit=emit, **dict(step.sums))
        if not step.final:
            return result
        start = "window.start AS Start"
        return result.frame(
            f"{name}-start", lambda df: df.selectExpr(start, *(f"`{c}`" for c in df.columns[1:]))
        )
