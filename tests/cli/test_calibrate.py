from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from tests.predict.recorded import flow, simulated

FLOW = """
from tests.predict.recorded import flow as made
from penstock.dataflow.flow import Dataflow

class Flow(Dataflow):
    graph = made()

flow = Flow("recorded")
"""


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("calibrating") / "run", flow())


def told(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 0
    return capfd.readouterr().out


def as_json(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(capfd, *words, "--json"))
    return found


def test_a_run_is_fitted_and_simulated_again(
    capfd: pytest.CaptureFixture[str], run_dir: Path, tmp_path: Path
) -> None:
    file = str(tmp_path / "model.json")
    said = told(capfd, "calibrate", str(run_dir), "--out", file)
    assert "recorded: fitted to" in said
    assert "call: 6 ms a row, 95% of it waiting, 1 out for one in" in said
    assert f"written to {file}" in said
    kept = json.loads(Path(file).read_text())
    assert kept == as_json(capfd, "calibrate", str(run_dir))
    assert kept["batch"]["job"] == pytest.approx(0.08, rel=0.05)
    (tmp_path / "flow.py").write_text(FLOW)
    words = ("simulate", str(tmp_path / "flow.py"), "--model", file, "--load", "40/s")
    again = as_json(capfd, *words, "--for", "30s", "--run-dir", str(tmp_path / "again"))
    # two batches of 0.2 s are under way: half of one to wait for, one to go through
    assert 150 < again["latency"]["call->compute"]["mean_ms"] < 600


def test_what_if_is_answered_in_words_and_in_json(
    capfd: pytest.CaptureFixture[str], run_dir: Path
) -> None:
    words = ("whatif", str(run_dir), "--load", "60/s", "--policy", "ds2", "--for", "30s")
    said = told(capfd, *words)
    assert "recorded for 30.0 s on 1 machine, 60 rows/s offered on average" in said
    for part in ("left alone: ", "with policy ds2: ", "  cost: ", "  plan: ", "p95"):
        assert part in said
    found = as_json(capfd, *words)
    assert found["left_alone"]["policy"] == "static"
    assert found["with_policy"]["cost"]["executors"] == 1
    assert found["with_policy"]["latency"]["call->compute"]["bound_ms"] == 2000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("calibrate", "nowhere"), "there is no run directory 'nowhere'"),
        (("calibrate", "."), "holds no history of a run"),
        (("calibrate", "RUN", "--out", "no/such/model.json"), "cannot write 'no/such/model.json'"),
        (("whatif", "nowhere"), "there is no run directory 'nowhere'"),
        (("whatif", "RUN", "--load", "often"), "cannot read the load 'often'"),
        (("whatif", "RUN", "--policy", "nobody"), "unknown policy 'nobody'"),
        (("whatif", "RUN", "--set", "a=1"), "--set is for a policy"),
        (("whatif", "RUN", "--for", "0s"), "the time to look ahead must be above 0 s, found 0"),
        (("whatif", "RUN", "--model", "nowhere"), "cannot read the model file 'nowhere'"),
        (("simulate", "linear", "--model", "nowhere"), "cannot read the model file 'nowhere'"),
        (("simulate", "linear", "--model", "x", "--cost", "step-1=1ms"), "leave --cost"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    capfd: pytest.CaptureFixture[str],
    run_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(run_dir) if word == "RUN" else word for word in words]) == 2
    said = capfd.readouterr().err.strip()
    assert message in said
    assert len(said.splitlines()) == 1
