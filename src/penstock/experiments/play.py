"""A dataflow under a policy: what most cases of experiments are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.control.guard import Guard
from penstock.control.loop import Tick
from penstock.control.run import run
from penstock.control.script import Scripted
from penstock.control.status import Status
from penstock.dataflow.flow import Dataflow
from penstock.engines.simulator.scenario import Scenario
from penstock.experiments.experiment import Record, Setting
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.policy import Policy
from penstock.report.summary import Summary

FREE = Guard(cooldown=0.0, undo=0.0)
"""The seeds have no guard: their policies wait as long as they say themselves."""


@dataclass(frozen=True)
class Play:
    """A scenario on the simulator.

    plan: to start with, the scenario's if None; changes: what to change when, as in
    `60s:scale-out 1`; every: seconds between two records; options: of the engine. What is
    recorded: `tick`s, a `change` for each that was made, and one `summary`.
    """

    scenario: Scenario
    policy: str | Policy = "static"
    plan: Plan | None = None
    changes: tuple[str | Scripted, ...] = ()
    guard: Guard = FREE
    limits: Limits = field(default_factory=Limits)
    every: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, setting: Setting) -> Iterable[Record]:
        engine = self.scenario.engine(setting.seed, **self.options)
        watch = Watch(setting.tell, self.every)
        summary = run(
            self.scenario.graph,
            policy=self.policy,
            plan=self.plan or self.scenario.plan,
            engine=engine,
            seconds=self.scenario.seconds,
            changes=self.changes,
            guard=self.guard,
            limits=self.limits,
            run_dir=setting.scratch,
            view=watch,
            verify=False,
            clock=engine.clock,
        )
        return watch.all(summary)


@dataclass(frozen=True)
class SparkPlay:
    """A dataflow on Spark: `build` makes it, with its sinks under a directory.

    slots: tasks that run at a time, more than there are cores where operators wait.
    """

    build: Callable[[Path], Dataflow]
    seconds: float
    policy: str | Policy = "static"
    plan: Plan | None = None
    load: str | None = None
    changes: tuple[str | Scripted, ...] = ()
    guard: Guard = FREE
    limits: Limits = field(default_factory=Limits)
    slots: int = 16
    conf: Mapping[str, str] = field(default_factory=dict)
    every: float = 1.0

    def __call__(self, setting: Setting) -> Iterable[Record]:
        watch = Watch(setting.tell, self.every)
        summary = run(
            self.build(setting.scratch / "out"),
            policy=self.policy,
            plan=self.plan,
            master=f"local[{self.slots}]",
            conf=self.conf,
            load=self.load,
            seconds=self.seconds,
            changes=self.changes,
            guard=self.guard,
            limits=self.limits,
            run_dir=setting.scratch / "run",
            view=watch,
        )
        return watch.all(summary)


class Watch:
    """A view that keeps what experiments look at."""

    def __init__(self, tell: Callable[[float], None], every: float = 1.0) -> None:
        self._tell, self._every = tell, every
        self._last: Tick | None = None
        self._kept = -float("inf")
        self._records: list[Record] = []

    def show(self, status: Status) -> None:
        tick = status.tick
        if tick is None or tick is self._last or status.phase != "running":
            return
        self._last = tick
        if tick.at - self._kept >= self._every - 1e-6:
            self._kept = tick.at
            self._records.append(ticked(tick))
        if tick.transition is not None:
            self._records.append(changed(tick))
        if status.seconds:
            self._tell(min(1.0, status.elapsed / status.seconds))

    def close(self) -> None:
        """There is nothing to close."""

    def all(self, summary: Summary) -> list[Record]:
        """Everything, with the summary; a run that was ended early is no case."""
        if summary.interrupted:
            raise KeyboardInterrupt
        whole = replace(summary, run_dir="").to_json()
        return [*self._records, {"kind": "summary", **whole}]


def ticked(tick: Tick) -> Record:
    """One turn of the loop as a record."""
    seen = tick.snapshot
    return {
        "kind": "tick",
        "at": short(tick.at),
        "offered": seen.rows_offered,
        "ingested": seen.rows_ingested,
        "delivered": seen.rows_delivered,
        "throughput": short(seen.throughput),
        "load": short(seen.load),
        "executors": tick.plan.executors,
        "slots": tick.plan.slots,
        "pipelines": _pipelines(tick.plan, seen),
        "latency": {
            name: {"bound": one.bound, "mean": short(one.mean), "p95": short(one.p95)}
            for name, one in seen.latency.items()
        },
    }


def _pipelines(plan: Plan, seen: Snapshot) -> Mapping[str, Record]:
    found = {}
    for one in plan.pipelines:
        metrics = seen.pipelines.get(one.name, PipelineMetrics(one.name, one.parallelism))
        found[one.name] = {
            "instances": one.parallelism,
            "cadence": one.cadence,
            "busy": short(metrics.busy),
            "backlog": metrics.backlog_rows,
            "rate_in": short(metrics.rate_in),
        }
    return found


def changed(tick: Tick) -> Record:
    """A change that was made as a record."""
    assert tick.transition is not None
    made = tick.transition
    return {
        "kind": "change",
        "at": short(tick.at),
        "actions": list(made.changes),
        "seconds": short(made.duration),
        "interruption": short(made.interruption),
        "reason": made.reason,
    }


def short(value: float | None) -> float | None:
    """Six digits are enough for a table, and keep records small."""
    return None if value is None else float(f"{value:.6g}")
