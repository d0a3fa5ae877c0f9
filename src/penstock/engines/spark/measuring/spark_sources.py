"""The queue of a source of Spark's own, as far as the reports of its batches tell."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from penstock.dataflow.connectors import Files, Kafka, Spark
from penstock.engines.spark.measuring.lineage import Span

_POINTS = 1000
_UNBOUNDED = ("rate", "socket")


def left(sources: Collection[Mapping[str, Any]], read: Iterable[Any]) -> int | None:
    """Rows that were there and not taken when a batch was planned; None if nobody can know.

    sources: of a progress report; read: the connectors that they belong to. A source that may
    take all there is leaves nothing behind; of those that may not, Kafka says how far behind.
    """
    if all(_takes_all(one) for one in read):
        return 0
    found = [_behind(one) for one in sources]
    return None if None in found or not found else sum(rows or 0 for rows in found)


def _takes_all(connector: Files | Kafka | Spark) -> bool:
    if isinstance(connector, Spark) and connector.format not in _UNBOUNDED:
        return False  # who knows what bounds it has
    names = {name.lower() for name in connector.options}
    return not any(name.startswith("max") and name.endswith("pertrigger") for name in names)


def _behind(source: Mapping[str, Any]) -> int | None:
    if not str(source.get("description")).startswith("Kafka"):
        return None
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    return None if latest is None or end is None else max(0, latest - end)


def _offsets(said: Any) -> int | None:
    """The sum over topics and partitions; Spark gives them as JSON, or as text that holds JSON."""
    topics = json.loads(said) if isinstance(said, str) else said
    if not isinstance(topics, Mapping):
        return None
    return sum(int(offset) for partitions in topics.values() for offset in partitions.values())


class Queue:
    """When the rows of a source arrived, from what was there at the start of each batch.

    waiting: rows that the last batch left behind, None if that is not known.
    """

    def __init__(self) -> None:
        self.waiting: int | None = None
        self._taken = 0
        self._points: deque[tuple[float, int]] = deque(maxlen=_POINTS)

    def take(
        self, started: float, rows: int, waiting: int | None, idle: float | None = None
    ) -> list[Span]:
        """A batch took that many rows and left so many; when did those that it took arrive?

        idle: a time until which there was nothing to do, so that nothing can have come before it.
        """
        arrived = self._points[-1][1] if self._points else 0
        if self._points and idle is not None:
            self._points.append((idle, arrived))
        self._points.append((started, max(arrived, self._taken + rows + (waiting or 0))))
        first, self._taken = self._taken, self._taken + rows
        self.waiting = waiting
        begin, there = self._points[0]
        before = min(there, self._taken) - first
        spans = [Span(begin, begin, before)] if before > 0 else []
        for (t, n), (t_next, n_next) in itertools.pairwise(self._points):
            low, high = max(n, first), min(n_next, self._taken)
            if low < high:
                pace = (t_next - t) / (n_next - n)
                spans.append(Span(t + (low - n) * pace, t + (high - n) * pace, high - low))
        return spans

    def rate(self, since: float, until: float | None = None) -> float | None:
        """Rows a second that arrived since then, or between the last two batches.

        until: up to when nothing more has come, where that is known.
        """
        if self.waiting is None or len(self._points) < 2:
            return None
        points = [*self._points]
        if until is not None and until > points[-1][0]:
            points.append((until, points[-1][1]))
        before = [n for n, point in enumerate(points) if point[0] <= since]
        base = min(before[-1] if before else 0, len(points) - 2)
        (start, first), (end, last) = points[base], points[-1]
        return (last - first) / (end - start) if end > start else None
