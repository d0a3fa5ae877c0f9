"""Back pressure: how much each pipeline may take in a step so that no queue runs over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from penstock.engines.simulator.continuous import Stage


def limits(
    stages: Sequence[Stage],
    readers: Mapping[str, Sequence[str]],
    begin: float,
    end: float,
) -> dict[str, int | None]:
    """The most records that each pipeline may take from `begin` to `end`; None for no limit.

    stages: each after those that feed it; readers: the pipelines that read a pipeline. Seen from
    the sinks to the sources: a pipeline has room for what it can process in the step and what
    fits into its queue, without what waits there; what it may take is what fits into the rooms
    behind it. Those that write to the same pipeline share its room as they did in the last step.
    So a full queue holds back what feeds it, and in the end the source. It is as fine as the step:
    a queue can run over by what one step brings.
    """
    by_name = {stage.pipeline.name: stage for stage in stages}
    most: dict[str, float] = {}
    room: dict[str, float] = {}
    for stage in reversed(stages):
        name = stage.pipeline.name
        gain = max(stage.work.gain[i.entry] for i in stage.ways)
        tail = stage.work.tail
        behind = min((room[r] * by_name[r].share(tail) for r in readers[name]), default=math.inf)
        most[name] = math.inf if gain == 0 else max(0.0, behind) / gain
        own = stage.room(begin, end)
        fits = math.inf if stage.bound is None else float(stage.bound * stage.instances)
        if stage.pipeline.admission == 0 and not stage.draining:
            own = fits
        room[name] = min(own, fits + most[name]) - stage.held_back(end)
        if stage.takes_ahead:
            most[name] = min(most[name], max(own, 0.0))
    return {name: None if m == math.inf else math.floor(m) for name, m in most.items()}
