"""Es-Stream's figures 18 to 21: recovery after a fault, and state that is dealt out anew.

Recovery at 1,800 tuples/s of COMMCount. With its own rollback, only the instance that failed does
again what came to it since its last backup, which stands upstream: it is away for as long as that
takes it, and then has to catch up. With a global rollback everything that came since then is sent
again from the source, as fast as a link of 100 Mbit/s takes tuples of 92 bytes, and goes through
all operators. How the platform notices a fault and restarts is not simulated.

Repartition of 42 MB. Es-Stream sends the parts from as many instances as there are at once, each
over its link of 12.5 MB/s, and no more links than machines. How fast the checkpoint is read is not
printed and given here: 42 MB in 0.73 s, at any parallelism.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.failure import Failure
from penstock.engines.simulator.model import Keys, Step, Timing
from penstock.engines.simulator.scenario import Scenario
from penstock.experiments import es_stream
from penstock.experiments.es_stream import COUNT, PAPER
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read, Record, Setting
from penstock.experiments.rivals import scaled
from penstock.report.figures import Figure, Level, Line, Panel

RATE = 1800
INSTANCES = {"read": 3, "views": 6, "count": 5}
"""Es-Stream's at this rate."""

LINK = 100e6 / 8
SENT = LINK / 92
"""Tuples a second that a link takes."""

STATE = 42e6
AT = 12.0
LONGEST = 20.0


def cases(intervals: Sequence[float], parallelism: Sequence[int]) -> Sequence[Case]:
    faults = [
        Case(f"{way}, {interval:g} s", Fault(way, interval))
        for way in ("partial", "global")
        for interval in intervals
    ]
    moved = [Case(f"{way}, {k}", Moved(way, k)) for way in ("parts", "checkpoint")
             for k in parallelism]  # fmt: skip
    return (*faults, *moved)


@dataclass(frozen=True)
class Fault:
    """An instance of the keyed operator fails just before its next backup."""

    way: str
    interval: float

    def __call__(self, setting: Setting) -> Sequence[Record]:
        busy = RATE * COUNT.services["count"] / INSTANCES["count"]
        timing = Timing(detection=self.interval * busy, instance_start=0.0)
        steady = es_stream.scenario(COUNT, f"{RATE}/s", 0.0, INSTANCES)
        if self.way == "partial":
            scenario = replace(steady, model=replace(steady.model, timing=timing))
            failures = [Failure(AT, pipeline="count")]
        else:
            scenario, failures = replace(steady, load=_again(self.interval)), []
        engine = scenario.engine(setting.seed, failures=failures)
        engine.start(scenario.graph, scenario.plan, setting.scratch)
        engine.advance(AT + (timing.detection if failures else 0.01))
        return [{"kind": "recovery", "seconds": _recovered(engine, AT)}]


def _again(interval: float) -> str:
    """The load with all tuples of an interval sent once more."""
    seconds = interval * RATE / SENT
    peak = RATE + SENT
    return f"points:0={RATE},{AT}={RATE},{AT + 1e-4}={peak:.0f},{AT + seconds:g}={peak:.0f}," + (
        f"{AT + seconds + 1e-4:g}={RATE},60={RATE}"
    )


def _recovered(engine: SimulatorEngine, since: float) -> float:
    """Seconds until no more rows wait than one in a hundred of a second's."""
    while engine.now < since + LONGEST:
        engine.advance(0.02)
        seen = engine.observe()
        if sum(p.backlog_rows or 0 for p in seen.pipelines.values()) <= RATE / 100:
            break
    return round(engine.now - since, 3)


@dataclass(frozen=True)
class Moved:
    """One instance of the keyed operator more, with 42 MB of state."""

    way: str
    parallelism: int

    def __call__(self, setting: Setting) -> Sequence[Record]:
        scenario = self._scenario()
        engine = scenario.engine(setting.seed)
        engine.start(scenario.graph, scenario.plan, setting.scratch)
        engine.advance(30.0)
        more = scaled(scenario.plan, {"count": self.parallelism + 1})
        made = engine.apply(more)
        return [{"kind": "moved", "seconds": round(made.interruption, 4),
                 "bytes": made.state_bytes_moved}]  # fmt: skip

    def _scenario(self) -> Scenario:
        found = es_stream.scenario(
            COUNT, f"{RATE}/s", 0.0, {**INSTANCES, "count": self.parallelism}, es_stream.NODES
        )
        links = min(self.parallelism + 1, es_stream.NODES)
        rate = links * LINK if self.way == "parts" else STATE / 0.73
        keys = Keys(2000, bytes=STATE / 2000)
        step = Step(found.model.step("count").service, keys=keys)
        steps = {**found.model.steps, "count": step}
        timing = Timing(instance_start=0.0, restart=0.0, state_rate=rate)
        return replace(found, model=replace(found.model, steps=steps, timing=timing))


