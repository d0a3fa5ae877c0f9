"""Serialises values for Spark's Python workers, and keeps those workers light."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, TypeVar

from pyspark import cloudpickle

from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import replace_load
from penstock.dataflow.load_profile import parse


def pickled(value: Any) -> bytes:
    """The bytes that Spark would send to a worker; raises if the value cannot be serialised."""
    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def portable(generator: Generator) -> Generator:
    """The generator with a load profile that needs nothing of this machine, such as a file."""
    return replace_load(generator, parse(generator.load).portable)


_Item = TypeVar("_Item")
_settled = False


def settled(items: Iterator[_Item]) -> Iterator[_Item]:
    """Pass items on, and exclude loaded modules from garbage collection, once per worker.

    A worker collects garbage after each task, before the next one. With pyarrow and pandas loaded
    that took 50 to 100 ms, most of the time of a small batch. Modules are never garbage, and later
    objects are still collected.
    """
    global _settled
    yield from items
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
