"""Every command that takes a run directory refuses one that is not on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

FLOW = """
from penstock import Dataflow, Discard, Files
open("loaded", "w").close()
flow = Dataflow("words")
flow.source("read", Files("in", "text string")).sink("drop", Discard())
"""


@pytest.mark.parametrize(
    "words",
    [
        ("run", "flow.py", "--run-dir", "s3a://bucket/x"),
        ("run", "wordcount", "--run-dir", "s3a://bucket/x"),
        ("profile", "flow.py", "--run-dir", "s3a://bucket/x"),
        ("compare", "flow.py", "wordcount", "--run-dir", "s3a://bucket/x"),
        ("simulate", "flow.py", "--run-dir", "s3a://bucket/x"),
        ("scale", "s3a://bucket/x", "count=2"),
        ("advise", "s3a://bucket/x", "--policy", "ds2"),
        ("history", "s3a://bucket/x"),
        ("export", "s3a://bucket/x"),
        ("report", "s3a://bucket/x"),
        ("calibrate", "s3a://bucket/x"),
        ("whatif", "s3a://bucket/x"),
        ("capacity", "s3a://bucket/x"),
        ("dashboard", "s3a://bucket/x"),
    ],
    ids=" ".join,
)
def test_a_run_directory_elsewhere_is_refused_before_anything_starts(
    penstock: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flow.py").write_text(FLOW)
    code, out, err = penstock(*words)
    assert code == 2
    assert out == ""
    assert "s3a://bucket/x" in err or "s3a:/bucket/x" in err
    assert "a directory of this machine" in err
    assert [file.name for file in tmp_path.iterdir()] == ["flow.py"]
