"""The tutorial and the flow of the README on Spark: one reader's afternoon, in one test."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.store import history
from penstock.store.mailbox import is_running

from . import stand
from .blocks import ALL, ROOT, Block
from .conftest import tweets

pytestmark = pytest.mark.spark

MARKED = [block for block in ALL if block.page == "docs/tutorial.md" and block.spark]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's directory."""
    monkeypatch.chdir(tmp_path)
    for block in ALL:
        if block.page == "docs/tutorial.md" and block.title is not None:
            Path(block.title).write_text(_here(block.text))
    tweets(tmp_path / "in" / "tweets")
    return tmp_path


@pytest.fixture
def own_settings(spark: Any) -> Iterator[None]:
    """The job changes a setting of the session that all tests share."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield
    spark.conf.set(name, before)


@pytest.mark.usefixtures("spark", "own_settings")
def test_the_tutorial_from_the_job_to_the_elastic_flow(folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "tutorial"}
    asked = [b for b in MARKED if b.language == "sh" and "scale" in b.text]
    for block in MARKED:
        if block.language == "python":
            _execute(block, names)
        elif block not in asked:
            for words in block.commands():
                beside = asked if "elastic.py" in words else []
                assert _run(words[1:], beside) == 0, words
    assert (folder / "words.svg").read_text().startswith("<svg")
    letters = [f.read_text() for f in (folder / "runs/words/dead/parse").rglob("*.jsonl")]
    assert "".join(letters).count("no tweet") == 3
    seen = [t.transition for t in history.transitions(folder / "runs/elastic")]
    assert sum("asked: " in t.reason for t in seen) == 4
    assert {"split", "merge"} <= {change.split()[0] for t in seen for change in t.changes}


def _execute(block: Block, names: dict[str, Any]) -> None:
    """A job that would wait for ever waits for what is there."""
    ended = "query.processAllAvailable()\nquery.stop()"
    text = _here(block.text.replace("query.awaitTermination()", ended))
    exec(compile("\n" * block.line + text, str(ROOT / block.page), "exec"), names)


def _here(text: str) -> str:
    """The session was started elsewhere, so Spark does not know where here is."""
    return re.sub(r'"((?:in|out|checkpoints)/)', lambda found: f'"{Path.cwd()}/{found[1]}', text)


def _run(words: list[str], beside: list[Block]) -> int:
    """A command, and those of another terminal while it runs; then it is ended with Ctrl-C."""
    words = stand.shortened(words, 120 if beside else 4)
    failed: list[Any] = []

    def other_terminal() -> None:
        home = Path(beside[0].text.split()[2])
        while not (is_running(home) and history.turn_times(home)):
            time.sleep(0.1)
        for block in beside:
            for asked in block.commands():
                code = stand.penstock(*asked[1:])
                failed.extend([asked] if code else [])
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=other_terminal) if beside else None
    if other is not None:
        other.start()
    code = stand.penstock(*words)
    if other is not None:
        other.join(60)
    assert failed == []
    return code
