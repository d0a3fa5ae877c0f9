"""Reads Spark's task statistics: where each task ran, for how long, and on how many rows.

Spark keeps them for its web page, and private. They are read as JSON through a file, because large
answers through the socket are expensive.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY = re.compile(r"runId = (\S+)\s+batch = (\d+)")
_FEW = 32
_PATIENCE = 5.0


@dataclass(frozen=True)
class Task:
    """One finished task of one batch of a query; times are seconds.

    stage: the number of its stage, higher for later stages of a batch; rows: rows it read from a
    shuffle, None if there was none before it.
    """

    number: int
    run: str
    batch: int
    stage: int
    index: int
    executor: str
    ended: float
    slot: float
    work: float
    cpu: float
    rows: int | None
    moved_bytes: int


@dataclass(frozen=True)
class Running:
    """A running task of any job."""

    executor: str
    started: float


@dataclass(frozen=True)
class ExecutorFacts:
    """Facts about an executor; heap: its peak use so far, in bytes."""

    name: str
    slots: int
    heap: int


@dataclass(frozen=True)
class TaskSeconds:
    """Processor seconds of tasks in the JVM, and seconds in which they waited."""

    cpu: float
    waited: float


class Statistics:
    """Reads new statistics. `aside` is a scratch file; `running` is as of the last read."""

    def __init__(self, spark: SparkSession, aside: Path) -> None:
        jvm: Any = spark._jvm
        self._path = aside
        self._file = jvm.java.io.File(str(aside))
        self._store: Any = spark.sparkContext._jsc.sc().statusStore().store()
        self._mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
        scala = getattr(jvm.com.fasterxml.jackson.module.scala, "DefaultScalaModule$")
        self._mapper.registerModule(getattr(scala, "MODULE$"))
        self._classes = {
            name: jvm.java.lang.Class.forName(f"org.apache.spark.status.{name}Wrapper")
            for name in ("TaskData", "StageData", "ExecutorSummary")
        }
        self._owners: dict[int, tuple[str, int] | None] = {}
        self._first = 0  # tasks with lower numbers are known
        self._told: set[int] = set()
        self.running: list[Running] = []
        self._lock = threading.Lock()  # there is only one scratch file

    def new_tasks(self) -> list[Task]:
        """Tasks of queries that have succeeded since the last call."""
        with self._lock:
            return self._new_tasks()

    def _new_tasks(self) -> list[Task]:
        found = [t for t in self._newest("TaskData", self._reaches_back) if self._is_new(t)]
        done = [t for t in found if t["status"] != "RUNNING"]
        under_way = [t for t in found if t["status"] == "RUNNING"]
        self.running = [Running(t["executorId"], t["launchTime"] / 1000) for t in under_way]
        self._told.update(t["taskId"] for t in done)
        if found:
            last = max(t["taskId"] for t in found)
            self._first = min((t["taskId"] for t in under_way), default=last + 1)
            self._told = {number for number in self._told if number >= self._first}
        succeeded = [t for t in done if t["status"] == "SUCCESS" and t["hasMetrics"]]
        self._learn({t["stageId"] for t in succeeded})
        made = (self._task(data) for data in succeeded)
        return sorted((t for t in made if t is not None), key=lambda t: t.number)

    def executors(self) -> list[ExecutorFacts]:
        """The executors of the session."""
        with self._lock:
            facts = [entry["info"] for entry in self._newest("ExecutorSummary", lambda _: True)]
        return [
            ExecutorFacts(
                i["id"],
                i["totalCores"],
                int((i.get("peakMemoryMetrics") or {}).get("JVMHeapMemory", 0)),
            )
            for i in facts
            if i["isActive"] and i["totalCores"] > 0
        ]

    def spent(self, description: str) -> TaskSeconds:
        """The cost of a finished job, found by its description."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with self._lock:
                stages = self._newest("StageData", lambda _: True)
            found = [s["info"] for s in stages if s["info"].get("description") == description]
            if found and all(i["status"] in ("COMPLETE", "SKIPPED") for i in found):
                cpu = sum(i["executorCpuTime"] for i in found) / 1e9
                run = sum(i["executorRunTime"] for i in found) / 1e3
                return TaskSeconds(cpu, max(0.0, run - cpu))
            time.sleep(0.02)
        raise TimeoutError(f"Spark said nothing of the job '{description}'")

    def _is_new(self, task: dict[str, Any]) -> bool:
        return task["taskId"] >= self._first and task["taskId"] not in self._told

    def _reaches_back(self, tasks: list[dict[str, Any]]) -> bool:
        return bool(tasks[-1]["taskId"] <= self._first)

    def _newest(self, what: str, enough: Any) -> list[dict[str, Any]]:
        """The newest entries, until `enough` says so."""
        most = _FEW
        while True:
            view = self._store.view(self._classes[what]).reverse().max(most)
            self._mapper.writeValue(self._file, view)
            found: list[dict[str, Any]] = json.loads(self._path.read_bytes())
            if len(found) < most or enough(found):
                return found
            most *= 4

    def _learn(self, stages: Iterable[int]) -> None:
        """Find the query and the batch of stages.

        They have had tasks: a stage that waits for another has no description yet.
        """
        unknown = set(stages) - set(self._owners)
        if not unknown:
            return
        least = min(unknown)
        for entry in self._newest("StageData", lambda s: s[-1]["info"]["stageId"] <= least):
            info = entry["info"]
            if info["stageId"] in unknown:
                said = _QUERY.search(info.get("description") or "")
                self._owners[info["stageId"]] = (said[1], int(said[2])) if said else None
        for stage in sorted(self._owners)[:-2000]:
            del self._owners[stage]

    def _task(self, data: dict[str, Any]) -> Task | None:
        owner = self._owners.get(data["stageId"])
        if owner is None:
            return None
        shuffled = data["shuffleLocalBlocksFetched"] + data["shuffleRemoteBlocksFetched"]
        moved = ("inputBytesRead", "outputBytesWritten", "shuffleBytesWritten")
        read = ("shuffleLocalBytesRead", "shuffleRemoteBytesRead")
        return Task(
            number=data["taskId"],
            run=owner[0],
            batch=owner[1],
            stage=data["stageId"],
            index=data["partitionId"],
            executor=data["executorId"],
            ended=(data["launchTime"] + data["duration"]) / 1000,
            slot=data["duration"] / 1000,
            work=data["executorRunTime"] / 1000,
            cpu=data["executorCpuTime"] / 1e9,
            rows=data["shuffleRecordsRead"] if shuffled else None,
            moved_bytes=sum(data[name] for name in (*moved, *read)),
        )


def of_instances(tasks: Sequence[Task]) -> list[Task]:
    """The tasks of each batch after its shuffle, or those of its first stage."""
    behind = behind_shuffle(tasks)
    batches: dict[tuple[str, int], list[Task]] = defaultdict(list)
    for task in tasks:
        batches[task.run, task.batch].append(task)
    chosen = []
    for found in batches.values():
        shuffled = [t for t in found if t.number in behind]
        first = min(t.stage for t in found)
        chosen += shuffled or [t for t in found if t.stage == first]
    return chosen


def behind_shuffle(tasks: Sequence[Task]) -> set[int]:
    """The numbers of the tasks after a shuffle, including those that read no rows from it."""
    stages = {(t.run, t.batch, t.stage) for t in tasks if t.rows is not None}
    return {t.number for t in tasks if (t.run, t.batch, t.stage) in stages}
