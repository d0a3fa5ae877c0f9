"""A run made up from numbers, for tests of views; `python -m tests.views.statuses` plays it."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

from penstock.control.status import Status
from penstock.control.summary import LatencySummary, Summary
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import LatencyMetrics, PipelineMetrics, Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.plan.transition import Transition
from penstock.store.turn import Tick


def graph() -> Graph:
    flow = Dataflow("wordcount")
    tweets = flow.source("tweets", Generator(lambda rng, index, at: {}, "value string"))
    words = tweets.frame("parse", lambda df: df).frame("split", lambda df: df)
    words.key_by("word").aggregate("count", n="count(*)").sink("counts", Discard())
    flow.constrain("parse", "count", latency="3s")
    return flow.graph


PLAN = Plan((Pipeline(("tweets", "parse", "split"), 2), Pipeline(("count", "counts"), 4)))


def snapshot(second: float) -> Snapshot:
    """Load goes up and down; in the second half the count falls behind."""
    rate = 5000 + 4000 * math.sin(second / 9)
    rows = int(5000 * second - 36000 * (math.cos(second / 9) - 1))
    slow = second > 30
    mean = 4.21 if slow else 0.84
    return Snapshot(
        at=second,
        window=5.0,
        rows_offered=rows,
        rows_ingested=rows if not slow else int(rows * 0.93),
        rows_delivered=7 * rows,
        rows_dead=rows // 200,
        pipelines={
            "tweets": PipelineMetrics(
                "tweets",
                2,
                batches=4,
                rate_in=rate,
                rate_out=7 * rate,
                batch_seconds=0.41,
                busy=min(1.0, rate / 12000),
            ),
            "count": PipelineMetrics(
                "count",
                4,
                batches=3,
                rate_in=7 * rate,
                rate_out=3 * rate,
                batch_seconds=1.32,
                busy=0.97 if slow else 0.74,
                backlog_rows=1_250_000 if slow else 812,
            ),
        },
        latency={"parse->count": LatencyMetrics("parse->count", 3.0, mean, 0.7, 3.9, 4.4, 1000)},
        source_pipelines=frozenset({"tweets"}),
    )


def status(second: float, phase: str = "running", transition: Transition | None = None) -> Status:
    decision = Decision(None, "static keeps its plan")
    tick = Tick(second, PLAN, snapshot(second), decision, transition)
    return Status(
        graph=graph(),
        engine="spark",
        policy="static",
        phase=phase,
        elapsed=second,
        seconds=60.0,
        run_dir=Path("runs/wordcount-20250102-030405"),
        plan=PLAN,
        tick=tick,
    )


def first() -> Status:
    """Before anything was measured."""
    path = Path("runs/wordcount-20250102-030405")
    return Status(graph(), "spark", "static", "starting", 0.0, 60.0, path)


TRANSITION = Transition(
    at=20.0,
    changes=("count: parallelism 2 -> 4",),
    duration=1.32,
    interruption=0.31,
    reason="predicted wait 4.1 s is above the bound of 3 s",
)


def summary(exact: bool | None = True) -> Summary:
    return Summary(
        flow="wordcount",
        engine="spark",
        policy="static",
        seconds=61.4,
        rows_offered=300_000,
        rows_ingested=300_000,
        rows_delivered=2_100_000,
        rows_dead=1_500,
        throughput_mean=4886.0,
        throughput_last=5012.3,
        slot_seconds=368.4,
        plan=PLAN,
        run_dir="runs/wordcount-20250102-030405",
        latency={"parse->count": LatencySummary(3.0, 0.842, 0.7, 1.9, 2.4, 0.9834)},
        transitions=(TRANSITION,),
        exact=exact,
        exact_reason="" if exact else "counts: 3998 rows where 4000 were expected",
    )


def play(speed: float) -> None:
    from rich.console import Console

    from penstock.views.live import LiveView
    from penstock.views.summary_table import summary_table

    console = Console()
    view = LiveView(console)
    view.show(first())
    time.sleep(1)
    for second in range(1, 61):
        view.show(status(second, transition=TRANSITION if second == 20 else None))
        time.sleep(1 / speed)
    view.show(status(61, "draining"))
    time.sleep(2)
    view.close()
    console.print(summary_table(summary()))


if __name__ == "__main__":
    play(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
