"""What a job is: a query in plain PySpark, the same as a dataflow, and data for both."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import Dataflow
from tests.differential.compare import difference, last_by_key, without_flush
from tests.differential.runner import Course, Outcome, play
from tests.differential.tables import Table

Tables = Mapping[str, Table]
Frames = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """One query, written twice.

    tables: the input, made from a seeded generator; reference: the query as it is written for
    batch mode, from one DataFrame a table; flow: the dataflow, which reads a table `name` from
    the directory `folder / name`; keys: columns by which only the last row counts, for output
    that repeats what has changed; result: the rows that the dataflow has put out, if they are not
    in a memory sink called `out`; dead: how many records must be put aside, from the same
    DataFrames as the reference; zone: the time zone of the session.
    """

    name: str
    tables: Callable[[random.Random], Tables]
    reference: Callable[[Frames], Any]
    flow: Callable[[Tables, Path], Dataflow]
    keys: tuple[str, ...] = ()
    result: Callable[[Outcome, Path, Any], list[Any]] | None = None
    dead: Callable[[Frames], int] | None = None
    zone: str = "UTC"

    def check(self, spark: Any, folder: Path, course: Course) -> None:
        """Run both and raise AssertionError if the rows differ."""
        user = session(spark, self.zone)
        tables = self.tables(random.Random(f"{self.name} {course.seed}"))
        frames = {n: t.frame(user, folder / "reference" / n) for n, t in tables.items()}
        expected = self.reference(frames).collect()
        assert expected, "the reference is empty: the job shows nothing"
        dead = self.dead(frames) if self.dead else 0
        outcome = play(self.flow(tables, folder), tables, folder, user, course)
        rows = self.result(outcome, folder, user) if self.result else outcome.rows()
        found = without_flush(rows)
        if self.keys:
            found = last_by_key(found, self.keys)
        assert outcome.dead == dead, f"{outcome.dead} records put aside, {dead} expected"
        assert not (text := difference(expected, found)), f"{self.name} ({course}): {text}"


def session(spark: Any, zone: str) -> Any:
    """A user's session in that time zone."""
    if spark.conf.get("spark.sql.session.timeZone") == zone:
        return spark
    found = spark.newSession()
    found.conf.set("spark.sql.session.timeZone", zone)
    return found
