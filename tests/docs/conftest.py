"""A directory like the reader's: files of the pages, a recorded run, a profile, some input."""

from __future__ import annotations

import json
import shutil
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from penstock import policies
from penstock.policies.base import registry

from . import stand
from .blocks import ALL, ROOT


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: what the pages take to be there."""
    home = tmp_path_factory.mktemp("reader")
    for block in ALL:
        if block.title is not None and block.title.endswith(".py"):
            (home / block.title).write_text(block.text)
    shutil.copytree(ROOT / "examples", home / "examples")
    tweets(home / "in" / "tweets")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(home)
        stand.stand_in(patched)
        recorded = "run wordcount --load steps:20,60,20@60s --for 3m --policy threshold --no-view"
        assert stand.penstock(*recorded.split(), "--run-dir", "runs/mine") == 0
        assert stand.penstock("run", "elastic.py", "--for", "30s", "--run-dir", "runs/elastic") == 0
        profiled = "profile wordcount --set observations=3 --set settle=0s --max-slots 6"
        assert stand.penstock(*profiled.split(), "--run-dir", "runs/words") == 0
    return home


def tweets(folder: Path) -> None:
    """Lines of JSON, some of which are no tweets."""
    folder.mkdir(parents=True)
    for number in range(3):
        words = ("stream", "water", "a", "gate", "turbine", "of", "river")
        lines = [
            json.dumps({"id": i, "text": " ".join(words[: 1 + (i * 7 + number) % len(words)])})
            for i in range(40)
        ]
        (folder / f"{number}.json").write_text("\n".join([*lines, "no tweet"]) + "\n")


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in, without Spark, with the example policy as if it were installed."""
    home = tmp_path / "reader"
    shutil.copytree(template, home)
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(home / "examples" / "policy")
    project = tomllib.loads((ROOT / "examples" / "policy" / "pyproject.toml").read_text())
    declared: dict[str, Any] = project["project"]["entry-points"][policies.GROUP]
    found = [EntryPoint(name, path, policies.GROUP) for name, path in declared.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)
    return home
