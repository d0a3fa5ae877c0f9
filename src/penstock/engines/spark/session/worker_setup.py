"""Making Spark's Python workers light."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TypeVar

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
