"""The README says what the command really understands and prints."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.cli.main import parser

from ..report import statuses

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_every_option_of_run_is_explained() -> None:
    commands = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    options = {o for a in commands["run"]._actions for o in a.option_strings}
    assert {o for o in options if o not in ("-h", "--help") and f"`{o}" not in README} == set()


def test_every_name_of_the_json_is_explained() -> None:
    data = statuses.summary().to_json()
    names = {*data, *data["throughput"], *data["latency"]["parse->count"]}
    assert {n for n in names if f"`{n}`" not in README} == set()


def test_every_load_in_it_can_be_read() -> None:
    from penstock.models.load import parse

    row = next(line for line in README.splitlines() if line.startswith("| `--load"))
    loads = [w for w in re.findall(r"`([^`]+)`", row)[1:] if not w.startswith("trace:")]
    assert len(loads) == 5
    for load in loads:
        parse(load)


def test_the_flow_in_it_is_valid() -> None:
    from penstock.dataflow.flow import Dataflow

    code = README.split("```python\n")[1].split("```")[0]
    code = code.replace("from pyspark.sql import functions as F", "")
    code = code.replace("from penstock import Dataflow, Files, Parquet", "")
    code = code.replace('F.sum("euros").alias("euros")', '"sum(euros) AS euros"')  # no session here
    from penstock.dataflow.connectors import Files, Parquet

    names: dict[str, object] = {"Dataflow": Dataflow, "Files": Files, "Parquet": Parquet}
    exec(compile(code, "README.md", "exec"), names)
    flow = names["flow"]
    assert isinstance(flow, Dataflow)
    flow.validate()
    assert len(code.strip().splitlines()) <= 40
