"""What all tests share: one Spark session, repeatable chance, and which of them are large."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


LARGE = (
    *("docs", "lab/experiments", "dashboard"),
    *("cli/test_calibrating.py", "cli/test_profiling.py", "cli/test_showing.py"),
    *("cli/test_recalling.py", "cli/test_simulating.py"),
    *("control/test_history.py", "control/test_plain.py", "control/test_whatif.py"),
    *("models/test_jackson.py", "policies/test_organic_best.py"),
    *("policies/test_organic_giving.py", "policies/test_organic_laws.py"),
    *("engines/simulator", "report/test_figures.py", "report/test_layout.py"),
    *("report/test_story.py", "lab/cli/test_experiment.py"),
    *("lab/workloads/test_rankings.py", "lab/workloads/test_finance.py"),
)
"""Tests of whole runs, pages and processes, beside those that carry the mark themselves."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        where = item.path.relative_to(Path(__file__).parent)
        if any(where.is_relative_to(one) for one in LARGE):
            item.add_marker("large")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Four slots and UTC, whatever the machine."""
    from penstock.engines.spark.session.flow_session import session

    found = session("local[4]", {"spark.sql.session.timeZone": "UTC"})
    yield found
    found.stop()
