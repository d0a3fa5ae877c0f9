"""The run directory: one flow, one process, one wiring in force."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.dataflow.connectors import Discard, Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.errors import RunDirectoryError
from penstock.files import write_json
from penstock.plan.plan import Pipeline, Plan
from penstock.store import run_directory
from penstock.store.run_directory import RunDirectory, Wired, Wiring
from tests.strategies import nothing


def graph(name: str = "flow", schema: str = "n bigint") -> Graph:
    flow = Dataflow(name)
    flow.source("in", Generator(nothing, schema)).sink("out", Discard())
    return flow.graph


_opened: list[RunDirectory] = []


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def opened(path: Path, found: Graph | None = None, engine: str = "spark") -> RunDirectory:
    _opened.append(RunDirectory.open(path, found or graph(), engine))
    return _opened[-1]


def wiring(number: int, parallelism: int = 1) -> Wiring:
    plan = Plan((Pipeline(("in", "out"), parallelism),))
    return Wiring(number, plan, {"in": Wired(f"run-{number:06d}-in", number, {"in": 5}, 2)})


def refused(path: Path, message: str, found: Graph | None = None, engine: str = "spark") -> None:
    with pytest.raises(RunDirectoryError, match=message) as refusal:
        opened(path, found, engine)
    assert str(path) in str(refusal.value)


def test_a_new_directory_says_what_runs_in_it(tmp_path: Path) -> None:
    run = tmp_path / "deep" / "run"
    directory = opened(run)
    head = json.loads((run / "run.json").read_text())
    assert head == {
        "version": 1,
        "flow": "flow",
        "fingerprint": graph().fingerprint,
        "engine": "spark",
        "run": directory.run_id,
        "created": directory.created,
        "sinks": {},
        "settings": {},
    }
    assert sorted(p.name for p in run.iterdir() if p.is_dir()) == [
        "channels",
        "checkpoints",
        "control",
        "dead",
        "sources",
        "wirings",
    ]
    assert directory / "dead" == run / "dead"


def test_an_empty_directory_is_new(tmp_path: Path) -> None:
    assert opened(tmp_path).wiring() is None


def test_an_existing_run_is_taken_up_under_its_name(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.commit(wiring(1))
    first.close()
    again = opened(tmp_path)
    assert (again.run_id, again.created) == (first.run_id, first.created)
    assert again.wiring() == wiring(1)


def test_what_the_engine_was_told_is_noted_as_it_is_now(tmp_path: Path) -> None:
    assert run_directory.settings(tmp_path / "run") == {}
    for rows in (500, 800):
        RunDirectory.open(tmp_path / "run", graph(), "spark", channel_rows=rows).close()
        assert run_directory.settings(tmp_path / "run") == {"channel_rows": rows}


def test_another_dataflow_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    refused(tmp_path, "belongs to dataflow 'flow', not 'other'", graph("other"))


def test_another_shape_of_the_dataflow_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    refused(tmp_path, "another shape of dataflow 'flow'", graph(schema="n int"))


def test_another_engine_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    refused(tmp_path, "written by the spark engine, not memory", engine="memory")


def test_another_layout_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    head = json.loads((tmp_path / "run.json").read_text())
    write_json(tmp_path / "run.json", {**head, "version": 2})
    refused(tmp_path, "written in layout 2, this is layout 1")


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    refused(tmp_path, "is not empty and not a run directory")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run"
    file.touch()
    refused(file, "is a file")


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "run", "cannot write to .*: Not a directory")


@pytest.mark.parametrize("torn", ["", '{"version": 1, "fl', "[]", "3", '{"version": 1}'])
def test_a_torn_head_is_refused(tmp_path: Path, torn: str) -> None:
    (tmp_path / "run.json").write_text(torn)
    refused(tmp_path, "run.json cannot be read")


def test_a_process_that_died_before_it_wrote_the_head_leaves_a_new_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / ".run.json.draft").write_text('{"versi')
    assert opened(tmp_path).wiring() is None
    assert json.loads((tmp_path / "run.json").read_text())["flow"] == "flow"


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first = opened(tmp_path)
    refused(tmp_path, "in use by another process")
    first.close()
    first.close()
    second = opened(tmp_path)
    assert second.run_id == first.run_id


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    held = opened(tmp_path)
    code = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'a+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-S", "-c", code, str(tmp_path / "lock")]
    assert subprocess.run(command, capture_output=True).returncode == 1
    held.close()
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_a_refused_directory_is_not_held(tmp_path: Path) -> None:
    opened(tmp_path).close()
    refused(tmp_path, "belongs to dataflow", graph("other"))
    opened(tmp_path).close()


def test_a_head_written_between_look_and_lock_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    other: list[RunDirectory] = []

    def late(*arguments: int) -> None:
        if not other:
            monkeypatch.setattr(fcntl, "flock", lock)
            other.append(opened(tmp_path))
            other[0].close()
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", late)
    assert opened(tmp_path).run_id == other[0].run_id


def test_the_last_committed_wiring_is_in_force(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for number in (1, 9, 10, 100):
        directory.commit(wiring(number, parallelism=number))
        assert directory.wiring() == wiring(number, parallelism=number)
    assert sorted(p.name for p in (tmp_path / "wirings").iterdir()) == [
        "000001.json",
        "000009.json",
        "000010.json",
        "000100.json",
    ]


def test_a_wiring_that_was_not_written_to_its_end_is_not_in_force(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    directory.commit(wiring(1))
    (tmp_path / "wirings" / ".000002.json.draft").write_text('{"number": 2, "pl')
    assert directory.wiring() == wiring(1)


def test_a_wiring_is_written_for_people_too(tmp_path: Path) -> None:
    opened(tmp_path).commit(wiring(3))
    assert json.loads((tmp_path / "wirings" / "000003.json").read_text()) == {
        "number": 3,
        "plan": {
            "pipelines": [
                {
                    "operators": ["in", "out"],
                    "parallelism": 1,
                    "admission": None,
                    "cadence": 0.0,
                    "ceiling": None,
                }
            ],
            "executors": 1,
        },
        "pipelines": {
            "in": {
                "checkpoint": "run-000003-in",
                "epoch": 3,
                "first": {"in": 5},
                "partitions": 2,
            }
        },
    }


def writing(path: Path) -> Graph:
    flow = Dataflow("flow")
    flow.source("in", Generator(nothing, "n bigint")).sink("out", Parquet(str(path)))
    return flow.graph


def test_a_continued_run_that_writes_elsewhere_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "run", writing(tmp_path / "here")).close()
    opened(tmp_path / "run", writing(tmp_path / "here")).close()
    with pytest.raises(RunDirectoryError, match=r"sink 'out'.*writes to .*here.*there"):
        opened(tmp_path / "run", writing(tmp_path / "there"))


def test_output_inside_a_run_directory_moves_with_it(tmp_path: Path) -> None:
    opened(tmp_path / "run", writing(tmp_path / "run" / "out")).close()
    (tmp_path / "run").rename(tmp_path / "moved")
    opened(tmp_path / "moved", writing(tmp_path / "moved" / "out")).close()
