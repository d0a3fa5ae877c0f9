"""Records that wait between two pipelines."""

from __future__ import annotations

import numpy as np

from penstock.engines.simulator.records import RecordQueue, Records


def some(*times: float) -> Records:
    return Records(np.array(times), {"c": 10 * np.array(times)})


def test_records_that_are_shipped_sooner_come_before_those_on_their_way() -> None:
    queue = RecordQueue()
    for records in (some(1.0, 2.0), some(3.0, 6.0), some(7.0, 8.0), some(4.0, 7.5), some()):
        queue.put(records)
    assert (len(queue), queue.came, queue.waiting(4.5)) == (8, 8, 4)
    taken = queue.take(4.5)
    assert taken.time.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert taken.births["c"].tolist() == [10.0, 20.0, 30.0, 40.0]
    assert queue.take(9.0).time.tolist() == [6.0, 7.0, 7.5, 8.0]
