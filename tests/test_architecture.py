"""The parts that must not know Spark do not import it, not even through something else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "penstock"
WITHOUT_SPARK = (
    *(PACKAGE / part for part in ("dataflow", "plan", "metrics", "models", "policies", "control")),
    PACKAGE / "engines" / "port.py",
    PACKAGE / "engines" / "memory.py",
    PACKAGE / "engines" / "simulator",
)

PROBE = """
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
    if {"pyspark", "py4j"} & set(sys.modules):
        sys.exit(f"{module} imports Spark")
"""


def modules() -> list[str]:
    files = [f for part in WITHOUT_SPARK for f in (sorted(part.rglob("*.py")) or [part])]
    dotted = (".".join(f.relative_to(PACKAGE.parent).with_suffix("").parts) for f in files)
    return [name.removesuffix(".__init__") for name in dotted]


def test_the_parts_that_decide_do_not_import_spark() -> None:
    # one process for all: each name is checked as it comes, so the first to blame is named
    command = [sys.executable, "-c", PROBE, *modules()]
    probe = subprocess.run(command, capture_output=True, text=True)
    assert probe.returncode == 0, probe.stderr
    assert "penstock.plan.plan" in command
    assert "penstock.engines.memory" in command
    assert "penstock.engines.simulator.engine" in command


BELOW = {
    "dataflow": {"dataflow", "errors", "shown", "models"},
    "metrics": {"metrics", "shown"},
    "plan": {"plan", "dataflow", "errors", "shown"},
}


@pytest.mark.parametrize("part", BELOW)
def test_what_is_below_imports_nothing_from_above(part: str) -> None:
    found = {
        node.module.split(".")[1]
        for file in (PACKAGE / part).rglob("*.py")
        for node in ast.parse(file.read_text()).body  # what is loaded with the module
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock.")
        if node.module
    }
    assert found <= BELOW[part]


def test_the_values_know_nothing_of_how_they_are_shown() -> None:
    imported = [n for n in ast.walk(ast.parse((PACKAGE / "shown.py").read_text()))
                if isinstance(n, ast.ImportFrom)]  # fmt: skip
    assert {n.module for n in imported} == {"__future__", "importlib"}
