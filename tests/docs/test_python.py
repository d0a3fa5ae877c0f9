"""The Python of the README and the documentation is run, page by page, block after block."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .blocks import ALL, ROOT, titled

PYTHON = [block for block in ALL if block.language == "python"]
PAGES = sorted({block.page for block in PYTHON if not block.spark})


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("page")  # dataclasses look for the module they are in
    monkeypatch.setitem(sys.modules, "page", module)
    names = module.__dict__
    for block in PYTHON:
        if block.page == page and not block.spark:
            exec(compile("\n" * block.line + block.text, str(ROOT / page), "exec"), names)


def test_every_block_of_python_is_run_or_marked_for_spark() -> None:
    for block in PYTHON:
        ast.parse(block.text)
        assert block.test in ("", "spark")


def test_the_flow_of_the_readme_is_that_of_the_tutorial() -> None:
    first, second = (b for b in ALL if b.title == "words.py")
    assert first.text == second.text


def test_the_example_of_a_policy_is_the_one_that_can_be_installed() -> None:
    home = ROOT / "examples" / "policy"
    assert titled("penstock_backlog.py").text == (home / "penstock_backlog.py").read_text()
    assert titled("pyproject.toml").text == (home / "pyproject.toml").read_text()
