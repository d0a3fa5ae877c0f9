from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main

FLOW = """
from penstock import Dataflow, Discard, Generator

def flow():
    made = Dataflow("words")
    lines = made.source("lines", Generator(lambda rng, index, at: {}, "v string", "100/s"))
    lines.flat_map("split", lambda r: [], schema="w string").sink("out", Discard())
    made.constrain("split", "split", latency="1s")
    return made
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.py").write_text(FLOW)


def simulated(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["simulate", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def test_a_simulation_gives_the_summary_of_a_run(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("linear", "--nodes", "3", "--for", "5m", "--load", "200/s", "--seed", "1")
    found = simulated(capfd, *words)
    assert (found["flow"], found["engine"], found["policy"]) == ("linear", "simulator", "static")
    assert found["seconds"] == pytest.approx(300, abs=2)
    assert found["rows_delivered"] == found["rows_ingested"] == pytest.approx(60_000, rel=0.02)
    assert found["latency"]["step-1->step-3"]["met"] == 1.0
    assert found["plan"]["executors"] == 3
    again = simulated(capfd, *words)
    assert {**found, "run_dir": ""} == {**again, "run_dir": ""}


def test_costs_and_changes_are_said_on_the_command_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = simulated(
        capfd,
        "words.py",
        *("--cost", "split=20ms~exp", "--selectivity", "split=7", "--for", "60s"),
        *("--change", "10s:split=4", "--arrivals", "deterministic", "--queue", "100"),
    )
    assert found["rows_offered"] > 5000
    assert found["rows_delivered"] == 7 * found["rows_ingested"]
    assert found["throughput"]["last"] == pytest.approx(100, rel=0.05)
    assert found["transitions"][0]["changes"] == ["lines: parallelism 1 -> 4"]


def test_micro_batches_make_latency_what_it_is_in_spark(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ("words.py", "--cost", "split=1ms", "--for", "60s")
    running = simulated(capfd, *words)["latency"]["split->split"]["mean_ms"]
    batches = simulated(capfd, *words, "--batches")["latency"]["split->split"]["mean_ms"]
    assert running < 2
    assert batches > 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("words.py",), "no operator of 'words' has a known cost"),
        (("words.py", "--cost", "split"), "cannot read 'split'"),
        (("words.py", "--cost", "spilt=1ms"), "cost of an unknown operator 'spilt'"),
        (("words.py", "--cost", "split=1ms", "--selectivity", "split=x"), "'x' is not a number"),
        (("linear", "--arrivals", "odd"), "cannot read the arrivals 'odd'"),
        (
            ("linear", "--nodes", "0"),
            "a cluster needs a node with a core, found 0 nodes",
        ),
        (("linear", "--from", "nowhere"), "'nowhere' holds no run"),
        (("linear", "--for", "-1s"), "a run must last longer than nothing, found '-1s'"),
    ],
)
def test_what_cannot_be_simulated_is_said(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert main(["simulate", *words]) == 2
    assert message in capfd.readouterr().err
    assert list((tmp_path / "runs").glob("*")) == []
