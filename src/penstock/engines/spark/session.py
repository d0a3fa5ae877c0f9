"""The Spark session Penstock runs in, and the settings that it needs there."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_AT_START = {
    "spark.scheduler.mode": "FAIR",  # no pipeline waits for another's long stage
    # Python workers over loopback TCP lose 40 ms a task to delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark's statistics are read every second; those of long ago only make that slower.
    "spark.ui.retainedTasks": "2000",
    "spark.ui.retainedStages": "500",
    "spark.ui.retainedJobs": "500",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.driver.memory": "2g",
    # A batch that is cut short unwinds a long error text through a recursive regex.
    "spark.driver.extraJavaOptions": "-Xss32m",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.log.level": "ERROR",
}

_ANY_TIME = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # what Arrow reads back as is
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}

STATE = {
    # The only one whose state can be cut into another number of parts, and that has timers.
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    # A commit of state writes what changed instead of everything: half the time of a small batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of queries with state."""


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session for Penstock: the running one with the settings it needs, or a new one.

    `master` defaults to this machine with two slots a core; `conf` comes on top of Penstock's
    own settings. Both are for a new session: a running one must not contradict them.
    """
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        spark = _started(_master(master), dict(conf or {}))
    elif master is not None and spark.sparkContext.master != _master(master):
        raise InvalidInput(
            f"a Spark session runs already on master '{spark.sparkContext.master}', so it cannot "
            f"be '{master}'; stop that session first, or leave the master out"
        )
    for name, value in _ANY_TIME.items():
        spark.conf.set(name, value)
    return spark


def _started(master: str, conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_HOME", str(_light_home()))
    if master.startswith("local"):  # elsewhere executors ask for the driver by its name
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    builder = SparkSession.builder.appName("penstock").master(master)
    for name, value in {**_AT_START, **_ANY_TIME, **conf}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # Spark's own, Java's, or a plain one: all mean the same here
        lines = str(error).strip().splitlines()
        said = next((line for line in lines if "Exception" in line or line.startswith("[")), "")
        raise InvalidInput(
            f"Spark did not start on master '{master}': {said or ' '.join(lines[:1])}; "
            "`penstock doctor` checks what it needs"
        ) from error


def state_note(conf: Mapping[str, str] | None) -> str | None:
    """What to tell a user whose settings keep state elsewhere than Penstock does, if anything."""
    name = "spark.sql.streaming.stateStore.providerClass"
    wanted = (conf or {}).get(name, _STATE)
    if wanted == _STATE:
        return None
    return f"{name}={wanted} is not used: a flow keeps its state in RocksDB, so that it can move"


def end() -> None:
    """Stop the running session, if there is one."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None:
        spark.stop()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set some of a session's settings for a while: a query keeps those it was started with."""
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


def default_parallelism(spark: SparkSession) -> int:
    """Instances for a pipeline of which nothing is known: one a core that Spark has here."""
    slots = int(spark.sparkContext.defaultParallelism)
    local = str(spark.sparkContext.master).startswith("local[")
    return min(slots, os.cpu_count() or 1) if local else slots


def default_master() -> str:
    """This machine, two slots a core so that pipelines overlap, and tasks tried four times."""
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
    # Plain local[n] fails a query at the first lost task; a streaming job wants the retries.
    if given == "local":
        return "local[1,4]"
    if given.startswith("local[") and "," not in given:
        return f"{given[:-1]},4]"
    return given


def _light_home() -> Path:
    """A SPARK_HOME of links to the installed package without its `pyspark.zip`.

    Python finds pyspark in the environment anyway; from the zip, which holds no compiled
    modules, every Python process starts about three times slower.
    """
    import pyspark

    package = Path(pyspark.__file__).parent
    home = Path(tempfile.gettempdir()) / (
        f"penstock-spark-{pyspark.__version__}-{os.getuid()}-{zlib.crc32(str(package).encode()):08x}"
    )
    if (home / "ready").exists():
        return home
    building = Path(tempfile.mkdtemp(prefix="penstock-spark-"))
    for entry in package.iterdir():
        if entry.name != "python":
            (building / entry.name).symlink_to(entry)
    lib = building / "python" / "lib"
    lib.mkdir(parents=True)
    for entry in (package / "python" / "lib").iterdir():
        if entry.name != "pyspark.zip":
            (lib / entry.name).symlink_to(entry)
    (building / "ready").touch()
    try:
        building.rename(home)
    except OSError:  # another process was faster
        shutil.rmtree(building)
    return home if home.exists() else package
