"""Spark sessions: the user's, and a copy of it for a flow with the settings that it needs.

The user's session is never changed. A flow has a session of its own: a copy with the user's
settings, views and functions, and Penstock's settings on top.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.engines.spark.session import spark_home
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_CONTEXT = {
    "spark.scheduler.mode": "FAIR",  # no pipeline waits for another's long stage
    # Spark's statistics are read every second; old ones only make that slower.
    "spark.ui.retainedTasks": "2000",
    "spark.ui.retainedStages": "500",
    "spark.ui.retainedJobs": "500",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
"""Settings of a context that Penstock starts, in a new or an existing JVM."""

_PROCESS = {
    "spark.app.name": "penstock",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # An interrupted batch parses a long error text with a recursive regex.
    "spark.driver.extraJavaOptions": "-Xss32m",
    "spark.log.level": "ERROR",
}
"""Settings of a process that Penstock starts; a submitted one is the user's."""

SOCKETS = "spark.python.unix.domain.socket.enabled"
"""Over loopback TCP, Python workers lose 40 ms per task to delayed acknowledgements. On clusters
the directories of containers may be too deep for the path of a socket (some 100 characters)."""

_PREFERRED = {
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.sql.streaming.pollingDelay": "20ms",
}
"""Settings of a flow's session unless the user has set others."""

_NEEDED = {
    "spark.sql.streaming.stateStore.providerClass": _STATE,  # the only one with repartitioning
    "spark.sql.timestampType": "TIMESTAMP_LTZ",  # what `timestamp` means in a schema here
}
"""Settings that a flow's session requires, whatever the user has set."""

_PLANNED = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.noDataMicroBatches.enabled",
    "spark.sql.streaming.unsupportedOperationCheck",
)
"""Settings that follow from the plan and the operators of each query."""

CHANNEL = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
"""Settings with which Spark writes channels so that Arrow can read them."""

