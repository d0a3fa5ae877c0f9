"""One seed of the torture; `make torture` runs as many as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture import torture

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("seed", "cluster"), [(3, False)])
def test_a_flow_changed_and_killed_at_random_instants_ends_exact(
    seed: int, cluster: bool, tmp_path: Path
) -> None:
    torture(seed, tmp_path, cluster, kills=1)
