"""A dataflow under a policy: what most cases of experiments are."""

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
"""The seeds have no guard: their policies wait as long as they say themselves, at any cost."""


@dataclass(frozen=True)
class Play:
    """A scenario on the simulator.

    plan: to start with, the scenario's if None; turn: seconds between two turns of the loop;
    every: and between two records; options: of the engine; over: told all records so far, whether
    what comes after them says nothing more. What is recorded: `tick`s, a `change` for each that was
    made, and one `summary`.
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
    """A simulated run as a whole; what is still on its way at the end is not waited for."""
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
    """A dataflow on Spark: `build` makes it, with its sinks under a directory.

    slots: tasks that run at a time, more than there are cores where operators wait; master: in
    place of this one executor, a cluster, started for the case alone; warm: seconds for which the
    same runs before, for nothing, since Spark is slow at first and the first case would bear it;
    drain: whether all that has come is worked off in the end, which takes long where more came
    than was carried.
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
        """Run it as it is, with all that is kept under a directory."""
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
        """Who looks on: a play that has to do with the engine itself puts its own before this."""
        return watch


def on_spark(slots: int, conf: Mapping[str, str] | None = None, master: str | None = None) -> Any:
    """Spark on this machine with so many slots, or on a master."""
    from penstock.engines.spark.engine import SparkEngine  # slow to load: only when needed

    return SparkEngine(master=master or f"local[{slots}]", conf=conf)


@contextmanager
def _alone() -> Iterator[None]:
    """No session of Spark's before and after, as there can be one at a time."""
    from penstock.engines.spark.session.flow_session import end

    end()
    try:
        yield
    finally:
        end()


class Watch:
    """Keeps what experiments look at; as a view, of a run that is shown to nobody."""

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
        """Everything, with the summary; a run that was ended early is no case."""
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
