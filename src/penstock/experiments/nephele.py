"""What Nephele's experiments have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.control.context import Context
from penstock.experiments.experiment import Data
from penstock.models.topology import Topology
from penstock.plan.decision import Decision

PAPER = "Nephele: elastic stream processing with latency guarantees"

HELD = 3
"""Numbers that a buffer of 16 KiB holds. In the seed's figure 3 they are almost 3 s on their way
while 10,000 a second go over 50 times 200 channels: a number a second on each, and buffers on
both sides of the tester in which a number waits half the time that they take to fill."""


@dataclass(frozen=True)
class Buffers:
    """Instances stay; a channel ships when its buffer holds so many rows, however long it takes.

    A pipeline has a channel to each instance from each instance before it, so its cadence is the
    time in which one of these is filled.
    """

    rows: float = HELD

    name: ClassVar[str] = "buffers"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        seen = context.latest
        if seen is None:
            return Decision(None, "nothing measured yet"), memory
        topology, pipelines = Topology(context.graph, context.plan), []
        for one in context.plan.pipelines:
            before = sum(topology.pipelines[up].parallelism for up in topology.upstream[one.name])
            rate = seen.pipelines[one.name].arrival_rate
            wanted = self.rows * before * one.parallelism / rate if before and rate else one.cadence
            moved = abs(wanted - one.cadence) > 0.1 * wanted
            pipelines.append(replace(one, cadence=wanted) if moved else one)
        plan = replace(context.plan, pipelines=tuple(pipelines))
        return Decision(plan, f"a buffer holds {self.rows:g} rows"), memory


def note(data: Data, figure: str) -> str:
    """The line below a picture."""
    where = "simulated" if data.engine == "simulator" else "on Spark"
    return f"{where}, seed {data.seed}; after Nephele, {figure}"
