"""A random query as plain PySpark in batch mode. Nothing of Penstock is used here.

Rows that only a closed window or an outer join can give are left out where they come from the
flush row: no watermark ever passes that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from tests.differential import queries as q
from tests.differential.functions import Changed, Copies, Kept, KeptArrow
from tests.differential.queries import TIME, ddl

LAST = "TIMESTAMP '2090-01-01 00:00:00'"
"""No row but the flush row is later."""


def batch(query: q.Query, frames: Mapping[str, Any]) -> Any:
    """The result of a query over all rows at once."""
    return _steps(query.steps, frames["one"], frames)


def _steps(steps: tuple[q.Step, ...], frame: Any, frames: Mapping[str, Any]) -> Any:
    return reduce(lambda df, step: _step(step, df, frames), steps, frame)


def _step(step: q.Step, df: Any, frames: Mapping[str, Any]) -> Any:
    match step:
        case q.Where(condition):
            return df.where(condition)
        case q.Put(name, sql):
            return df.withColumn(name, F.expr(sql))
        case q.Select(names):
            return df.select(*(f"`{name}`" for name in names))
        case q.Explode(name, outer):
            exploded = F.explode_outer if outer else F.explode
            return df.withColumn(name, exploded(f"`{name}`"))
        case q.Map(name, _, columns):
            return _made(df, [Changed(name)(record) for record in _records(df)], columns)
        case q.FlatMap(modulus, columns):
            copies = [copy for record in _records(df) for copy in Copies(modulus)(record)]
            return _made(df, copies, columns)
        case q.Filter(modulus):
            columns = tuple((f.name, f.dataType.simpleString()) for f in df.schema.fields)
            return _made(df, filter(Kept(modulus), _records(df)), columns)
        case q.Arrow(modulus, columns):
            return df.mapInArrow(KeptArrow(modulus), ddl(columns))
        case q.Union(one, two):
            return _steps(one, df, frames).unionByName(_steps(two, df, frames))
        case q.Deduplicate(names):
            return df.select(*(f"`{name}`" for name in names)).distinct()
        case q.Process(key):
            numbered = F.row_number().over(Window.partitionBy(f"`{key}`").orderBy(F.lit(0)))
            return df.select(f"`{key}`", numbered.cast("bigint").alias("number"))
        case q.Join():
            return _join(step, df, _steps(step.steps, frames["two"], frames))
        case q.Aggregate():
            return _aggregate(step, df)


def _records(df: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in df.collect()]


def _made(df: Any, records: Any, columns: q.Columns) -> Any:
    names = [name for name, _ in columns]
    rows = [tuple(record[name] for name in names) for record in records]
    return df.sparkSession.createDataFrame(rows, ddl(columns))


def _join(step: q.Join, left: Any, right: Any) -> Any:
    near = f"l.{TIME} BETWEEN r.{TIME} - INTERVAL {step.seconds} SECONDS "
    near += f"AND r.{TIME} + INTERVAL {step.seconds} SECONDS"
    on = F.expr(f"l.`{step.key}` = r.`{step.key}` AND {near}")
    both = left.alias("l").join(right.alias("r"), on, step.how)
    paired = f"l.{TIME} IS NOT NULL AND r.{TIME} IS NOT NULL"
    both = both.where(f"({paired}) OR coalesce(l.{TIME}, r.{TIME}) < {LAST}")
    key = F.coalesce(f"l.`{step.key}`", f"r.`{step.key}`").alias(step.key)
    lefts = [F.col(f"l.`{name}`") for name in left.columns if name != step.key]
    rights = [
        F.col(f"r.`{name}`").alias(f"{name}_right" if name in left.columns else name)
        for name in right.columns
        if name != step.key
    ]
    return both.select(key, *lefts, *rights)


def _aggregate(step: q.Aggregate, df: Any) -> Any:
    groups = [F.col(f"`{name}`") for name in step.names]
    if step.window is not None:
        window = step.window
        slide = None if window.slide is None else f"{window.slide} seconds"
        groups.insert(0, F.window(window.on, f"{window.size} seconds", slide))
    sums = [F.expr(sql).alias(name) for name, sql in step.sums]
    result = df.groupBy(*groups).agg(*sums)
    if not step.final:
        return result
    closed = result.where(f"window.end < {LAST}")
    return closed.select(F.col("window.start").alias("Start"), *closed.columns[1:])