# --- reading ------------------------------------------------------------------------------------


def recovery(way: str, interval: float) -> Read:
    return lambda data: float(data.of(f"{way}, {interval:g} s", "recovery")[0]["seconds"])


def moved(way: str, parallelism: int) -> Read:
    return lambda data: float(data.of(f"{way}, {parallelism}", "moved")[0]["seconds"])


def most_parallel(way: str) -> Read:
    return lambda data: moved(way, data.parameters["parallelism"][-1])(data)


def _ratio(over: Read, under: Read) -> Read:
    def read(data: Data) -> float | None:
        top, bottom = over(data), under(data)
        return top / bottom if top is not None and bottom else None

    return read


def _longer(way: str) -> Read:
    """Seconds of recovery for each second of the interval, from the shortest to the longest."""

    def read(data: Data) -> float | None:
        low, high = data.parameters["intervals"][0], data.parameters["intervals"][-1]
        first, last = recovery(way, low)(data), recovery(way, high)(data)
        return None if first is None or last is None else (last - first) / (high - low)

    return read


def picture(data: Data) -> Figure:
    intervals, counts = data.parameters["intervals"], data.parameters["parallelism"]
    faults = tuple(
        Line(way, tuple(intervals), tuple(recovery(way, i)(data) for i in intervals))
        for way in ("partial", "global")
    )
    parts = tuple(
        Line(way, tuple(map(float, counts)), tuple(moved(way, k)(data) for k in counts))
        for way in ("parts", "checkpoint")
    )
    return Figure(
        "Recovery and repartition",
        (
            Panel("interval of backups (s)", "recovery (s)", faults),
            Panel("instances", "repartition (s)", parts, levels=(Level(0.225, "seed"),)),
        ),
        note=es_stream.note(data, "figures 18 to 21"),
    )


_RESTART = (
    "noticing the fault, restarting tasks and reading their state are not simulated; only the "
    "tuples that are done again are"
)
_ALL = (
    "with a global rollback the seed restarts and fills all tasks of the topology; here all "
    "operators only do again what they had done, side by side"
)

FIGURE_18 = Experiment(
    "es-stream-18",
    "Recovery and repartition",
    PAPER,
    "figures 18 to 21",
    cases,
    (
        Claim("recovery with an interval of 2 s, partial rollback", 0.7, recovery("partial", 2),
              "s", why=_RESTART),
        Claim("recovery with an interval of 2 s, global rollback", 1.9, recovery("global", 2),
              "s", why=_ALL),
        Claim("global beside partial rollback, 2 s", 1.9 / 0.7,
              _ratio(recovery("global", 2), recovery("partial", 2)), neutral=1.0, why=_RESTART),
        Claim("recovery for each second of the interval, partial (above 0)", None,
              _longer("partial"), "s"),
        Claim("recovery for each second of the interval, global (above 0)", None,
              _longer("global"), "s"),
        Claim("repartition of 42 MB, many instances", 0.225, most_parallel("parts"), "s"),
        Claim("repartition of 42 MB from a checkpoint (given)", 0.73,
              most_parallel("checkpoint"), "s"),
        Claim("checkpoint beside parts", 0.73 / 0.225,
              _ratio(most_parallel("checkpoint"), most_parallel("parts")), neutral=1.0),
    ),
    picture,
    size={"intervals": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), "parallelism": (1, 2, 4, 6, 8, 10, 12, 14)},
    quick={"intervals": (1.0, 2.0, 5.0), "parallelism": (1, 4, 14)},
    no_spark="Spark rolls back a query as a whole; only the pipeline that failed does, which the "
    "tests of faults show",
)  # fmt: skip

EXPERIMENTS = (FIGURE_18,)
