"""One Spark session for all tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# `make test` tries the same cases each time, so that it says the same of the same code.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)

# Tests start Spark many times, for moments: a JVM that compiles little is up soonest.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Four slots whatever the machine."""
    from penstock.engines.spark.session import session

    found = session("local[4]")
    yield found
    found.stop()
