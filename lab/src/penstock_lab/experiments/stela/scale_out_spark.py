"""Stela's scale-out on Spark: star and chain of components that wait.

Everything has one instance at first, and two more are given out at a time. A machine more would be
no more slots here, so what the default scheduler does, the same instances on more machines, is what
is carried before. One draw has to do: one component takes 60 ms a row, the others 20 to 40 ms. The
best static plan is that of all deals which carries most by these times.

Batches are up to 5 s long, so rates are those that pipelines have measured over whole batches.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from penstock.drawing.figures import Bars, Figure, Line, Mark, Panel
from penstock.plan.decision import Decision
from penstock.policies.base.policy import Context
from penstock.policies.shared import scaling
from penstock.policies.shared.rates import NotMeasured
from penstock.policies.stela import policy, slots, strategies
from penstock.policies.stela.slots import Choice
from penstock_lab.experiments import reading, waiting
from penstock_lab.experiments.experiment import Case, Claim, Data, Read, Record, Setting
from penstock_lab.experiments.play import SparkPlay
from penstock_lab.experiments.rivals import best_static, scaled
from penstock_lab.experiments.stela.common import Once
from penstock_lab.experiments.stela.layout import Layout
from penstock_lab.experiments.stela.topologies import CHAIN, STAR
from penstock_lab.experiments.waiting import Part

BEFORE = (
    "On Spark two more instances come instead of a machine. The default scheduler gives nobody "
    "one, so that it stands for what is carried before."
)

LAYOUTS = tuple(replace(one, tasks=4, executors=1) for one in (STAR, CHAIN))
SLOW, FAST = 0.06, (0.02, 0.04)

CHOICES: Mapping[str, Choice] = {
    "stela": policy.by_etp,
    "least link load": strategies.by(strategies.least_link_load),
}
WAYS = (*CHOICES, "best static")


def cases(at: float, seconds: float, more: int) -> Sequence[Case]:
    return tuple(
        Case(f"{layout.name}, {way}", Draw(layout, way, at, seconds, more))
        for layout in LAYOUTS
        for way in WAYS
    )


@dataclass(frozen=True)
class Draw:
    """A topology that gets so many more instances at a time, dealt in one of the ways."""

    layout: Layout
    way: str
    at: float
    seconds: float
    more: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        return tuple(self.play(setting.seed)(setting))

    def play(self, seed: int) -> SparkPlay:
        times = drawn(self.layout, seed)
        parts = [Part(n, up, times.get(n, 0.0)) for n, up in self.layout.inputs.items()]
        load, most = f"{self.layout.offered(times):.3f}/s", self.layout.tasks

        def choose(context: Context) -> Decision:
            if self.way == "best static":
                return Decision(scaled(context.plan, self.best(times)), "found by search")
            return given(context, self.more, CHOICES[self.way])

        return SparkPlay(
            lambda out: waiting.flow(self.layout.name, parts, load, most, most),
            self.seconds,
            Once(self.way.replace(" ", "-"), self.at, choose),
            waiting.plan(parts),
            drain=False,
        )

    def best(self, times: Mapping[str, float]) -> dict[str, int]:
        return best_static(
            {name: range(1, self.layout.tasks + 1) for name in times},
            lambda instances: self.layout.throughput(times, instances),
            allowed=lambda instances: sum(instances.values()) <= len(times) + self.more,
        )


def drawn(layout: Layout, seed: int) -> dict[str, float]:
    """Seconds of a row for every component but the sources."""
    rng = random.Random(f"{layout.name} {seed} on Spark")
    names = [n for n in layout.inputs if n not in layout.sources]
    times = {name: rng.uniform(*FAST) for name in names}
    return {**times, rng.choice(names): SLOW}


def given(context: Context, more: int, choose: Choice) -> Decision:
    """So many more instances, to whom a choice says; no more executors."""
    try:
        start = slots.measured(context)
    except NotMeasured as why:
        return Decision(None, str(why))
    end = slots.allocate(start, more, choose)
    plan = scaling.with_instances(context.plan, {name: end.instances(name) for name in end.given})
    said = f"{more} more instances: {slots.describe(start, end)}"
    return Decision(plan, said, slots.numbers(start, end))


# --- reading ------------------------------------------------------------------------------------


def carried(tick: Record, sinks: Sequence[str]) -> float:
    """Rows per second of the components before the sinks, over whole batches."""
    return float(sum(tick["pipelines"][name]["rate_in"] or 0.0 for name in sinks))


def rate(data: Data, layout: Layout, way: str, after: bool) -> float:
    """Rows per second in the last 15 s before the change, or in the last 25 s of the run."""
    ticks = data.of(f"{layout.name}, {way}")
    at, end = float(data.parameters["at"]), float(ticks[-1]["at"])
    changes = [float(c["at"]) for c in data.of(f"{layout.name}, {way}", "change")]
    if not changes:
        raise KeyError(f"{layout.name}, {way} was never scaled")
    since, until = (end - 25, end) if after else (at - 15, min(changes))
    found = reading.between(ticks, since, until)
    if not found:
        raise KeyError(f"{layout.name}, {way} from {since} to {until}")
    return fmean(carried(t, layout.sinks) for t in found)


def tried(data: Data, layout: Layout) -> tuple[str, ...]:
    return tuple(way for way in WAYS if f"{layout.name}, {way}" in data.cases)


def gain(layout: Layout, way: str, other: str | None = None) -> Read:
    """Final throughput relative to another way, or to the throughput before the change."""

    def read(data: Data) -> float | None:
        mine = rate(data, layout, way, True)
        if other is not None:
            base = rate(data, layout, other, True)
        else:
            base = fmean(rate(data, layout, w, False) for w in tried(data, layout))
        return mine / base if base else None

    return read


def picture(data: Data) -> Figure:
    panels = []
    for layout in LAYOUTS:
        lines = tuple(_line(data, layout, w, WAYS.index(w)) for w in tried(data, layout))
        marks = (Mark(float(data.parameters["at"]), f"{data.parameters['more']} more"),)
        panels.append(Panel("time (s)", "rows/s", lines, marks=marks, title=layout.name))
    bars = tuple(Bars(way, tuple(_known(gain(one, way), data) for one in LAYOUTS)) for way in WAYS)
    names = tuple(one.name for one in LAYOUTS)
    panels.append(Panel("topology", "after / before", categories=names, bars=bars))
    note = f"on Spark, random seed {data.seed}; after Stela, figure 4"
    return Figure("Two more instances", tuple(panels), columns=2, note=note)


def _line(data: Data, layout: Layout, way: str, tone: int) -> Line:
    case = f"{layout.name}, {way}"
    return reading.line(data, case, lambda t: carried(t, layout.sinks), way, tone=tone)


def _known(read: Read, data: Data) -> float | None:
    try:
        return read(data)
    except KeyError:
        return None


_SIZES = {"star": 1.65, "linear": 1.45}

CLAIMS = (
    *(
        Claim(f"{one.name} of waiting components: Stela beside the default scheduler",
              _SIZES[one.name], gain(one, "stela"), "", 1.0, only="spark")
        for one in LAYOUTS
    ),
    *(
        Claim(f"{one.name} of waiting components: Stela beside {other}", None,
              gain(one, "stela", other), only="spark")
        for one in LAYOUTS
        for other in WAYS[1:]
    ),
)  # fmt: skip
