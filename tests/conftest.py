"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# `make test` tries the same cases each time, so that it says the same of the same code.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Four slots whatever the machine, and a small JVM."""
    from penstock.engines.spark.session import session

    small = "-Xss4m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    found = session("local[4]", {"spark.driver.extraJavaOptions": small})
    yield found
    found.stop()
