"""TwitterSentiment on Spark: tasks that wait, a burst, and two constraints of seconds.

A tweet takes 12 ms to count its topics and 12 ms to filter; of five one goes on, and its mood takes
60 ms. The load rises, bursts for ten seconds and falls. The bounds are those of a system that works
in batches. Static plans with as many tasks of each vertex as of any other are all tried that carry
the burst within the slots, and the best is the smallest of them that meets both bounds as often as
the paper's policy met its own, or else the one that does most often.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from penstock.control.guard import Guard
from penstock.dataflow.flow import Dataflow
from penstock.drawing.figures import Figure, Level, Line, Panel
from penstock.plan.limits import Limits
from penstock_lab.experiments import reading, waiting
from penstock_lab.experiments.experiment import Case, Claim, Data, Read, Record
from penstock_lab.experiments.play import SparkPlay
from penstock_lab.experiments.waiting import Part

PARTS = (
    Part("tweets"),
    Part("hot-topics", ("tweets",), 0.012),
    Part("filter", ("hot-topics",), 0.012, one_of=5),
    Part("sentiment", ("filter",), 0.06),
)
ELASTIC = ("hot-topics", "filter", "sentiment")
TOPICS, MOOD = "hot-topics->filter", "filter->sentiment"
SLOTS = 16
SHARE = 0.91


def cases(rate: int, bound: str, seconds: float, tasks: Sequence[int]) -> Sequence[Case]:
    def play(policy: str, each: int) -> SparkPlay:
        plan = waiting.plan(PARTS, dict.fromkeys(ELASTIC, each))
        guard, limits = Guard(), Limits(slots=SLOTS, executors=1)
        flow = partial(build, load(rate, seconds), bound)
        return SparkPlay(flow, seconds, policy, plan, guard=guard, limits=limits, slots=SLOTS,
                         drain=False)  # fmt: skip

    still = (Case(_static(each), play("static", each)) for each in tasks)
    return (Case("latency", play("latency", min(tasks))), *still)


def _static(each: int) -> str:
    return f"static, {each} of each"


def load(rate: int, seconds: float) -> str:
    """A quarter of the rate, then two thirds, all of it for ten seconds, and half."""
    low, high, last = rate / 4, 2 * rate / 3, rate / 2
    times = (0.0, 0.25, 0.5, 0.6)
    rates = (low, low, high, high)
    before = [f"{t * seconds:g}={r:g}" for t, r in zip(times, rates, strict=True)]
    burst = 0.6 * seconds
    after = (f"{burst + 0.001:g}={rate}", f"{burst + 10:g}={rate}",
             f"{burst + 10.001:g}={last:g}", f"{seconds:g}={last:g}")  # fmt: skip
    return "points:" + ",".join((*before, *after))


def build(load: str, bound: str, out: Path) -> Dataflow:
    flow = waiting.flow("waiting-sentiment", PARTS, load)
    flow.constrain("hot-topics", "filter", latency=bound, window=5.0)
    flow.constrain("filter", "sentiment", latency=bound, window=5.0)
    return flow


# --- reading ------------------------------------------------------------------------------------


def both(data: Data, case: str) -> float:
    """The share of looks in which the means of both constraints kept to their bounds."""
    seen = [t["latency"] for t in data.of(case) if len(t["latency"]) == 2]
    if not seen:
        raise KeyError(f"{case} has no latencies")
    met = [all(one["mean"] <= one["bound"] for one in found.values()) for found in seen]
    return sum(met) / len(met)


def best(data: Data) -> str:
    """The static case with the fewest tasks that meets both often enough."""
    still = [c for c in map(_static, data.parameters["tasks"]) if c in data.cases]
    if not still:
        raise KeyError("no static plan")
    enough = [c for c in still if both(data, c) >= SHARE]
    return enough[0] if enough else max(still, key=lambda case: both(data, case))


def _beside(data: Data) -> float:
    return reading.task_hours(data, "latency") / reading.task_hours(data, best(data))


def _met(constraint: str) -> Read:
    return lambda data: reading.met(data, "latency", constraint)


def picture(data: Data) -> Figure:
    times, offered = reading.rates(data, "latency", 2.0, "offered")
    panels = [Panel("time (s)", "tweets/s", (Line("tweets", times, offered, tone=6),))]
    for name in (TOPICS, MOOD):

        def mean(tick: Record, name: str = name) -> float:
            return float(tick["latency"][name]["mean"])

        lines = tuple(reading.line(data, c, mean, c, tone=n) for n, c in enumerate(data.cases))
        bounds = [t["latency"][name]["bound"] for t in data.of("latency") if name in t["latency"]]
        levels = tuple(Level(b, f"{b:g} s") for b in bounds[:1])
        title = name.replace("->", " to ")
        panels.append(Panel("time (s)", "latency (s)", lines, levels=levels, title=title, log=True))
    tasks = tuple(_tasks(data, name) for name in ELASTIC)
    marks = reading.marks(data, "latency")
    panels.append(Panel("time (s)", "tasks", tasks, marks=marks, title="the policy latency",
                        marked="its changes"))  # fmt: skip
    note = f"on Spark, random seed {data.seed}; after Nephele, figure 8"
    return Figure("TwitterSentiment under two constraints", tuple(panels), note=note)


def _tasks(data: Data, name: str) -> Line:
    def read(tick: Record) -> float:
        return float(tick["pipelines"][name]["instances"])

    return reading.line(data, "latency", read, name, style="step")


_FIRST = (
    "the policy's case ran first, on a JVM that was still slow: in the first ten seconds topics "
    "took 4 to 5 s under it, and 2 s under a static plan with the same tasks at the same rate that "
    "ran later. The policy took that for load, gave 9 tasks to topics and took one from moods, and "
    "nearly all that it missed is before 30 s. So it says more of the order than of the policy"
)

CLAIMS = (
    Claim("waiting tasks: share of intervals that meet the bound of the topics", 0.93,
          _met(TOPICS), ideal=1.0, only="spark", on_spark=_FIRST),
    Claim("waiting tasks: share of intervals that meet the bound of the moods", 0.96,
          _met(MOOD), ideal=1.0, only="spark", on_spark=_FIRST),
    Claim("waiting tasks: share of looks at which both are met", None,
          lambda data: both(data, "latency"), only="spark"),
    Claim("waiting tasks: share of looks at which both are met, best static plan", None,
          lambda data: both(data, best(data)), only="spark"),
    Claim("waiting tasks: tasks of each vertex in the best static plan", None,
          lambda data: float(best(data).split()[1]), only="spark"),
    Claim("waiting tasks: task hours beside the best static plan", None, _beside, only="spark"),
)  # fmt: skip
