"""Scaling up in rounds: a plan is observed for a while, then comes the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import pstdev
from typing import Any

from penstock.control.loop import ControlSettings, control
from penstock.errors import Refused
from penstock.plan import fusion
from penstock.plan.decision import Decision
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.shared import scaling
from penstock.policies.shared.bottlenecks import is_usable
from penstock.policies.shared.rates import NotMeasured
from penstock.policies.stela import slots
from penstock.policies.stela.policy import CHOICES
from penstock.policies.stepwise.policy import Stepwise
from penstock.policies.stepwise.profile import Feature, ProfilingRound, features
from penstock.policies.stepwise.profiling_state import StepwiseMemory
from penstock.policies.stepwise.rounds import RoundObservation, observe, round_from
from penstock.predict import stress_load
from penstock.store.turn import Tick
from penstock_lab.experiments.experiment import Record, Setting
from penstock_lab.experiments.play import FREE, short
from penstock_lab.experiments.stepwise import storm

LATENCY = 0.5
"""Seconds, where a dataflow asks for no other."""


@dataclass(frozen=True)
class Attempts:
    """State of a rival: its finished rounds and the current one."""

    rounds: tuple[ProfilingRound, ...] = ()
    seen: tuple[RoundObservation, ...] = ()
    since: float = 0.0
    done: bool = False


Grow = Callable[[Context], Plan | None]


@dataclass(frozen=True)
class Rival:
    """A rival way of scaling up, observed in rounds like stepwise profiling."""

    name: str
    grow: Grow
    rounds: int
    settle: float
    observations: int
    features: Mapping[str, Feature]

    def decide(self, context: Context, memory: Attempts | None) -> tuple[Decision, Attempts]:
        state, latest = memory or Attempts(), context.latest
        if state.done or latest is None or not is_usable(latest, state.since, self.settle):
            return Decision(None, "waits"), state
        one = observe(latest, LATENCY)
        if one is None:
            return Decision(None, "not measured: rows processed"), state
        if not state.seen or latest.at >= state.seen[-1].at + latest.window - 1e-6:
            state = replace(state, seen=(*state.seen, one))
        if len(state.seen) < self.observations:
            return Decision(None, "observes"), state
        kind = self.name if state.rounds else "start"
        found = (*state.rounds, round_from(context.plan, kind, 0.0, state.seen, self.features))
        try:
            plan = self.grow(context) if len(found) < self.rounds else None
        except NotMeasured as why:
            return Decision(None, str(why)), state
        after = Attempts(found, since=context.now, done=plan is None)
        return Decision(plan, self.name, {"undo": 1.0}), after


def stela(context: Context, more: int | None = None) -> Plan | None:
    """Adds this many instances where Stela would put them; None: one per machine."""
    start = slots.measured(context)
    rates = {
        n: replace(r, arrival=r.processed) if n in start.topology.sources else r
        for n, r in start.rates.items()
    }
    start = slots.SlotAllocation.of(start.topology, rates, start.over)
    more, most = more or context.plan.executors, context.limits.slots
    room = more if most is None else min(more, most - context.plan.slots)
    end = slots.allocate(start, room, CHOICES["etp"])
    wanted = {name: end.instances(name) for name in end.given}
    return scaling.with_instances(context.plan, wanted) if wanted else None


def threshold(context: Context, above: float = 0.8) -> Plan | None:
    """Adds an instance to the busiest operator if it is busy for more than 80 % of the time."""
    assert context.latest is not None
    one = observe(context.latest, LATENCY)
    at_work = {} if one is None else one.capacities
    sources = context.latest.source_pipelines
    inner = (n for n in at_work if n not in sources)
    able = [n for n in inner if fusion.bounds(context.graph, _of(context, n)).most != 1]
    if not able:
        raise NotMeasured("not measured: how much of the time anything is at work")
    name = max(able, key=lambda n: at_work[n])
    if at_work[name] <= above:
        return None
    wanted = {name: context.plan.pipeline_of(name).parallelism + 1}
    plan = scaling.with_instances(context.plan, wanted)
    return None if context.limits.exceeded(plan) else plan


def _of(context: Context, name: str) -> tuple[str, ...]:
    return context.plan.pipeline_of(name).operators


@dataclass(frozen=True)
class Climb:
    """Scales an application up under stress on a number of machines, in rounds."""

    app: str
    way: str
    nodes: int = 6
    rounds: int = 10
    turn: float = 1.0
    settle: float = 10.0
    observations: int = 20
    latency: float | None = None
    plan: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    upkeep: float = storm.UPKEEP

    def __call__(self, setting: Setting) -> Sequence[Record]:
        app = storm.app(self.app)
        app = app if self.latency is None else app.within(self.latency)
        engine = app.engine(self.nodes, setting.seed, self.turn, upkeep=self.upkeep)
        plan = stress_load.first_plan(app.graph, self.nodes)
        engine.start(app.graph, scaling.with_instances(plan, self.plan), setting.scratch)
        memory: Any = None

        def record(tick: Tick) -> None:
            nonlocal memory
            memory = tick.memory
            setting.tell(min(0.99, len(getattr(memory, "rounds", ())) / (2 * self.rounds)))

        def wait() -> bool:
            if isinstance(memory, StepwiseMemory) and memory.stuck:
                raise Refused(memory.stuck)
            if getattr(memory, "profile", None) or getattr(memory, "done", False):
                return False
            engine.advance(self.turn)
            return True

        control(
            engine,
            app.graph,
            self.policy(app, plan),
            now=lambda: engine.now,
            wait=wait,
            record=record,
            settings=ControlSettings(Limits(), FREE),
        )
        if isinstance(memory, StepwiseMemory):
            assert memory.profile is not None
            final = memory.profile.rounds.index(memory.profile.final)
            found = {"kind": "found", "instances": dict(memory.profile.instances)}
            known = memory.profile.features
            return [found, *records(memory.profile.rounds, final, known)]
        return records(memory.rounds, len(memory.rounds) - 1)

    def policy(self, app: storm.App, plan: Plan) -> Any:
        if self.way == "stepwise":
            return Stepwise(
                latency=LATENCY,
                settle=self.settle,
                observations=self.observations,
                sample=64,
                **self.options,
            )
        ways: dict[str, Grow] = {
            "Stela": stela,
            "threshold": threshold,
            "static": lambda context: None,
        }
        heads = {p.name: p.operators[0] for p in plan.pipelines}
        times = {name: app.steps[head].service.mean for name, head in heads.items()}
        rows = app.rows()
        known = features(app.graph, plan, times, {n: rows[head] for n, head in heads.items()})
        return Rival(self.way, ways[self.way], self.rounds, self.settle, self.observations, known)


def records(
    rounds: Sequence[ProfilingRound], final: int, known: Mapping[str, Feature] | None = None
) -> list[Record]:
    """Rounds to be told; known: features by which it is told how much longer a row takes."""
    return [
        {
            "kind": "round",
            "number": number,
            "changed": one.kind,
            "instances": [p.parallelism for p in one.plan.pipelines],
            "pipelines": [p.name for p in one.plan.pipelines],
            "throughput": short(one.throughput),
            "spread": short(pstdev(one.throughputs)),
            "latency": short(one.latency),
            "throttle": short(one.throttle),
            "slowed": short(_slowed(one, known or {})),
            "final": number == final + 1,
        }
        for number, one in enumerate(rounds, start=1)
    ]


def _slowed(one: ProfilingRound, known: Mapping[str, Feature]) -> float | None:
    """How many times its least time the slowest vertex behind the sources takes for a row."""
    inner = {n: f.latency for n, f in known.items() if not f.source}
    return max((one.services[n] / inner[n] for n in inner if n in one.services), default=None)
