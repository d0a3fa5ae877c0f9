"""Every metric: its name, unit and meaning, each defined once.

Names are those of the fields and properties in `snapshot.py` and of the functions in `derived.py`.
`penstock metrics`, the help texts of the Prometheus endpoint and exported files are made from this.
None means "not measured"; the window is that of the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Unit(Enum):
    """What a number counts. A share is between 0 and 1."""

    ROWS = "rows"
    RATE = "rows/s"
    SECONDS = "s"
    SHARE = "share"
    RATIO = "ratio"
    BYTES = "bytes"
    BYTE_RATE = "bytes/s"
    COUNT = "count"
    SLOT_SECONDS = "slot s"
    FLAG = "yes/no"
    NAME = "name"
    PARTS = "parts"

    def __str__(self) -> str:
        return self.value


class MetricLevel(Enum):
    """What a metric belongs to; `queue` is the queue of a pipeline as queueing theory sees it."""

    FLOW = "flow"
    OPERATOR = "operator"
    PIPELINE = "pipeline"
    INSTANCE = "instance"
    CHANNEL = "channel"
    EXECUTOR = "executor"
    LATENCY = "latency"
    QUEUE = "queue"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class MetricDefinition:
    """One metric. total: counted since the start of the run directory, so it never goes down."""

    level: MetricLevel
    name: str
    unit: Unit
    meaning: str
    total: bool = False


_ROWS, _RATE, _S, _SHARE, _RATIO = Unit.ROWS, Unit.RATE, Unit.SECONDS, Unit.SHARE, Unit.RATIO
_COUNT, _FLAG, _NAME, _PARTS = Unit.COUNT, Unit.FLAG, Unit.NAME, Unit.PARTS


def _of(level: MetricLevel, *entries: tuple[str, Unit, str]) -> tuple[MetricDefinition, ...]:
    return tuple(MetricDefinition(level, *entry) for entry in entries)


def _totals(*entries: tuple[str, Unit, str]) -> tuple[MetricDefinition, ...]:
    return tuple(MetricDefinition(MetricLevel.FLOW, *entry, total=True) for entry in entries)


CATALOG: tuple[MetricDefinition, ...] = (
    *_totals(
        ("rows_offered", _ROWS, "records that were due at the generators so far"),
        ("rows_ingested", _ROWS, "records taken in by the sources so far"),
        ("rows_delivered", _ROWS, "rows written to sinks so far; each sink counts"),
        ("rows_dead", _ROWS, "records set aside as dead letters so far"),
        ("rows_repeated", _ROWS, "rows that at-least-once sinks received again so far"),
        ("sinks", _ROWS, "rows written to each sink so far"),
        ("slot_seconds", Unit.SLOT_SECONDS, "instances times the time they were held so far"),
        ("processor_seconds", _S, "processor time of all processes of a run on one machine"),
    ),
    *_of(
        MetricLevel.FLOW,
        ("at", _S, "time since the start of the run"),
        ("window", _S, "time over which the rest was measured"),
        ("throughput", _RATE, "rows taken in by the pipelines of the sources"),
        ("rows_late", _ROWS, "rows dropped behind the watermark since the run was last started"),
        ("load", _SHARE, "slots at work, of all slots of the executors"),
        ("drained", _FLAG, "the sources have stopped and nothing is in flight"),
        ("settled", _FLAG, "the window holds no change of plan and none of its first batches"),
        ("ending", _FLAG, "the sources have been told to stop, the flow runs dry"),
        ("source_pipelines", _NAME, "pipelines that hold a source"),
        ("pipelines", _PARTS, "what was measured of each pipeline"),
        ("operators", _PARTS, "what was measured of each operator"),
        ("channels", _PARTS, "what was measured of each channel, named writer>reader by operators"),
        ("executors", _PARTS, "what was measured of each executor"),
        ("latency", _PARTS, "what was measured of each latency constraint"),
    ),
    *_of(
        MetricLevel.OPERATOR,
        ("name", _NAME, "the operator"),
        ("rows_in", _ROWS, "rows that went in over the window"),
        ("rows_out", _ROWS, "rows that came out over the window"),
        ("rate_in", _RATE, "rows that went in per second"),
        ("rate_out", _RATE, "rows that came out per second"),
        ("selectivity", _RATIO, "rows out per row in"),
        ("service", _S, "time of one instance for one row, on average"),
        ("service_cv", _RATIO, "coefficient of variation of the time for a row"),
        ("arrival_cv", _RATIO, "coefficient of variation of the time between rows"),
        ("busy", _SHARE, "time in which an instance was at work in this operator"),
        ("measured", _FLAG, "times were measured in it; no: estimated as its share"),
        ("cpu", _SHARE, "its time spent on a processor rather than waiting"),
        ("capacity", _SHARE, "time at work of one instance: service x rate / parallelism"),
    ),
    *_of(
        MetricLevel.PIPELINE,
        ("name", _NAME, "its first operator"),
        ("parallelism", _COUNT, "instances"),
        ("batches", _COUNT, "batches that ended in the window"),
        ("in_batches", _FLAG, "it works in batches, even if none ended in the window"),
        ("rows_in", _ROWS, "rows of the batches that ended in the window"),
        ("rows_out", _ROWS, "rows put out over the window"),
        ("rate_in", _RATE, "rows processed per second, over whole batches"),
        ("rate_out", _RATE, "rows put out per second"),
        ("arrival_rate", _RATE, "rows that arrived per second, processed or not"),
        ("service", _S, "time of one instance for one row, on average"),
        ("task_overhead", _S, "time of one instance per batch beyond its rows"),
        ("service_cv", _RATIO, "coefficient of variation of the time for a row"),
        ("arrival_cv", _RATIO, "coefficient of variation of the time between rows"),
        ("batch_seconds", _S, "from the start of a batch to its output"),
        ("wait", _S, "from the arrival of a row to the start of its batch"),
        ("batching", _S, "part of the wait that the cadence caused"),
        ("parts", _S, "where the time of a batch went: planning, log, work, commit"),
        ("busy", _SHARE, "time in which a batch was running"),
        ("backlog_rows", _ROWS, "rows waiting in front of it"),
        ("backlog_seconds", _S, "time to process the backlog at the rate of the window"),
        ("state_rows", _ROWS, "rows of state"),
        ("state_bytes", Unit.BYTES, "memory of its state"),
        ("instances", _PARTS, "what was measured of each instance"),
        ("hottest", _PARTS, "the part of the keys, by their hash, with the most rows"),
        ("skew", _RATIO, "coefficient of variation of the rows of its instances"),
        ("utilisation", _RATIO, "work that arrives for an instance, per second; above 1 it queues"),
        ("idle", _FLAG, "no row arrives and none waits"),
        ("at_work", _SHARE, "share of the time in which an instance works on rows"),
        ("congestion", _RATIO, "rows that arrive per row that is processed"),
        ("true_rate", _RATE, "rows per second if every instance were at work all the time"),
        ("queue", _PARTS, "the queue in front of it, in the terms of Kingman's formula"),
    ),
    *_of(
        MetricLevel.INSTANCE,
        ("index", _COUNT, "which of the instances of its pipeline"),
        ("rows", _ROWS, "rows processed over the window"),
        ("busy", _SHARE, "time at work"),
        ("executor", _NAME, "where it ran last"),
        ("part", _COUNT, "the part of the keys, by their hash, that it has"),
    ),
    *_of(
        MetricLevel.CHANNEL,
        ("writer", _NAME, "the operator that writes"),
        ("reader", _NAME, "the operator that reads"),
        ("backlog_rows", _ROWS, "rows that the reader has not taken yet"),
        ("backlog_seconds", _S, "time to process them at the rate of the window"),
        ("latency", _S, "from when a row is written to the start of the batch that takes it"),
        ("batching", _S, "part of the latency that the reader's cadence caused"),
    ),
    *_of(
        MetricLevel.EXECUTOR,
        ("name", _NAME, "its id in Spark"),
        ("slots", _COUNT, "tasks it can run at once"),
        ("busy", _SHARE, "slots at work"),
        ("cpu", _SHARE, "its slots' time on a processor, including Python"),
        ("memory", _SHARE, "its heap in use; on Spark the peak so far"),
        ("io_bytes", Unit.BYTE_RATE, "bytes read and written"),
        ("instances", _COUNT, "instances of each pipeline that ran on it"),
        ("state_parts", _COUNT, "state partitions of each pipeline that are on it"),
        ("partitions", _PARTS, "which state partitions of each pipeline these are"),
    ),
    *_of(
        MetricLevel.LATENCY,
        ("constraint", _NAME, "first operator->last operator"),
        ("bound", _S, "the bound on the mean"),
        ("mean", _S, "mean over the rows of the window"),
        ("p50", _S, "half of the rows took no longer"),
        ("p95", _S, "95 of 100 rows took no longer"),
        ("p99", _S, "99 of 100 rows took no longer"),
        ("rows", _ROWS, "rows whose latency was measured"),
        ("met", _FLAG, "the mean kept its bound"),
    ),
    *_of(
        MetricLevel.QUEUE,
        ("parallelism", _COUNT, "instances that serve it"),
        ("rate", _RATE, "rows that arrive for one instance"),
        ("service", _S, "time for a row"),
        ("arrival_cv", _RATIO, "variation of the time between rows"),
        ("service_cv", _RATIO, "variation of the time for a row"),
        ("wait", _S, "measured mean wait, without what the cadence caused"),
        ("utilisation", _RATIO, "work that arrives per second"),
        ("kingman", _S, "wait by Kingman's formula; unknown variation counts as 1"),
        ("variation", _RATIO, "mean of the squares of the two variations"),
        ("error", _RATIO, "measured wait divided by that of the formula"),
    ),
)

_BY_NAME = {(one.level, one.name): one for one in CATALOG}


def metric(level: MetricLevel, name: str) -> MetricDefinition:
    """Return the metric of a name."""
    return _BY_NAME[level, name]


def metrics_of(level: MetricLevel) -> Iterator[MetricDefinition]:
    """Iterate over the metrics of a level, in the order of the catalog."""
    return (one for one in CATALOG if one.level is level)
