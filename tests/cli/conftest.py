"""The command, run in a directory of its own and without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def penstock(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the command; its exit code, what is on standard output, and on standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        try:
            code = main.main(words)
        except SystemExit as ended:  # argparse's way to refuse
            code = int(ended.code or 0)
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "penstock.engines.spark.session.flow_session.session", lambda master, conf: None
    )
    monkeypatch.setattr("penstock.cli.explaining._schemas", lambda graph, master, conf: ({}, ()))
