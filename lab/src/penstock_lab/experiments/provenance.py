"""Provenance of a result: commit, machine and digest of the code."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock_lab.experiments import code
from penstock_lab.experiments.experiment import EngineName, Experiment


def of(experiment: Experiment, engine: EngineName) -> dict[str, Any]:
    """Provenance for the manifest of a run that starts now."""
    return {"commit": commit(), "machine": machine(), "code": code.digest(experiment, engine)}


def commit(home: Path = Path(__file__).parent) -> str | None:
    """Commit of the sources, `0a1b2c3d4e5f+changes` if they were edited, None outside git."""
    try:
        head = _git(home, "rev-parse", "--short=12", "HEAD").strip()
        changed = _git(home, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head}+changes" if changed else head


def _git(home: Path, *words: str) -> str:
    made = subprocess.run(["git", "-C", str(home), *words], capture_output=True, check=True)
    return made.stdout.decode()


def machine() -> dict[str, Any]:
    """Cores, memory in GiB and versions; nothing that identifies the machine."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages * size / 2**30, 1),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "spark": version("pyspark"),
    }
