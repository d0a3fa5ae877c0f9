"""What the bottleneck policies read from a snapshot."""

from __future__ import annotations

import pytest

from penstock.policies.shared.bottlenecks import PipelineReading, Readings


def waiting(*seconds: float | None) -> Readings:
    pipelines = {f"p{at}": PipelineReading(rate=1.0, waiting=w) for at, w in enumerate(seconds)}
    return Readings(0.0, 1.0, pipelines, {})


@pytest.mark.parametrize(
    ("backlogs", "behind"),
    [
        ((2.0, 3.1), True),
        ((2.0, 3.0), False),  # exactly as long as allowed
        ((None, 3.1), True),
        ((None, 3.0), None),
        ((None, None), None),
        ((), None),
    ],
)
def test_a_flow_is_behind_with_a_longer_backlog_and_unknown_if_one_is_not_measured(
    backlogs: tuple[float | None, ...], behind: bool | None
) -> None:
    assert waiting(*backlogs).behind(3.0) is behind
