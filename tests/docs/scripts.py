"""The scripts that make the documentation, as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from .blocks import ROOT


def script(name: str) -> ModuleType:
    """One of them."""
    if (home := str(ROOT / "scripts" / "docs")) not in sys.path:
        sys.path.append(home)  # they import each other, as they do when they are run
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
