"""What is read of tasks from Spark's own store."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from penstock.engines.spark.measuring.task_statistics import Statistics

RUN = "0f8fad5b-d9cb-469f-a165-70867728950e"
_ZERO = dict.fromkeys(
    (
        *("shuffleLocalBlocksFetched", "shuffleRemoteBlocksFetched", "shuffleRecordsRead"),
        *("inputBytesRead", "outputBytesWritten", "shuffleBytesWritten"),
        *("shuffleLocalBytesRead", "shuffleRemoteBytesRead", "executorCpuTime"),
    ),
    0,
)


class Told(Statistics):
    """With what Spark would say in place of Spark: the newest entries first."""

    def __init__(self, aside: Path) -> None:
        super().__init__(MagicMock(), aside)
        self.says: dict[str, list[dict[str, Any]]] = {"TaskData": [], "StageData": []}

    def _newest(self, what: str, enough: Any) -> list[dict[str, Any]]:
        return list(reversed(self.says[what]))


def _stage(number: int, batch: int | None) -> dict[str, Any]:
    words = None if batch is None else f"count\nid = other\nrunId = {RUN}\nbatch = {batch}"
    return {"info": {"stageId": number, "description": words}}


def _task(number: int, stage: int, status: str = "SUCCESS") -> dict[str, Any]:
    return _ZERO | {
        "taskId": number,
        "stageId": stage,
        "status": status,
        "hasMetrics": True,
        "partitionId": 0,
        "executorId": "driver",
        "launchTime": 1_000 * number,
        "duration": 500,
        "executorRunTime": 400,
    }


def test_tasks_of_a_stage_that_waited_when_others_were_looked_up_are_told(tmp_path: Path) -> None:
    statistics = Told(tmp_path / "aside")
    statistics.says["TaskData"] = [_task(0, 0)]
    # Spark says to which batch a stage belongs once it has begun
    statistics.says["StageData"] = [_stage(0, 7), _stage(1, None)]
    assert [(t.stage, t.batch) for t in statistics.new_tasks()] == [(0, 7)]
    statistics.says["TaskData"] = [_task(0, 0), _task(1, 1)]
    statistics.says["StageData"] = [_stage(0, 7), _stage(1, 7)]
    assert [(t.stage, t.batch) for t in statistics.new_tasks()] == [(1, 7)]


def test_a_task_is_told_once_and_when_it_is_done(tmp_path: Path) -> None:
    statistics = Told(tmp_path / "aside")
    statistics.says["StageData"] = [_stage(0, 7)]
    statistics.says["TaskData"] = [_task(0, 0, "RUNNING"), _task(1, 0)]
    assert [t.number for t in statistics.new_tasks()] == [1]
    statistics.says["TaskData"] = [_task(0, 0), _task(1, 0)]
    assert [t.number for t in statistics.new_tasks()] == [0]
    assert statistics.new_tasks() == []


def test_tasks_of_jobs_that_are_no_batches_are_left_out(tmp_path: Path) -> None:
    statistics = Told(tmp_path / "aside")
    statistics.says["StageData"] = [_stage(0, None)]
    statistics.says["TaskData"] = [_task(0, 0)]
    assert statistics.new_tasks() == []
