"""Executors leave and come on a cluster, and the result is exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.engines.spark.flows import record

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.spark


def test_the_chosen_executor_leaves_and_state_is_spread_over_a_new_one(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.cluster", str(tmp_path / "run")]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # executors have to find the generator
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    first, second = found["start"]["executors"]
    assert found["start"]["plan"] == 2
    assert "there is no executor '77'" in found["unknown"]
    assert found["left"]["executors"] == [second]
    assert found["left"]["changes"] == [f"executors 2 -> 1, without {first}"]
    assert found["left"]["state"] == [second] * 4  # taken over
    (new,) = set(found["came"]["executors"]) - {second}
    assert Counter(found["came"]["state"]) == {second: 2, new: 2}
    assert found["counts"] == dict(Counter(record(i)["key"] for i in range(found["ingested"])))
