"""Turning things into bytes that Spark's Python workers understand."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle

from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import replace_load
from penstock.dataflow.load_profile import parse


def pickled(value: Any) -> bytes:
    """What Spark would send to a worker; raises whatever keeps the value from travelling."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def portable(generator: Generator) -> Generator:
    """The same generator with nothing in its load that only this machine has, such as a file."""
    return replace_load(generator, parse(generator.load).portable)