STATE = {
    # State commits write only what changed, which halves the time of a small batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of queries with state unless the user has set others."""

_SHIPPED = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles")
"""Settings with paths, which Spark makes absolute when it starts."""


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The user's session: the running one as it is, or a new one.

    `master` defaults to this machine with two slots per core, and under spark-submit to the
    submitted one; `conf` overrides Penstock's defaults. Raises `InvalidInput` if a running or
    submitted context has another master.
    """
    settings = dict(conf or {})
    asked = master or settings.get("spark.master")
    spark = running()
    if spark is None:
        return _started(asked, settings)
    _check_master(asked, str(spark.sparkContext.master))
    return spark


def running() -> SparkSession | None:
    """The session of this process, None if there is no context."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return None
    return SparkSession.getActiveSession() or SparkSession(context)


def own(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session for a flow: a copy of `spark` with `conf` and what Penstock needs on top.

    Settings, temporary views and functions are copied; later changes in one session do not affect
    the other. Raises `InvalidInput` for a setting that a running context cannot change.
    """
    from pyspark import RDD
    from pyspark.sql import SparkSession

    to_frame: Any = RDD.toDF  # which every new session object binds to itself
    copied = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    RDD.toDF = to_frame  # type: ignore[method-assign]
    for name, value in (conf or {}).items():
        _set(copied, name, value)
    said: Mapping[str, str] = copied.conf.getAll
    for name, value in {**_PREFERRED, **CHANNEL}.items():
        if name not in said:
            copied.conf.set(name, value)
    for name, value in _NEEDED.items():
        copied.conf.set(name, value)
    return copied


def overridden(spark: SparkSession, conf: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The user's settings that a flow overrides, one line for each."""
    said = {**spark.conf.getAll, **(conf or {})}
    needs = [
        f"{name}: yours is {said[name]}, Penstock needs {value}"
        for name, value in _NEEDED.items()
        if said.get(name, value) != value
    ]
    plans = [
        f"{name}: yours is {said[name]}, the plan decides it for each query"
        for name in _PLANNED
        if name in said
    ]
    return (*needs, *plans)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread for the duration of a block.

    Spark parses expressions, and looks for Python sources, in the active session of the thread.
    """
    module: Any = type(spark)._get_j_spark_session_class(spark._jvm)
    before = module.getActiveSession()
    module.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            module.setActiveSession(before.get())
        else:
            module.clearActiveSession()


@contextmanager
def offered(master: str | None, conf: Mapping[str, str]) -> Iterator[None]:
    """Offer `master` and `conf` to a session that the user's file starts in the block.

    As under spark-submit, settings in the file itself take precedence.
    """
    if spark_home.submitted() or running() is not None:
        yield
        return
    asked = master or conf.get("spark.master")
    # If no master is given the file may choose any, even one that needs another home.
    if asked is not None:
        spark_home.prepare(_master(asked))
    place = _master(asked or spark_home.defaults().get("spark.master"))
    given = {**_unsaid(at_start(place), spark_home.defaults()), **conf, "spark.master": place}
    words = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    key = "PYSPARK_SUBMIT_ARGS"
    before = os.environ.get(key)
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    os.environ[key] = f"{shlex.join(words)} {before or 'pyspark-shell'}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before


def at_start(master: str) -> dict[str, str]:
    """Settings of a context that Penstock starts on a master, unless the user has set others."""
    sockets = {SOCKETS: "true"} if master.startswith("local") else {}
    return {**_CONTEXT, **_PROCESS, **sockets}


def _unsaid(settings: Mapping[str, str], said: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in said}


def _started(asked: str | None, conf: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if spark_home.submitted():
        SparkContext._ensure_initialized()
        said = dict(SparkConf().getAll())
        master = said.get("spark.master") or _master(asked)
        _check_master(asked, master)
        settings = _unsaid(_CONTEXT, said)
    else:
        said = dict(spark_home.defaults())
        master = _master(asked or said.get("spark.master"))
        spark_home.prepare(master)
        settings = _unsaid(at_start(master), said)
    for name, value in {**settings, **conf, "spark.master": master}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # Spark's, Java's or Python's: all mean the same here
        lines = str(error).strip().splitlines()
        said_there = next((n for n in lines if "Exception" in n or n.startswith("[")), "")
        raise InvalidInput(
            f"Spark did not start on master '{master}': {said_there or ' '.join(lines[:1])}; "
            "`penstock doctor` checks what it needs"
        ) from error


def _check_master(asked: str | None, there: str) -> None:
    if asked is None or there in (asked, _master(asked)):
        return
    if spark_home.submitted():
        raise InvalidInput(
            f"this program was submitted with master '{there}', so it cannot be '{asked}'; leave "
            "the master out of the program, or submit it with --master"
        )
    raise InvalidInput(
        f"a Spark session runs already on master '{there}', so it cannot "
        f"be '{asked}'; stop that session first, or leave the master out"
    )


def _set(spark: SparkSession, name: str, value: str) -> None:
    """Change a setting of a running session; a static one must have that value already."""
    from pyspark.errors import AnalysisException

    if name == "spark.master":
        return  # checked before
    there = spark.sparkContext.getConf().get(name, None)
    if name.startswith(("spark.sql.", "spark.hadoop.")) or not name.startswith("spark."):
        try:
            spark.conf.set(name, value)
        except AnalysisException:
            pass  # a static setting
        else:
            return
    if there == value or (there is not None and name in _SHIPPED):
        return
    found = "without it" if there is None else f"with '{there}'"
    raise InvalidInput(
        f"the setting {name}='{value}' can only be given before Spark starts, and a session runs "
        f"already {found}; set it where that session is made, or stop the session first"
    )


def end() -> None:
    """Stop the running session, if there is one."""
    spark = running()
    if spark is not None:
        spark.stop()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set some settings for the duration of a block; a query keeps those of its start."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def unmet(spark: SparkSession, values: Mapping[str, str]) -> dict[str, str]:
    """The settings that have another value in a session."""
    return {name: value for name, value in values.items() if spark.conf.get(name) != value}


def default_parallelism(spark: SparkSession) -> int:
    """Default number of instances of a pipeline: one for each of Spark's cores."""
    slots = int(spark.sparkContext.defaultParallelism)
    local = str(spark.sparkContext.master).startswith("local[")
    return min(slots, os.cpu_count() or 1) if local else slots


def default_master() -> str:
    """This machine, with two slots per core so that pipelines overlap, and four tries per task."""
    return f"local[{2 * (os.cpu_count() or 1)},4]"


_MASTERS = re.compile(r"local|local\[.+\]|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")


def _master(given: str | None) -> str:
    if given is None:
        return default_master()
    if not _MASTERS.fullmatch(given):
        raise InvalidInput(
            f"'{given}' is no master of Spark: write local[4], local-cluster[2,2,1024], "
            "spark://host:7077, yarn or k8s://host:443"
        )
    # Plain local[n] fails a query at the first lost task; a streaming job needs retries.
    if given == "local":
        return "local[1,4]"
    if given.startswith("local[") and "," not in given:
        return f"{given[:-1]},4]"
    return given
