from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import main


def test_a_dataflow_is_drawn_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flow.svg"
    assert main(["explain", "diamond", "--draw", str(file)]) == 0
    assert capsys.readouterr().out == f"drawn to {file}\n"
    drawn = file.read_text()
    assert all(f">{name}</text>" in drawn for name in ("orders", "branch-1", "merge", "results"))
    assert main(["explain", "diamond", "--draw", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"flow": "diamond", "drawn": str(file)}


@pytest.mark.parametrize("file", ["flow.jpg", "flow", "nowhere/flow.svg"])
def test_what_cannot_be_drawn_is_one_line(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "linear", "--draw", file]) == 2
    assert capsys.readouterr().err.startswith(f"penstock: cannot draw to '{file}': ")
    assert not list(tmp_path.iterdir())
