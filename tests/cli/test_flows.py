from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.cli.flows import Reference
from penstock.errors import InvalidInput

FLOW = """
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow

def build(name="made"):
    flow = Dataflow(name)
    flow.source("in", Generator(lambda rng, index, at: {}, "n bigint")).sink("out", Discard())
    return flow

flow = build("default")
other = build("other")
number = 7
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow's directory is where its modules are found; here only for one test."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(FLOW)
    return path


def failed(written: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        Reference.read(written).load("out")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_built_in_workload_goes_by_its_name() -> None:
    assert Reference.read("wordcount").load("out").name == "wordcount"


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("mine.py", "default"),
        ("mine.py:flow", "default"),
        ("mine.py:", "default"),
        ("./mine.py:other", "other"),
        ("mine.py:build", "made"),
    ],
)
def test_a_flow_in_a_file_is_a_dataflow_or_a_function(written: str, name: str) -> None:
    assert Reference.read(written).load("out").name == name


def test_an_unknown_workload_lists_the_known_ones() -> None:
    said = failed("wordcont")
    assert said.startswith("unknown workload 'wordcont', did you mean 'wordcount'?")
    assert "path/to/file.py:name" in said


@pytest.mark.usefixtures("file")
def test_what_is_not_there_is_named() -> None:
    assert failed("yours.py:flow") == "there is no file 'yours.py' (from 'yours.py:flow')"
    assert failed("mine.py:missing").endswith(
        "nothing named 'missing' in mine.py; its dataflows are: flow, other"
    )
    assert "no Dataflow 'number' in mine.py" in failed("mine.py:number")
    Path("notes.txt").write_text("")
    assert "'notes.txt' is not a Python file" in failed("notes.txt:flow")
    Path("empty.py").write_text("")
    assert failed("empty.py").endswith("it defines no Dataflow")


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("x = 1\ny = x +\n", "bad.py:2: SyntaxError: invalid syntax"),
        ("\n\nx = y\n", "bad.py:3: NameError: name 'y' is not defined"),
        ("import nowhere_to_be_found\n", "bad.py:1: ModuleNotFoundError: No module named"),
        ("def flow():\n    return 1 / 0\n", "bad.py:2: ZeroDivisionError: division by zero"),
        ("def flow(a):\n    return a\n", "bad.py: TypeError: flow() missing 1 required"),
        ("flow = lambda: 7\n", "'flow' in bad.py returned int, not a Dataflow"),
        ("raise SystemExit(3)\n", "bad.py:1: SystemExit: 3"),
        (
            "from penstock.dataflow.flow import Dataflow\n\n"
            "flow = Dataflow('a')\nflow.constrain('a', 'b', latency='soon')\n",
            "bad.py:4: InvalidInput: cannot read the duration 'soon'",
        ),
    ],
)
def test_an_error_in_the_users_file_is_one_line_with_its_place(code: str, said: str) -> None:
    Path("bad.py").write_text(code)
    assert said in failed("bad.py")


@pytest.mark.usefixtures("file")
def test_a_file_may_have_the_name_of_a_module_of_python() -> None:
    import json

    Path("json.py").write_text(FLOW)
    assert Reference.read("json.py").load("out").name == "default"
    assert json.loads("1") == 1


@pytest.mark.usefixtures("file")
def test_functions_go_to_the_workers_as_code() -> None:
    from pyspark import cloudpickle

    Path("beside_it.py").write_text("def helper(row):\n    return row\n")
    Path("mine.py").write_text("from beside_it import helper\n" + FLOW)
    flow = Reference.read("mine.py").load("out")
    make = flow.graph["in"].body.source.make  # type: ignore[union-attr]
    from beside_it import helper  # type: ignore[import-not-found]

    assert b"mine" not in cloudpickle.dumps(make)[:40]
    assert b"helper" in cloudpickle.dumps(helper)
    assert len(cloudpickle.dumps(helper)) > 200  # by reference it is a name and a few bytes
