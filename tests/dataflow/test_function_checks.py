"""Functions of the wrong kind are found before anything runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pandas import Series

from penstock import Dataflow, Discard, ForeachBatch, Generator, Memory
from penstock.dataflow.connectors import Sink
from penstock.dataflow.flow import Stream
from penstock.dataflow.validation import problems

N = "n bigint"


def found(build: Callable[[Stream], Stream | None], sink: Sink | None = None) -> list[str]:
    flow = Dataflow("kinds")
    stream = flow.source("in", Generator(lambda rng, index, at: {"n": index}, N))
    made = build(stream)
    if made is not None:
        made.sink("out", sink or Memory())
    return [p.message for p in problems(flow.graph)]


def of_pandas(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from frames


def of_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def to_pandas(record: dict[str, Any]) -> pd.Series:
    return pd.Series(record)


def bare(series: Series) -> Any:
    return series


def with_table(
    record: dict[str, Any], table: pd.DataFrame | None = None
) -> dict[str, pd.Timestamp]:
    return record


class Method:
    def whole(self, record: dict[str, Any]) -> dict[str, Any]:
        return record

    def __call__(self, one: Any, two: Any) -> Any:
        return one


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda s: s.map("m", of_pandas, schema=N),
            "its function is written for pandas (frames: Iterator[pd.DataFrame]), and a map "
            "operator calls it with a record as a dictionary",
        ),
        (lambda s: s.map("m", bare, schema=N), "written for pandas (series: Series)"),
        (lambda s: s.flat_map("m", of_pandas, schema=N), "written for pandas"),
        (lambda s: s.filter("m", of_pandas), "written for pandas"),
        (lambda s: s.map("m", to_pandas, schema=N), "written for pandas (return: pd.Series)"),
        (
            lambda s: s.arrow("a", of_pandas, schema=N),
            "an arrow operator calls it with an iterator of Arrow record batches",
        ),
        (lambda s: s.map("m", of_arrow, schema=N), "written for Arrow"),
        (
            lambda s: s.map("m", lambda: {}, schema=N),
            "its function takes no argument, and a map operator calls it with 1: a record",
        ),
        (lambda s: s.map("m", lambda a, b: a, schema=N), "its function takes 2 arguments"),
        (lambda s: s.map("m", Method(), schema=N), "takes 2 arguments"),
        (lambda s: s.frame("f", lambda: None), "calls it with 1: a DataFrame"),
        (lambda s: s.arrow("a", lambda *, batches: batches, schema=N), "without a default"),
        (
            lambda s: s.key_by("n").process("p", lambda handle: None, schema=N),
            "its processor takes 1 argument, and a process operator calls it with 0",
        ),
    ],
)
def test_a_function_of_the_wrong_kind_is_named(build: Any, said: str) -> None:
    (message,) = found(build)
    assert said in message


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map("m", lambda record, more=1: record, schema=N),
        lambda s: s.map("m", lambda *records: records[0], schema=N),
        lambda s: s.map("m", Method().whole, schema=N),
        lambda s: s.map("m", functools.partial(Method(), two=1), schema=N),
        lambda s: s.map("m", dict, schema=N),
        lambda s: s.filter("f", bool),
        lambda s: s.arrow("a", of_arrow, schema=N),
        lambda s: s.map("m", with_table, schema=N),
        lambda s: s.key_by("n").process("p", Method, schema=N),
    ],
)
def test_functions_that_fit_are_let_through(build: Any) -> None:
    assert found(build) == []


def test_functions_of_sinks_and_sources_are_looked_at_too() -> None:
    (message,) = found(lambda s: s, ForeachBatch(lambda frame: None))  # type: ignore[misc, arg-type]
    assert "its function takes 1 argument" in message
    assert "calls it with 2: the DataFrame of a batch, its number" in message
    flow = Dataflow("makes")
    flow.source("in", Generator(lambda rng: {}, N)).sink("out", Discard())  # type: ignore[misc, arg-type]
    (problem,) = problems(flow.graph)
    assert "its make takes 1 argument" in problem.message
