"""What goes out of a pipeline, in order."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.engines.simulator.network import Leaving, emitted
from penstock.engines.simulator.records import Records


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("count", [300, 9000])
def test_records_go_out_in_order_each_as_often_as_it_is_to(most: int, count: int) -> None:
    rng = np.random.default_rng(count + most)
    times, births = rng.random((2, 2 * count))
    outputs = rng.integers(0, most, count, endpoint=True)
    leaving = [
        Leaving(Records(times[:count], {"a": births[:count]}), outputs),
        Leaving(Records(times[count:], {"a": births[count:]}), None),
    ]
    out = emitted(leaving, 0.9)
    often = [*outputs.tolist(), *[1] * count]
    expected = sorted(
        (time, birth)
        for time, birth, n in zip(times.tolist(), births.tolist(), often, strict=True)
        for _ in range(n if time <= 0.9 else 0)
    )
    assert list(zip(out.time.tolist(), out.births["a"].tolist(), strict=True)) == expected


def test_nothing_goes_out_of_nothing() -> None:
    assert not len(emitted([], 1.0))
