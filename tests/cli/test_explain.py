from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import workloads

from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


def test_a_dataflow_is_drawn_without_spark(penstock: Run) -> None:
    assert penstock("explain", "diamond", "--draw", "flow.svg")[:2] == (0, "drawn to flow.svg\n")
    drawn = Path("flow.svg").read_text()
    assert all(f">{name}</text>" in drawn for name in ("orders", "branch-1", "merge", "results"))
    code, out, _ = penstock("explain", "diamond", "--draw", "flow.png", "--json")
    assert (code, json.loads(out)) == (0, {"flow": "diamond", "drawn": "flow.png"})
    assert Path("flow.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_can_be_drawn(name: str, penstock: Run) -> None:
    assert penstock("explain", name, "--draw", "flow.svg")[:2] == (0, "drawn to flow.svg\n")
    drawn = Path("flow.svg").read_text()
    operators = workloads.build(name, "out").graph.operators
    assert [o.name for o in operators if f">{o.name}</text>" not in drawn] == []


@pytest.mark.parametrize("file", ["flow.jpg", "flow", "nowhere/flow.svg"])
def test_what_cannot_be_drawn_is_one_line(file: str, penstock: Run) -> None:
    code, _, err = penstock("explain", "linear", "--draw", file)
    assert code == 2
    assert err.startswith(f"penstock: cannot draw to '{file}': ")
    assert len(err.splitlines()) == 1
    assert not [*Path().iterdir()]


def test_explain_shows_everything_before_a_run(penstock: Run) -> None:
    code, out, _ = penstock("explain", "wordcount")
    assert code == 0
    for word in ("regions", "pipelines", "tweets", "word string", "aggregate", "keyed", "3s"):
        assert word in out
    assert "exactly once" in out


def test_explain_in_json(penstock: Run) -> None:
    data = json.loads(penstock("explain", "diamond", "--json")[1])
    assert list(data) == ["flow", "fingerprint", "structure", "regions", "sinks", "plan"]
    assert {sink["delivery"] for sink in data["sinks"]} == {"exactly once"}
    assert data["regions"][0] == {"operators": ["orders"], "kind": "source", "key": []}


def test_explain_tells_all_problems_of_a_flow(penstock: Run) -> None:
    Path("bad.py").write_text(
        "from penstock.dataflow.flow import Dataflow\n"
        "flow = Dataflow('bad')\n"
        "flow.constrain('a', 'b', latency='1s')\n"
    )
    code, _, err = penstock("explain", "bad.py")
    assert code == 2
    assert err.startswith("penstock: dataflow 'bad' has")
    assert "bad.py:3" in err
