"""A dataflow under a policy, on the simulator or on Spark, and the records of its run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock import policies
from penstock.app import run
from penstock.control.guard import Guard
from penstock.control.loop import ControlSettings, control
from penstock.control.requests import ScriptedChange
from penstock.control.status import Status, View
from penstock.control.summary import RunTotals, Summary
from penstock.dataflow.flow import Dataflow
from penstock.metrics.snapshot import LatencyMetrics, PipelineMetrics, Snapshot
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Policy
from penstock.store.turn import Tick
from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.scenario import Scenario

FREE = Guard(cooldown=0.0, undo=0.0, horizon=math.inf)
"""The papers have no guard: their policies decide on their own when to change, at any cost."""


@dataclass(frozen=True)
class Play:
    """A scenario on the simulator.

    plan: the initial plan, by default the scenario's; turn: seconds between two turns of the loop;
    every: seconds between two records; options: of the engine; over: gets the records so far and
    returns True if the run can end. The records are `tick`s, a `change` for each change, and one
    `summary`.
    """

    scenario: Scenario
    policy: str | Policy = "static"
    plan: Plan | None = None
    guard: Guard = FREE
    limits: Limits = field(default_factory=Limits)
    turn: float = 1.0
    every: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    over: Callable[[Sequence[Record]], bool] | None = None

    def __call__(self, setting: Setting) -> Iterable[Record]:
        scenario = self.scenario
        engine = scenario.engine(setting.seed, **self.options)
        policy = policies.get(self.policy) if isinstance(self.policy, str) else self.policy
        engine.start(scenario.graph, self.plan or scenario.plan, setting.scratch)
        watch, tally = Watch(self.every), RunTotals(scenario.graph.constraints)

        def wait() -> bool:
            engine.advance(self.turn)
            setting.tell(min(1.0, engine.now / scenario.seconds))
            ended = self.over is not None and self.over(watch.records)
            return engine.now <= scenario.seconds and not ended

        def record(tick: Tick) -> None:
            watch.add(tick)
            tally.add(tick)

        control(
            engine,
            scenario.graph,
            policy,
            now=lambda: engine.now,
            wait=wait,
            record=record,
            settings=ControlSettings(self.limits, self.guard),
        )
        return [*watch.records, summed_up(tally, engine.latency_totals())]


def summed_up(tally: RunTotals, totals: Mapping[str, LatencyMetrics]) -> Record:
    """The summary of a simulated run; records in flight at the end are not waited for."""
    seen = tally.snapshot
    assert seen is not None
    return {
        "kind": "summary",
        "rows_offered": seen.rows_offered,
        "rows_ingested": seen.rows_ingested,
        "rows_delivered": seen.rows_delivered,
        "slot_seconds": round(tally.slot_seconds, 3),
        "latency": {name: one.to_json() for name, one in tally.latency(totals).items()},
        "transitions": len(tally.transitions),
    }


@dataclass(frozen=True)
class SparkPlay:
    """A dataflow on Spark: `build` makes it, with its sinks below a directory.

    slots: concurrent tasks, more than there are cores if operators wait; master: a cluster, started
    for this case alone, instead of one local executor; warm: seconds of a warm-up run before, whose
    records are dropped; drain: True to process the whole backlog at the end, which takes long after
    an overload.
    """

    build: Callable[[Path], Dataflow]
    seconds: float
    policy: str | Policy = "static"
    plan: Plan | None = None
    load: str | None = None
    changes: tuple[str | ScriptedChange, ...] = ()
    guard: Guard = FREE
    limits: Limits = field(default_factory=Limits)
    slots: int = 16
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    every: float = 1.0
    warm: float = 20.0
    drain: bool = True

    def __call__(self, setting: Setting) -> Iterable[Record]:
        before = replace(self, seconds=self.warm, policy="static", changes=(), drain=False)
        with _alone() if self.master else nullcontext():
            if self.warm:
                before.played(setting.scratch / "warm", Watch(self.every))
            return self.played(setting.scratch, Watch(self.every, setting.tell))

    def played(self, home: Path, watch: Watch) -> list[Record]:
        """Run it once, with all files below a directory."""
        engine = on_spark(self.slots, self.conf, self.master)
        summary = run(
            self.build(home / "out"),
            policy=self.policy,
            plan=self.plan,
            engine=engine,
            load=self.load,
            seconds=self.seconds,
            changes=self.changes,
            guard=self.guard,
            limits=self.limits,
            run_dir=home / "run",
            view=self.viewed(engine, watch),
            drain=self.drain,
        )
        return watch.all(summary)

    def viewed(self, engine: Any, watch: Watch) -> View:
        """The view of the run; subclasses that act on the engine wrap it."""
        return watch


def on_spark(slots: int, conf: Mapping[str, str] | None = None, master: str | None = None) -> Any:
    """The Spark engine with this many local slots, or on a master."""
    from penstock.engines.spark.engine import SparkEngine  # slow to load: only when needed

    return SparkEngine(master=master or f"local[{slots}]", conf=conf)


@contextmanager
def _alone() -> Iterator[None]:
    """End Spark's session before and after, as there can be only one at a time."""
    from penstock.engines.spark.session.flow_session import end

    end()
    try:
        yield
    finally:
        end()


class Watch:
    """A view that collects the records of a run."""

    def __init__(
        self, every: float = 1.0, tell: Callable[[float], None] = lambda share: None
    ) -> None:
        self.records: list[Record] = []
        self._every, self._tell = every, tell
        self._last: Tick | None = None
        self._kept = -float("inf")

    def add(self, tick: Tick) -> None:
        if tick.at - self._kept >= self._every - 1e-6:
            self._kept = tick.at
            self.records.append(ticked(tick))
        if tick.transition is not None:
            self.records.append(changed(tick))

    def show(self, status: Status) -> None:
        tick = status.tick
        if tick is None or tick is self._last or status.phase != "running":
            return
        self._last = tick
        self.add(tick)
        if status.seconds:
            self._tell(min(1.0, status.elapsed / status.seconds))

    def close(self) -> None:
        """There is nothing to close."""

    def all(self, summary: Summary) -> list[Record]:
        """All records with the summary. Raises `KeyboardInterrupt` if the run was ended early."""
        if summary.interrupted:
            raise KeyboardInterrupt
        return [*self.records, {"kind": "summary", **replace(summary, run_dir="").to_json()}]


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
        "cores": sum(e.slots for e in seen.executors.values()),
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
    """An applied change as a record."""
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
    """The value rounded to six digits, which keeps records small."""
    return None if value is None else float(f"{value:.6g}")
