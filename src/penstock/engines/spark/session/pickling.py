"""Turning things into bytes that Spark's Python workers understand."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, TypeVar

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


_Item = TypeVar("_Item")
_settled = False


def settled(items: Iterator[_Item]) -> Iterator[_Item]:
    """Pass items on, and once in a worker's life take all that it has loaded off the collector.

    A worker collects garbage after each of its tasks, before it can take the next. With pyarrow
    and pandas loaded that took 50 to 100 ms, most of the time of a small batch; modules are never
    garbage, and what is made later is still collected.
    """
    global _settled
    yield from items
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
