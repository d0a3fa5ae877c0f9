"""Counting records that come too late for their windows.

Spark counts what a watermark drops after it has added up the records of a group, so it counts
groups. Here the records are counted before that, against the watermark that the batch drops by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

LATE = "penstock_late"
"""Name of the observation that counts late records."""


class Watermark:
    """A watermark that expressions read while a batch runs, in milliseconds since 1970.

    An expression of a streaming query is fixed when the query starts. This one asks an object of
    the driver, which goes with the tasks of each batch as it is when they are sent.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._cell = jvm.java.util.concurrent.atomic.AtomicLongArray(1)
        types, expressions = jvm.org.apache.spark.sql.types, jvm.org.apache.spark.sql.catalyst
        literal = _object(expressions.expressions, "Literal")
        cell = literal.fromObject(self._cell, types.ObjectType(self._cell.getClass()))
        sequence = jvm.PythonUtils.toSeq
        call = expressions.expressions.objects.Invoke(
            cell,
            "get",
            _object(types, "LongType"),
            sequence([literal.apply(0)]),
            sequence([_object(types, "IntegerType")]),
            False,  # propagateNull
            False,  # returnNullable
            False,  # deterministic: it must not be worked out once and for all
        )
        self._call = jvm.org.apache.spark.sql.classic.ExpressionUtils.column(call)

    @property
    def column(self) -> Column:
        from pyspark.sql.classic.column import Column as Classic

        return Classic(self._call)

    def set(self, milliseconds: int) -> None:
        self._cell.set(0, milliseconds)


def late(on: str, size: int, slide: int, watermark: Column) -> Column:
    """Whether a record comes too late for at least one of its windows.

    on: a timestamp column; size, slide: of the windows, in microseconds.
    """
    at = F.unix_micros(F.col(f"`{on}`"))
    into = F.pmod(at, F.lit(slide))  # since the start of the last window that holds the record
    earlier = F.floor((F.lit(size - 1) - into) / F.lit(slide))
    first_end = at - into - earlier * slide + size
    return first_end <= watermark * 1000


def _object(package: Any, name: str) -> Any:
    """A singleton of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
