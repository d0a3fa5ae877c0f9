"""What the contracts of import-linter in `pyproject.toml` cannot see: imports while it runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
WITHOUT_SPARK = (
    *(PACKAGE / part for part in ("dataflow", "plan", "metrics", "policies", "verify", "store")),
    PACKAGE / "control",
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


def test_the_parts_that_decide_do_not_load_spark() -> None:
    # One process for all: each name is checked as it comes, so the first to blame is named.
    command = [sys.executable, "-c", PROBE, *modules()]
    probe = subprocess.run(command, capture_output=True, text=True)
    assert probe.returncode == 0, probe.stderr
    assert "penstock.plan.plan" in command
    assert "penstock.engines.memory" in command
    assert "penstock.engines.simulator.engine" in command


def test_importing_penstock_loads_no_library() -> None:
    """Its names are loaded when they are first used."""
    program = "import sys, penstock; print(*sorted(n.split('.')[0] for n in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(loaded).isdisjoint({"numpy", "pandas", "pyarrow", "pyspark", "rich", "matplotlib"})


def test_the_drawing_of_the_layers_is_the_one_that_is_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    checked = [set(re.findall(r"[a-z_]+", one)) for one in settings["contracts"][0]["layers"]]
    page = (ROOT / "CONTRIBUTING.md").read_text()
    drawing = page.split("A package imports only packages below it")[1].split("\nimport-linter")[0]
    lines = [re.split(r"\s{4,}", line.strip())[0] for line in drawing.splitlines()[1:]]
    drawn = [set(re.findall(r"[a-z_]+", line)) for line in lines]
    layers = [layer for layer in drawn if layer][1:]
    assert len(layers) == len(checked)
    for shown, layer in zip(layers, checked, strict=True):
        assert layer <= shown
