"""One watermark for the branches of a stream that meet again in a union.

Each branch goes through channels of its own, so one may be far ahead of the other. A watermark
made of the union's rows would follow the branch that is ahead, and drop rows of the other as late
that are in order in the stream which both come from.

So the watermark follows what all branches have read. They begin at one channel, their *origin*,
and each entry of a channel's log notes how many rows of the origin went into it. The pipeline
that makes the watermark keeps a clock: after each batch, up to which row of the origin it has seen
anything, and the latest event time of all batches so far. An input that has everything up to row
`n` of the origin brings as its mark the time that the clock shows at `n`. Spark takes the lowest
mark, so the watermark is the one that a single query has after the same rows of the origin.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock import files
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Union

UNKNOWN = 2**62
"""A `high` of rows whose origins nobody noted."""

Origins = Mapping[str, tuple[int, int]]
"""For the rows of a channel up to some row, by channel upstream: (`low`, `high`).

All its rows before `low` have gone into them, and none from `high` on.
"""


@dataclass(frozen=True)
class EventClock:
    """The latest event time by rows of the origin: (rows, milliseconds since 1970), both rising."""

    origin: str
    points: tuple[tuple[int, int], ...] = ()

    def at(self, row: int) -> int | None:
        """The latest event time of batches that hold nothing from row `row` of the origin on."""
        found = bisect_right(self.points, row, key=lambda point: point[0])
        return self.points[found - 1][1] if found else None

    def after(self, low: int, high: int, latest: int | None) -> EventClock:
        """The clock after a batch.

        All rows of the origin before `low` have come by now, and none from `high` on; `latest` is
        the latest event time in the batch, None without a row.
        """
        points = self.points
        if latest is not None:
            if points:
                high, latest = max(high, points[-1][0]), max(latest, points[-1][1])
                points = points[:-1] if points[-1][0] == high else points
            points = (*points, (high, latest))
        passed = bisect_right(points, low, key=lambda point: point[0])
        return EventClock(self.origin, points[max(0, passed - 1) :])

    def save(self, path: Path) -> None:
        files.write_json(path, {"origin": self.origin, "points": self.points}, indent=None)

    @classmethod
    def load(cls, path: Path, origin: str) -> EventClock:
        """The clock of a file; one that knows nothing if there is none of that origin."""
        try:
            data = json.loads(path.read_text())
        except FileNotFoundError:
            return cls(origin)
        points = tuple((row, time) for row, time in data["points"])
        return cls(origin, points if data["origin"] == origin else ())


def origin(graph: Graph, stateful: str) -> str | None:
    """The last operator from which all inputs of all unions upstream of an operator come.

    None if there is no union, or no such operator. Where two paths part, pipelines do, too, so its
    output always goes through a channel.
    """
    unions = (o for o in graph.operators if isinstance(o.body, Union))
    ends = {i for o in unions if stateful in graph.reachable(o.name) for i in o.inputs}
    if not ends:
        return None
    common = [name for name in graph.topological if ends <= graph.reachable(name)]
    return common[-1] if common else None


def merged(found: Iterable[Origins]) -> dict[str, tuple[int, int]]:
    """The origins of a batch that reads several channels."""
    result: dict[str, tuple[int, int]] = {}
    for origins in found:
        for name, (low, high) in origins.items():
            known = result.get(name, (low, high))
            result[name] = (min(low, known[0]), max(high, known[1]))
    return result
