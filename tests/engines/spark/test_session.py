"""The flow's own session: the user's stays as it is, and its settings hold in the flow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock import Dataflow, Files, Memory, Parquet, run
from penstock.engines.spark.engine import SparkEngine
from penstock.engines.spark.session import spark_home
from penstock.engines.spark.session.flow_session import (
    SOCKETS,
    active,
    at_start,
    offered,
    overridden,
    own,
    running,
    session,
)
from penstock.errors import InvalidInput
from penstock.plan.plan import Pipeline, Plan

ZONE = "spark.sql.session.timeZone"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"

# --- which settings, without Spark --------------------------------------------------------------


@pytest.mark.parametrize("master", ["local[4,4]", "local", "local-cluster[2,1,1024]"])
def test_sockets_in_files_are_for_masters_on_this_machine(master: str) -> None:
    assert at_start(master)[SOCKETS] == "true"


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://host:443"])
def test_a_cluster_whose_directories_may_be_deep_keeps_spark_s_own_sockets(master: str) -> None:
    assert SOCKETS not in at_start(master)


def test_only_yarn_ships_the_zip_that_the_light_home_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    spark_home.prepare("yarn")
    assert "SPARK_HOME" not in os.environ
    spark_home.prepare("spark://host:7077")
    lib = Path(os.environ["SPARK_HOME"]) / "python" / "lib"
    assert lib.is_dir()
    assert not (lib / "pyspark.zip").exists()


def test_a_home_that_is_set_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    monkeypatch.setattr(spark_home, "light", lambda: pytest.fail("a light home was made"))
    spark_home.prepare("local[2]")
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_pyspark_in_a_zip_has_no_light_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__file__", "/opt/spark/python/lib/pyspark.zip/pyspark/__init__.py")
    assert spark_home.light() is None


def test_settings_of_the_defaults_file_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\n\nspark.master  spark://one:7077\nspark.ui.enabled=true\n"
        "spark.driver.extraJavaOptions -Dkey=value -Dother=1\nspark.empty\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_home.defaults() == {
        "spark.master": "spark://one:7077",
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Dkey=value -Dother=1",
    }


def test_a_file_s_own_session_is_offered_the_master_and_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("penstock.engines.spark.session.flow_session.running", lambda: None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.enabled true\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    with offered("local[2]", {"spark.app.name": "a b"}):
        words = os.environ["PYSPARK_SUBMIT_ARGS"]
    assert "--conf 'spark.app.name=a b'" in words
    assert "--conf 'spark.master=local[2,4]'" in words
    assert "spark.scheduler.mode=FAIR" in words
    assert "spark.ui.enabled" not in words
    assert words.endswith("--verbose pyspark-shell")
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--verbose pyspark-shell"


# --- beside the user's session ------------------------------------------------------------------


@pytest.fixture
def theirs(spark: Any) -> Any:
    """A session as a user may have it, with settings, a view and a function."""
    mine = spark.newSession()
    mine.conf.set(ZONE, "Asia/Kolkata")
    return mine


@pytest.mark.spark
def test_the_user_s_session_is_as_it_was(spark: Any, tmp_path: Path) -> None:
    jvm = spark._jvm.org.apache.spark.sql.classic.SparkSession
    jvm.setActiveSession(spark._jsparkSession)  # whatever another test has left
    before, there = dict(spark.conf.getAll), running()
    engine = SparkEngine(spark=spark)
    flow, _ = zoned(tmp_path)
    run(flow, engine=engine, seconds="1s", run_dir=tmp_path / "run")
    assert dict(spark.conf.getAll) == before
    assert running() is there
    assert jvm.getActiveSession().get().equals(spark._jsparkSession)
    assert engine.spark is not spark


@pytest.mark.spark
def test_the_flow_s_session_has_what_the_user_has(theirs: Any) -> None:
    theirs.udf.register("plus_one", lambda n: n + 1, "int")
    theirs.range(3).createOrReplaceTempView("three")
    theirs.conf.set("spark.sql.caseSensitive", "true")
    theirs.conf.set("spark.sql.streaming.pollingDelay", "77ms")
    copied = own(theirs, {"spark.sql.ansi.enabled": "false"})
    assert copied.sql("select plus_one(1) + (select count(*) from three) as n").first().n == 5
    assert copied.conf.get("spark.sql.caseSensitive") == "true"
    assert copied.conf.get("spark.sql.streaming.pollingDelay") == "77ms"
    assert copied.conf.get("spark.sql.ansi.enabled") == "false"
    assert copied.conf.get(ZONE) == "Asia/Kolkata"
    assert theirs.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.spark
def test_what_a_flow_cannot_follow_is_said(theirs: Any) -> None:
    assert overridden(theirs) == ()
    theirs.conf.set(PROVIDER, "some.Provider")
    theirs.conf.set("spark.sql.shuffle.partitions", "50")
    needs, plans = overridden(theirs, {ZONE: "UTC"})
    assert needs == (
        f"{PROVIDER}: yours is some.Provider, Penstock needs "
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
    assert plans.startswith("spark.sql.shuffle.partitions: yours is 50, the plan decides")
    assert own(theirs).conf.get(PROVIDER).endswith("RocksDBStateStoreProvider")
    assert theirs.conf.get(PROVIDER) == "some.Provider"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.executor.memory", "3g"),
        ("spark.sql.extensions", "some.Extension"),
        ("spark.app.name", "another"),
    ],
)
def test_a_setting_that_comes_too_late_is_refused(spark: Any, name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name}='{value}' can only be given before Spark"):
        own(spark, {name: value})


@pytest.mark.spark
def test_settings_that_the_context_has_already_are_no_contradiction(spark: Any) -> None:
    name = spark.sparkContext.appName
    assert own(spark, {"spark.app.name": name, "spark.master": "local[4]"}) is not spark


@pytest.mark.spark
def test_another_master_is_refused_in_whatever_way_it_is_written(spark: Any) -> None:
    there = spark.sparkContext.master
    assert session(there) is session("local[4]") is session(None, {"spark.master": there})
    for attempt in (lambda: session("local[7]"), lambda: session(None, {"spark.master": "yarn"})):
        with pytest.raises(InvalidInput, match="a Spark session runs already on master"):
            attempt()


@pytest.mark.spark
def test_the_active_session_is_put_back(spark: Any, theirs: Any) -> None:
    jvm = spark._jvm.org.apache.spark.sql.classic.SparkSession
    jvm.setActiveSession(spark._jsparkSession)
    with active(theirs):
        assert jvm.getActiveSession().get().equals(theirs._jsparkSession)
    assert jvm.getActiveSession().get().equals(spark._jsparkSession)


# --- the time zone ------------------------------------------------------------------------------

ZONED = """
SELECT name, hour(ts) AS hour, date_trunc('DAY', ts) AS day, CAST(ts AS string) AS text,
       from_json(json, 'at timestamp').at AS at,
       hour(from_json(json, 'at timestamp').at) AS at_hour, ts, plain, times
