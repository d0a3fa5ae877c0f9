"""Drains a flow: no new record enters, and those in flight reach their sinks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Files
from penstock.engines.spark.changes.execution import Execution
from penstock.engines.spark.changes.planner import plan_stop
from penstock.engines.spark.changes.spark_pipelines import SparkPipelines
from penstock.engines.spark.queries import checkpoint
from penstock.engines.spark.queries.pipeline import RunningPipeline, source_name_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engines.spark.running_flow import RunningFlow


def drain(flow: RunningFlow) -> None:
    """Close the sources, and stop each pipeline once it has processed its input."""
    flow.limits.update(_ends(flow))
    for pipeline in flow.pipelines.values():
        pipeline.turn(limits=dict(flow.limits), cadence=0.0, admission=None)
    _read_all_files(flow)
    steps = plan_stop(flow.graph, flow.wiring.plan, final=True)
    Execution(SparkPipelines(flow), steps).run_unrecorded()


def _ends(flow: RunningFlow) -> Mapping[str, int]:
    """Last record of each generator: the last one due, or if paused, the last read."""
    found = {}
    for source, offered in flow.gauges.offered(time.time()).items():
        pipeline = flow.pipelines[flow.wiring.plan.pipeline_of(source).name]
        paused = pipeline.spec.admission == 0
        found[source] = pipeline.positions[source] if paused else offered
    return found


def _read_all_files(flow: RunningFlow) -> None:
    """Wait until file sources have read the files that exist now.

    Later files are ignored, so this always ends. Spark's other sources have no end to wait for.
    """
    began = time.time()
    left = [
        (pipeline, Unread(listing(flow.context.spark, source), pipeline.checkpoint, name, by_name))
        for pipeline in flow.pipelines.values()
        for name, source, by_name in _file_sources(pipeline)
    ]

    def all_read() -> bool:
        left[:] = [(p, u) for p, u in left if not (u.none() or p.found_nothing(began))]
        return not left

    flow.wait(all_read)


def _file_sources(pipeline: RunningPipeline) -> Iterator[tuple[str, Files, bool]]:
    for operator in pipeline.spark_sources:
        source = operator.body.source if isinstance(operator.body, op.Read) else None
        if isinstance(source, Files):
            options = {name.lower(): value for name, value in source.options.items()}
            by_name = options.get("filenameonly", "false").lower() == "true"
            yield source_name_of(operator), source, by_name


_LISTING = 1.0
"""Seconds between two listings of a directory, which may be large and remote."""

Listing = Callable[[], frozenset[str]]

UNKNOWN = frozenset({"?"})
"""Listing of a directory that cannot be listed: a file that no source ever reads."""


class Unread:
    """Files of one source that it has not read yet.

    Spark's file source records the files it has found in the checkpoint, under `sources/<name>`:
    one line of JSON each, with an offset. The offset log holds the offset up to which batches are
    committed.

    listing: returns the files as the source would find them; folder: the checkpoint; source: name
    of the source in it; by_name: files of the same name count as one file.
    """

    def __init__(self, listing: Listing, folder: Path, source: str, by_name: bool = False) -> None:
        self._listing = listing
        self._folder = folder
        self._source = source
        self._by_name = by_name
        self._files = {self._known(file) for file in listing()}
        self._listed = time.monotonic()
        self._seen: dict[str, int] = {}  # offset by file
        self._logs: set[str] = set()

    def none(self) -> bool:
        """True if all files are read or deleted."""
        done = checkpoint.log_offset(self._folder, self._source)
        self._read_logs()
        self._files = {f for f in self._files if self._seen.get(f, done + 1) > done}
        if self._files and time.monotonic() - self._listed > _LISTING:
            self._files &= {self._known(file) for file in self._listing()}
            self._listed = time.monotonic()
        return not self._files

    def _known(self, file: str) -> str:
        return file.rpartition("/")[2] if self._by_name else file

    def _read_logs(self) -> None:
        for log in _logs(self._folder / "sources" / self._source):
            if log.name not in self._logs:
                for line in log.read_text().splitlines()[1:]:
                    entry = json.loads(line)
                    self._seen[self._known(entry["path"])] = entry["batchId"]
                self._logs.add(log.name)


def _logs(folder: Path) -> Iterator[Path]:
    """Complete logs, without drafts and checksums; compacted ones end in `.compact`."""
    return (log for log in folder.glob("*") if log.name.removesuffix(".compact").isdigit())


def listing(spark: SparkSession, source: Files) -> Listing:
    """Return a function that lists a source's files by pattern, without hidden files."""

    def found() -> frozenset[str]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        reader = spark.read.format(source.format).options(**source.options)
        try:
            return frozenset(reader.schema(source.schema.ddl).load(source.path).inputFiles())
        except PySparkException as error:
            # Spark raises an error if no file matches the pattern.
            return frozenset() if error.getCondition() == "PATH_NOT_FOUND" else UNKNOWN
        except Py4JError:
            return UNKNOWN

    return found
