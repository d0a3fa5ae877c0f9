"""A small experiment of our own: what the framework is tested with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.drawing.figures import Figure, Level, Panel
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.rivals import scaled
from penstock_lab.experiments.scenario import prime_tester


def cases(step: float, rate: int) -> Sequence[Case]:
    scenario = prime_tester(step=step, rates=(rate, 2 * rate), ends=2, nodes=4)
    few = replace(scenario, plan=scaled(scenario.plan, {"test": 4}))
    return (Case("latency", Play(few, "latency")), Case("static", Play(few)))


def instances(tick: Any) -> float:
    return float(tick["pipelines"]["test"]["instances"])


def picture(data: Data) -> Figure:
    lines = tuple(reading.line(data, case, instances, style="step") for case in data.cases)
    marks = reading.marks(data, "latency", "test")
    panel = Panel("time (s)", "testers", lines, marks=marks, levels=(Level(4, "few"),))
    return Figure("made up", (panel,))


MADE_UP = Experiment(
    "made-up",
    "A few testers",
    "Nobody",
    "figure 0",
    cases,
    (
        Claim("met beside static", 2.0, lambda d: _met(d, "latency") / _met(d, "static"), "", 1.0),
        Claim("task hours", None, lambda d: reading.task_hours(d, "latency")),
        Claim("of a case that is not there", 1.0, lambda d: _met(d, "nobody")),
    ),
    picture,
    size={"step": 20.0, "rate": 1000},
    quick={"step": 10.0},
    no_spark="it is made up",
)


def _met(data: Data, case: str) -> float:
    return (reading.met(data, case) or 0.0) + 0.01
