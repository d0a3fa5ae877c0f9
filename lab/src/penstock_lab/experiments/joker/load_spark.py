"""Joker's policy on Spark under loads that rise and fall, with operators that wait.

The rates of figure 11 are rows a second here, and an operator waits 2 ms, so that one instance does
a little less than the 500 of the paper's thread. Up and down: three such operators, at first fused
in one pipeline of one instance, of which four are needed at the peak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from penstock.dataflow.flow import Dataflow
from penstock.drawing.figures import Figure, Line, Panel
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.base.policy import Policy
from penstock_lab.experiments import reading, waiting
from penstock_lab.experiments.experiment import Case, Claim, Data, Read, Record
from penstock_lab.experiments.joker import common
from penstock_lab.experiments.play import SparkPlay

RATES = (40, 80, 160, 320, 640)
WAIT = 0.002
ONE = {"multiply-1": WAIT}
THREE = {f"multiply-{n}": WAIT for n in (1, 2, 3)}
UP_AND_DOWN = (60, 240, 480, 480, 120, 60)
PEAK = 4
"""Instances of the three operators, fused, for 480 rows a second of 6 ms: the fewest that do."""

SETTLE = 3.0


def cases(step: float, swing: float, profile: float, busy: Sequence[float]) -> Sequence[Case]:
    """step: seconds of a rate, and swing: the same up and down."""

    def play(waits: Mapping[str, float], policy: str | Policy, first: int = 1) -> SparkPlay:
        rates, each = (RATES, step) if waits is ONE else (UP_AND_DOWN, swing)
        build = partial(flow, f"steps:{','.join(map(str, rates))}@{each:g}s", waits)
        region = (*waits, waiting.sink([*waits][-1]))
        plan = Plan((Pipeline(("numbers",)), Pipeline(region, first)))
        return SparkPlay(build, len(rates) * each, policy, plan, drain=False)

    # threads of Spark are busy while batches follow one another, however few rows they have
    seed = replace(common.SEED, busy="rows", profile=profile, settle=SETTLE)
    seed = replace(seed, stateless=True, target=0.2)
    ours = replace(common.OURS, profile=profile, settle=SETTLE)
    return (
        *(Case(f"{b}", play(ONE, replace(seed, bottleneck=b))) for b in busy),
        Case("organic", play(ONE, ours)),
        Case("best static", play(ONE, "static", 2)),
        Case("up and down, organic", play(THREE, ours)),
        Case("up and down, best static", play(THREE, "static", PEAK)),
    )


def flow(load: str, waits: Mapping[str, float], out: Path) -> Dataflow:
    return waiting.flow("waiting-region", waiting.chain("numbers", waits), load)


# --- reading ------------------------------------------------------------------------------------


def threads(tick: Record) -> int:
    """Instances of all but the source."""
    return sum(int(one["instances"]) for n, one in tick["pipelines"].items() if n != "numbers")


def between(data: Data, since: int, until: int) -> list[int]:
    """The instances over time from one step to another, of those up and down."""
    step = float(data.parameters["swing"])
    ticks = reading.between(data.of("up and down, organic"), since * step, until * step)
    if not ticks:
        raise KeyError("up and down, organic")
    return [threads(t) for t in ticks]


def _most(data: Data) -> float:
    return float(max(between(data, 0, 5)))


def _first(data: Data) -> float:
    """At the end of the first step."""
    return float(between(data, 0, 1)[-1])


def _grown(data: Data) -> float:
    return _most(data) / _first(data)


def _given_back(data: Data) -> float:
    """Those at the end beside the most there were."""
    return between(data, 0, len(UP_AND_DOWN) + 1)[-1] / _most(data)


def _carried(case: str) -> Read:
    """The share of what came that has come through at the end."""

    def read(data: Data) -> float:
        last = data.of(case)[-1]
        return float(last["delivered"] / last["offered"])

    return read


def _hours(data: Data) -> float:
    cases = ("up and down, organic", "up and down, best static")
    own, other = (reading.task_hours(data, case) for case in cases)
    return own / other


def picture(data: Data) -> Figure:
    rising = [c for c in data.cases if not c.startswith("up and down")]
    swinging = [c for c in data.cases if c.startswith("up and down")]
    panels = []
    for name, cases, own in (
        ("one operator, doubled rates", rising, "organic"),
        ("three operators", swinging, "up and down, organic"),
    ):
        if not cases:
            continue
        marks = common.marks(data, own) if own in cases else ()
        marked = f"changes of {common.named('organic')}"
        times, offered = reading.rates(data, cases[0], 2.0, "offered")
        lines = [Line(_named(c), *reading.rates(data, c, 5.0), tone=n)
                 for n, c in enumerate(cases)]  # fmt: skip
        lines.append(Line("offered", times, offered, tone=6, faint=True))
        panels.append(Panel("time (s)", "rows/s", tuple(lines), marks=marks, title=name,
                            marked=marked))  # fmt: skip
        count = tuple(
            reading.line(data, c, threads, _named(c), style="step", tone=n)
            for n, c in enumerate(cases)
        )
        panels.append(Panel("time (s)", "instances", count, marks=marks, title=name,
                            marked=marked))  # fmt: skip
    return Figure("Loads that rise and fall", tuple(panels), columns=2,
                  note=common.note(data, "figure 11"))  # fmt: skip


def _named(case: str) -> str:
    way = case.removeprefix("up and down, ")
    return f"threshold {way}" if way[0].isdigit() else common.named(way)


CLAIMS = (
    Claim("up and down: most instances beside those of the first rate", None, _grown, "x",
          only="spark"),
    Claim("up and down: instances at the end beside the most", None, _given_back, only="spark"),
    Claim("up and down: share of the rows that has come through at the end", None,
          _carried("up and down, organic"), only="spark"),
    Claim("up and down: share of the rows that has come through at the end, best static plan", None,
          _carried("up and down, best static"), only="spark"),
    Claim("up and down: thread hours beside the best static plan", None, _hours, only="spark"),
)  # fmt: skip