FROM {rows}
"""


def rows(folder: Path) -> Path:
    """Instants around midnight and a change of clocks, and wall clock times without a zone."""
    folder.mkdir(parents=True, exist_ok=True)
    moments = [
        datetime(2024, 3, 10, 6, 59, 59, 123456, tzinfo=UTC),
        datetime(2024, 3, 10, 7, 0, 0, tzinfo=UTC),
        datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ]
    table = pa.table(
        {
            "name": [f"row {n}" for n in range(len(moments))],
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "plain": pa.array([m.replace(tzinfo=None) for m in moments], pa.timestamp("us")),
            "times": pa.array([[m] for m in moments], pa.list_(pa.timestamp("us", "UTC"))),
            "json": ['{"at": "2024-07-01 23:30:00"}'] * len(moments),
        }
    )
    pq.write_table(table, folder / "rows.parquet")
    return folder


SCHEMA = "name string, ts timestamp, plain timestamp_ntz, times array<timestamp>, json string"


RESULT = (
    "name string, hour int, day timestamp, text string, at timestamp, at_hour int, "
    "ts timestamp, plain timestamp_ntz, times array<timestamp>"
)


def zoned(folder: Path) -> tuple[Dataflow, str]:
    """A flow that computes `ZONED`, with Python operators before and behind it."""
    flow = Dataflow("zoned")
    read = flow.source("read", Files(str(rows(folder / "in")), SCHEMA, format="parquet"))
    copied = read.map("before", dict, schema=SCHEMA)
    seen = copied.frame("expressions", lambda df: df.sparkSession.sql(ZONED, rows=df))
    kept = seen.arrow("behind", lambda batches: batches, schema=RESULT)
    kept.sink("out", Memory())
    kept.sink("files", Parquet(str(folder / "out")))
    return flow, "out"


def expected(spark: Any, folder: Path) -> list[tuple[Any, ...]]:
    frame = spark.read.schema(SCHEMA).parquet(str(folder / "in"))
    return sorted(map(tuple, spark.sql(ZONED, rows=frame).collect()))


CUT = Plan(
    (
        Pipeline(("read",), 1),
        Pipeline(("before",), 1),
        Pipeline(("expressions",), 2),
        Pipeline(("behind", "out", "files"), 1),
    )
)


@pytest.mark.spark
@pytest.mark.parametrize("plan", [None, CUT], ids=["fused", "cut"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_expressions_give_what_they_give_in_the_user_s_zone(
    spark: Any, tmp_path: Path, plan: Plan | None, zone: str
) -> None:
    mine = spark.newSession()
    mine.conf.set(ZONE, zone)
    flow, out = zoned(tmp_path)
    engine = SparkEngine(spark=mine)
    run(flow, engine=engine, plan=plan, seconds="1s", run_dir=tmp_path / "run")
    wanted = expected(mine, tmp_path)
    assert sorted(map(tuple, engine.rows(out))) == wanted
    written = mine.read.parquet(str(tmp_path / "out"))
    assert sorted(map(tuple, written.collect())) == wanted
    assert mine.conf.get(ZONE) == zone
    assert {row[1] for row in wanted} != {m.hour for m in (row[-2] for row in wanted)}


@pytest.mark.spark
def test_a_zone_in_conf_is_that_of_the_flow_alone(spark: Any, tmp_path: Path) -> None:
    before = spark.conf.get(ZONE)
    flow, out = zoned(tmp_path)
    engine = SparkEngine(spark=spark, conf={ZONE: "Asia/Kolkata"})
    run(flow, engine=engine, seconds="1s", run_dir=tmp_path / "run")
    assert spark.conf.get(ZONE) == before
    there = spark.newSession()
    there.conf.set(ZONE, "Asia/Kolkata")
    assert sorted(map(tuple, engine.rows(out))) == expected(there, tmp_path)


class Stamps(StatefulProcessor):
    """Tells the hour of the timestamps that it gets, and whether these have a zone."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(name=row.name, ts=row.ts, hour=row.ts.hour)

    def close(self) -> None:
        pass


