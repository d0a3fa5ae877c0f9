"""The experiments of the documentation: their tables are what the code makes of their data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import experiments
from penstock.experiments.store import Store

from .scripts import script

RESULTS = script("results")
HOME: Path = RESULTS.HOME
RECORDED = sorted(home.name for home in HOME.glob("*/")) if HOME.exists() else []


@pytest.mark.parametrize("name", RECORDED)
def test_a_table_comes_from_the_data_beside_it(name: str, tmp_path: Path) -> None:
    RESULTS.unpacked(HOME / name, tmp_path)
    Store(tmp_path).make(experiments.get(name), pictures=False)
    for file in ("table.json", "table.md"):
        assert (tmp_path / file).read_text() == (HOME / name / file).read_text()


@pytest.mark.parametrize("name", RECORDED)
def test_nothing_is_tied_to_a_machine(name: str) -> None:
    said = json.loads((HOME / name / "manifest.json").read_text())["engines"]
    assert all(" /" not in one["command"] for one in said.values())


def test_taking_and_unpacking_are_inverse(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("manifest.json", "data-simulator.jsonl", "table.md", "picture-simulator.png"):
        (source / name).write_text(f"of {name}")
    RESULTS.taken(source, tmp_path / "kept")
    RESULTS.unpacked(tmp_path / "kept", tmp_path / "back")
    back = {file.name: file.read_text() for file in (tmp_path / "back").iterdir()}
    assert back == {n: f"of {n}" for n in ("manifest.json", "data-simulator.jsonl")}
