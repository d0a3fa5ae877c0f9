"""Programs that bring their Spark with them: under spark-submit, or in the file of the flow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.engines.spark.session.flow_session import session
from penstock.errors import InvalidInput
from tests.docs.conftest import tweets

ROOT = Path(__file__).parent.parent
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"

WORDS = re.search(r'```python title="words.py"\n(.*?)```', (ROOT / "README.md").read_text(), re.S)

SEEN = """
    import json
    from pyspark.sql import SparkSession
    from penstock import InvalidInput
    try:
        flow.run(seconds="3s", master="local[7]", run_dir="runs/never")
        refused = ""
    except InvalidInput as error:
        refused = str(error)
    summary = flow.run(seconds="3s", run_dir="runs/mine")
    spark = SparkSession.getActiveSession()
    seen = {
        "master": spark.sparkContext.master,
        "name": spark.sparkContext.appName,
        "zone": spark.conf.get("spark.sql.session.timeZone"),
        "ui": spark.sparkContext.uiWebUrl is not None,
        "refused": refused,
        "rows": summary.rows_delivered,
    }
    open("seen.json", "w").write(json.dumps(seen))
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A process that knows nothing of the session that the tests share."""
    ours = ("SPARK_HOME", "SPARK_LOCAL_HOSTNAME", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment["PYSPARK_PYTHON"] = sys.executable
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.spark
def test_the_readme_s_program_runs_as_it_is_submitted(tmp_path: Path) -> None:
    assert WORDS is not None
    program = WORDS[1].replace('    print(flow.run(seconds="60s").to_json())', SEEN)
    assert program != WORDS[1]
    (tmp_path / "words.py").write_text(program)
    tweets(tmp_path / "in" / "tweets")
    settings = ["spark.app.name=mine", "spark.sql.session.timeZone=Asia/Kolkata"]
    asked = [word for one in settings for word in ("--conf", one)]
    done = run(tmp_path, str(SUBMIT), "--master", "local[3]", *asked, "words.py")
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["rows"] > 0
    assert seen["refused"].startswith("this program was submitted with master 'local[3]', so")
    del seen["rows"], seen["refused"]
    assert seen == {"master": "local[3]", "name": "mine", "zone": "Asia/Kolkata", "ui": True}
    assert not (tmp_path / "runs" / "never" / "run.json").exists()
    assert [*(tmp_path / "out" / "counts").glob("*.parquet")]


OWN = """
import json
from pyspark.sql import SparkSession
from penstock import Dataflow, Files, Parquet

spark = (
    SparkSession.builder.appName("theirs").config("spark.sql.extensions", "some.Extension")
    .config("spark.sql.session.timeZone", "Asia/Kolkata").getOrCreate()
)
context = spark.sparkContext
seen = [context.master, context.appName, spark.conf.get("spark.sql.extensions")]
seen += [context.getConf().get(n) for n in ("spark.scheduler.mode", "spark.task.maxFailures")]
with open("seen.jsonl", "a") as file:
    file.write(json.dumps(seen) + "\\n")

flow = Dataflow("theirs")
lines = flow.source("lines", Files("in", "ts timestamp", format="json"))
hours = lines.frame("hours", lambda df: df.selectExpr("hour(ts) as hour"))
hours.sink("out", Parquet("out"))
"""


@pytest.mark.spark
def test_a_session_that_the_flow_s_file_starts_is_the_session(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"ts": "2024-07-01T12:00:00Z"}\n')
    command = (sys.executable, "-m", "penstock", "run", "own.py", "--for", "2s", "--no-view")
    setting = ("--master", "local[3]", "--conf", "spark.task.maxFailures=9")
    done = run(tmp_path, *command, *setting)
    assert done.returncode == 0, done.stderr[-3000:]
    loads = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert loads == [["local[3,4]", "theirs", "some.Extension", "FAIR", "9"]]
    done = run(tmp_path, sys.executable, "-c", READ)
    assert done.stdout.split() == ["17"]


READ = "import pyarrow.dataset as d; print(*d.dataset('out').to_table()['hour'].to_pylist())"


def test_a_submitted_master_is_not_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")

    class Running:
        class sparkContext:  # noqa: N801
            master = "yarn"

    monkeypatch.setattr("penstock.engines.spark.session.flow_session.running", Running)
    assert isinstance(session("yarn"), Running)
    with pytest.raises(
        InvalidInput, match=r"submitted with master 'yarn', so it cannot be 'local'"
    ):
        session("local")