def hours(record: dict[str, Any]) -> dict[str, Any]:
    """The timestamp as it is, and without its zone: that means the same instant."""
    ts = record["ts"]
    naive = ts.replace(tzinfo=None)
    return {
        "name": record["name"],
        "ts": ts,
        "zone": str(ts.tzinfo),
        "hour": ts.hour,
        "back": naive,
    }


@pytest.mark.spark
def test_python_operators_see_timestamps_in_the_session_s_zone(theirs: Any, tmp_path: Path) -> None:
    flow = Dataflow("seen")
    read = flow.source("read", Files(str(rows(tmp_path / "in")), SCHEMA, format="parquet"))
    seen = read.map(
        "hours", hours, schema="name string, ts timestamp, zone string, hour int, back timestamp"
    )
    seen.sink("out", Memory())
    kept = seen.filter("only", lambda r: str(r["back"].tzinfo) == r["zone"])
    stamped = kept.key_by("name").process(
        "stamps", Stamps, schema="name string, ts timestamp, hour int"
    )
    stamped.sink("processed", Memory())
    engine = SparkEngine(spark=theirs)
    run(flow, engine=engine, seconds="1s", run_dir=tmp_path / "run")
    plain = theirs.read.schema(SCHEMA).parquet(str(tmp_path / "in"))
    wanted = {r.name: r for r in plain.selectExpr("name", "ts", "hour(ts) as hour").collect()}
    found = engine.rows("out")
    assert {r.name: (r.ts, r.back, r.hour) for r in found} == {
        name: (r.ts, r.ts, r.hour) for name, r in wanted.items()
    }
    assert {r.zone for r in found} == {"Asia/Kolkata"}
    processed = {r.name: r.ts for r in engine.rows("processed")}
    assert processed == {name: r.ts for name, r in wanted.items()}


@pytest.mark.spark
def test_a_function_may_use_tables_views_and_functions_of_the_user_s_session(
    theirs: Any, tmp_path: Path
) -> None:
    rows(tmp_path / "in")
    theirs.udf.register("shout", lambda text: text.upper(), "string")
    static = theirs.createDataFrame(
        [("row 1", "one"), ("row 2", "two")], "name string, word string"
    )
    static.createOrReplaceTempView("words")
    flow = Dataflow("tables")
    read = flow.source("read", Files(str(tmp_path / "in"), SCHEMA, format="parquet"))
    # the static table comes first, so its session is the user's
    named = read.frame("join", lambda df: static.join(df.select("name"), "name"))
    loud = named.frame("shout", lambda df: df.selectExpr("shout(word) as word"))
    counts = loud.key_by("word").aggregate("count", n="count(*)")
    counts.sink("out", Memory())
    engine = SparkEngine(spark=theirs)
    run(flow, engine=engine, seconds="1s", run_dir=tmp_path / "run")
    assert sorted(map(tuple, engine.rows("out"))) == [("ONE", 1), ("TWO", 1)]


@pytest.mark.spark
def test_channels_keep_instants_whatever_the_user_has_set_for_parquet(
    theirs: Any, tmp_path: Path
) -> None:
    theirs.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
    theirs.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    flow, out = zoned(tmp_path)
    engine = SparkEngine(spark=theirs)
    run(flow, engine=engine, plan=CUT, seconds="1s", run_dir=tmp_path / "run")
    assert sorted(map(tuple, engine.rows(out))) == expected(theirs, tmp_path)
    written = [*(tmp_path / "out").glob("*.parquet")]
    assert {pq.read_schema(file).field("ts").type.unit for file in written} == {"ms"}
