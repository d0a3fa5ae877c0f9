"""Bursts: the first tenth of every so many seconds."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidInput
from penstock_lab.workloads.bursts import bursts, check_every


def test_the_first_tenth_is_a_burst() -> None:
    found = bursts(np.array([0.0, 1.9, 2.0, 19.9, 20.0, 41.0, np.inf]), 20.0)
    assert found.hot.tolist() == [True, True, False, False, True, True, True]
    assert found.number.tolist() == [0, 0, 0, 0, 1, 2, 0]


def test_there_may_be_none() -> None:
    assert not bursts(np.array([0.0, 5.0, np.inf]), 0.0).hot.any()
    check_every(0.0)


@pytest.mark.parametrize("every", [-1.0, float("inf"), float("nan")])
def test_what_is_no_time_is_refused(every: float) -> None:
    with pytest.raises(InvalidInput, match="seconds apart"):
        check_every(every)
