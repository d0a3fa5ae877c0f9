"""Joker's figure 5 on Spark: three operators that wait, and the best of a few static plans.

A row waits 5 ms in each operator, and more rows come than are ever carried, so that every slot is
busy. Spark's channels hold so much that a source is never held back: what comes through is what the
last pipeline takes in, by its own measure over whole batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from penstock import workloads
from penstock.dataflow.flow import Dataflow
from penstock.policies.base.policy import Policy
from penstock.policies.joker.policy import Organic
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Data, Record, Setting
from penstock_lab.experiments.joker import common
from penstock_lab.experiments.play import SparkPlay
from penstock_lab.experiments.rivals import scaled

STEPS = ("step-1", "step-2", "step-3")

SLOTS = 16

GRID = ((1, SLOTS - 1), (1, 2 * SLOTS // 3), (3, (SLOTS - 1) // 3))
"""Pipelines, and instances of each: all slots but that of the source, whole or cut, and fewer, as
the tasks share two cores."""

LAST = 12.0
"""Seconds at the end over which a rate is read."""

SLOTS_ALIKE = (
    "where operators only wait, a cut and a replica are worth the same, a slot, and all ways have "
    "the same 16 of them"
)

NOTE = (
    "On Spark the best static plan is the best of three that were tried: all 15 slots for one "
    "pipeline, 10 for one, and 5 for each of three."
)


def policy(order: str, profile: float) -> Organic:
    return Organic(order=order, profile=profile, sources=False, scale_down=False)


def play(
    seconds: float,
    load: str,
    policy: str | Policy = "static",
    pipelines: int = 1,
    instances: int = 1,
) -> SparkPlay:
    """The three operators in one pipeline or in three, at first one of one instance."""

    def build(out: Path) -> Dataflow:
        return workloads.build("linear", out, cost="wait", load=load, wait_ms=5)

    groups = [STEPS] if pipelines == 1 else [(step,) for step in STEPS]
    plan = common.fused(build(Path()).graph, *groups)
    heads = {group[0]: instances for group in groups}
    return SparkPlay(build, seconds, policy, scaled(plan, heads), slots=SLOTS, drain=False)


def best(seconds: float, load: str) -> BestOf:
    """The static plan that carries most, each of them tried for so long."""
    return BestOf(tuple(play(seconds, load, "static", *size) for size in GRID))


@dataclass(frozen=True)
class BestOf:
    """Several plays one after the other, of which the one that carries most is kept."""

    plays: tuple[SparkPlay, ...]

    def __call__(self, setting: Setting) -> Sequence[Record]:
        found = []
        for number, one in enumerate(self.plays):
            scratch = setting.scratch / str(number)
            scratch.mkdir(parents=True)

            def tell(share: float, number: int = number) -> None:
                setting.tell((number + share) / len(self.plays))

            found.append(tuple(one(replace(setting, scratch=scratch, tell=tell))))
        return max(found, key=lambda records: rate([r for r in records if r["kind"] == "tick"]))


# --- reading ------------------------------------------------------------------------------------


def carried(tick: Record) -> float | None:
    """Rows a second that the last pipeline takes in."""
    last = next(name for name in reversed(STEPS) if name in tick["pipelines"])
    found = tick["pipelines"][last]["rate_in"]
    return None if found is None else float(found)


def rate(ticks: Sequence[Record], last: float = LAST) -> float:
    """Rows a second in the last windows that could be measured, 0 if none could."""
    known = [(float(t["at"]), found) for t in ticks if (found := carried(t)) is not None]
    return fmean([found for at, found in known if at >= known[-1][0] - last] or [0.0])


def after(data: Data, case: str) -> float:
    """Raises `KeyError` where nothing was measured."""
    found = rate(data.of(case))
    if not found:
        raise KeyError(f"{case} was not measured")
    return found


def before(data: Data, case: str) -> float:
    """Rows a second before the first change. Raises `KeyError` where nothing was measured."""
    first = next((c["at"] for c in data.of(case, "change")), data.of(case)[-1]["at"])
    known = [carried(t) for t in reading.between(data.of(case), 0.0, min(first, 40.0))]
    found = [k for k in known if k]
    if not found:
        raise KeyError(f"{case} was not measured before its first change")
    return fmean(found[len(found) // 2 :])
