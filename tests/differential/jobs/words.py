"""Spark's own examples: words counted, words counted by window, and sessions of users."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock import Dataflow, Files, Memory
from tests.differential.jobs.job import Frames, Job, Tables
from tests.differential.tables import END, FLUSH, Table, at, parts_of

WORDS = ("apache", "Spark", "SPARK", "straße", "数据", "naïve", "a", "", "null", "🙂")
LINES = "value string"
SAID = "Line string, createdAt timestamp"


def _text(choose: random.Random) -> str:
    return " ".join(choose.choice(WORDS) for _ in range(choose.randint(0, 9)))


# --- structured network word count ------------------------------------------------------------


def _lines(choose: random.Random) -> Tables:
    rows = [{"value": _text(choose)} for _ in range(300)]
    return {"lines": Table(LINES, parts_of(rows, 4), format="text")}


def _count(frames: Frames) -> Any:
    words = frames["lines"].select(F.explode(F.split("value", " ")).alias("word"))
    return words.groupBy("word").count()


def _count_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("network-wordcount")
    lines = flow.source("lines", Files(str(folder / "lines"), LINES, "text"))
    words = lines.frame(
        "words", lambda df: df.select(F.explode(F.split("value", " ")).alias("word"))
    )
    words.key_by("word").aggregate("counts", count="count(*)").sink("out", Memory())
    return flow


WORD_COUNT = Job("network word count", _lines, _count, _count_flow, keys=("word",))


# --- windowed word count, without a watermark and with one ------------------------------------


def _said(choose: random.Random) -> Tables:
    """Lines of ten minutes in any order: without a watermark all of them count."""
    rows = [
        {"Line": _text(choose) or None, "createdAt": at(choose.uniform(0, 600))} for _ in range(240)
    ]
    return {"said": Table(SAID, parts_of(rows, 4))}


def _windows(frames: Frames) -> Any:
    words = frames["said"].select(F.explode(F.split("Line", " ")).alias("word"), "createdAt")
    return words.groupBy(F.window("createdAt", "2 minutes", "1 minute"), "word").count()


def _windows_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("windowed-wordcount")
    said = flow.source("said", Files(str(folder / "said"), SAID))
    words = said.frame(
        "words",
        lambda df: df.select(F.explode(F.split("Line", " ")).alias("word"), "createdAt"),
    )
    windows = words.key_by("word").window("2 minutes", slide="1 minute", on="createdAt")
    windows.aggregate("counts", count="count(*)").sink("out", Memory())
    return flow


WINDOWED_COUNT = Job("windowed word count", _said, _windows, _windows_flow, keys=("window", "word"))


# --- sessions ---------------------------------------------------------------------------------

EVENTS = "userId string, eventTime timestamp"
SESSIONS = "userId string, sessionStart timestamp, sessionEnd timestamp, numEvents bigint"
GAP = 20


def _events(choose: random.Random) -> Tables:
    """Events of a few users, some of them twice, and each at most 14 s behind the newest."""
    rows: list[dict[str, Any]] = []
    clock = 0.0
    for _ in range(200):
        clock += choose.expovariate(1 / 3)
        user = choose.choice(("ann", "Bob", "çelik", None))
        rows.append({"userId": user, "eventTime": at(round(clock - choose.uniform(0, 14), 3))})
        if choose.random() < 0.1:
            rows.append(dict(rows[-1]))
    flush = {"userId": FLUSH, "eventTime": END}
    return {"events": Table(EVENTS, parts_of(rows, 4), flush)}


def _sessions(frames: Frames) -> Any:
    grouped = frames["events"].groupBy(F.session_window("eventTime", f"{GAP} seconds"), "userId")
    return grouped.count().select(
        "userId",
        F.col("session_window.start").alias("sessionStart"),
        F.col("session_window.end").alias("sessionEnd"),
        F.col("count").alias("numEvents"),
    )


class Sessions(StatefulProcessor):
    """Keeps the times of a user's events; a session is sent on when the watermark passes it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.times = handle.getListState("times", "at timestamp")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.times.appendValue((row.eventTime,))
            ends = 1000 * row.eventTime.timestamp() + 1000 * GAP
            self.handle.registerTimer(round(ends))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expired: Any) -> Iterator[Row]:
        watermark = timerValues.getCurrentWatermarkInMs()
        times = sorted(one for (one,) in self.times.get())
        sessions: list[list[Any]] = []
        for one in times:
            if sessions and (one - sessions[-1][-1]).total_seconds() <= GAP:
                sessions[-1].append(one)
            else:
                sessions.append([one])
        kept = []
        for session in sessions:
            end = 1000 * session[-1].timestamp() + 1000 * GAP
            if end > watermark:
                kept += [(one,) for one in session]
            else:
                yield Row(
                    userId=key[0],
                    sessionStart=session[0],
                    sessionEnd=session[-1] + timedelta(seconds=GAP),
                    numEvents=len(session),
                )
        if kept:
            self.times.put(kept)
        else:
            self.times.clear()

    def close(self) -> None:
        pass


def _sessions_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("sessionization")
    events = flow.source("events", Files(str(folder / "events"), EVENTS))
    timed = events.frame("timed", lambda df: df.withWatermark("eventTime", "15 seconds"))
    sessions = timed.key_by("userId").process(
        "sessions", Sessions, schema=SESSIONS, time_mode="event_time"
    )
    sessions.sink("out", Memory())
    return flow


SESSIONIZATION = Job("sessionization", _events, _sessions, _sessions_flow)
