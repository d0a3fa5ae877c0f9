from __future__ import annotations

from pathlib import Path

import pytest

from .runs import simulate


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that is over."""
    return simulate(tmp_path_factory.mktemp("past") / "run")
