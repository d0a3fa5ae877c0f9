"""What all tests share: one Spark session, repeatable chance, and which of them are large."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("penstock.testing.contract")

# `make test` tries the same cases each time, so that it says the same of the same code.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=50
)

# Tests start Spark many times, for moments: a JVM that compiles little is up soonest. Without room
# for what it compiles, which is small by default there, it would stop compiling after two minutes.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
)


TESTS = Path(__file__).parent
LARGE = (
    *("docs", "lab/experiments", "dashboard"),
    *("cli/test_calibrate.py", "cli/test_profile.py", "cli/test_dashboard.py"),
    *("cli/test_history.py", "cli/test_export.py", "cli/test_metrics.py"),
    *("cli/test_report.py", "cli/test_simulate.py"),
    *("store/test_history.py", "store/test_serialization.py"),
    *("predict/test_calibration.py", "predict/test_whatif.py"),
    *("policies/base/test_memory.py", "policies/joker/test_best_plan.py"),
    *("policies/joker/test_laws.py",),
    *("policies/shared/test_queueing_networks.py", "policies/nephele/test_closed_loops.py"),
    *("engines/simulator", "drawing/test_figures.py", "drawing/test_layout.py"),
    *("report/test_story.py", "lab/cli/test_experiment.py"),
    *("lab/workloads/test_rankings.py", "lab/workloads/test_finance.py"),
)
"""Tests of whole runs, pages and processes, beside those that carry the mark themselves."""


@cache
def _large(path: Path) -> bool:
    where = path.relative_to(TESTS) if path.is_relative_to(TESTS) else path
    return any(where.is_relative_to(one) for one in LARGE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the large tests where they are left out: that would take longest."""
    left_out = "not large" in config.option.markexpr and _large(collection_path)
    return left_out or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _large(item.path):
            item.add_marker("large")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Four slots and UTC, whatever the machine."""
    from penstock.engines.spark.session.flow_session import session

    found = session("local[4]", {"spark.sql.session.timeZone": "UTC"})
    yield found
    found.stop()
