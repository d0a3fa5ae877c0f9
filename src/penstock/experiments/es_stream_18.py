"""Es-Stream's figures 18 to 21: recovery after a fault, and state that is dealt out anew.

Figure 21: recovery after a fault at 1,800 tuples/s of COMMCount. With its own rollback, only the
instance that failed does again what came to it since its last backup, which stands upstream: it is
away for as long as a restart and that take, and then has to catch up. With a global rollback
everything waits for the restart, and what came since the last checkpoint is sent again from the
source, as fast as a link of 100 Mbit/s takes tuples of 92 bytes, and goes through all operators. A
restart takes 0.2 s, as in all experiments of Es-Stream here, which is a choice.

Figure 18: the same after the stateful operator was scaled. All its instances wait for a restart
then, and do again what came since the last backup: those before them have kept it, and send it as
fast as a link takes it. Operators before it go on meanwhile, and all share the cores. A global
rollback is that of a fault.

Figure 19: figure 18 at 900 tuples/s and an interval of 5 s, with state that has to be read first.

Figure 20: repartition of 42 MB. Es-Stream sends the parts from as many instances as there are at
once, each over its link of 12.5 MB/s, and no more links than machines. How fast a checkpoint is
read is not printed and given here: 42 MB in 0.73 s, at any parallelism.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import pstdev

from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.failure import Failure
from penstock.engines.simulator.model import Keys, Step, Timing
from penstock.engines.simulator.scenario import Scenario, never
from penstock.experiments import es_stream, recovery_spark
from penstock.experiments.es_stream import COUNT, PAPER
from penstock.experiments.experiment import (
    Case,
    Claim,
    Data,
    Experiment,
    Read,
    Record,
    Setting,
    simulated,
)
from penstock.experiments.rivals import scaled
from penstock.models import load as loads
from penstock.plan.plan import Pipeline
from penstock.report.figures import Figure, Level, Line, Panel

RATE = 1800
INSTANCES = {"read": 3, "views": 6, "count": 5}
"""Es-Stream's at this rate."""

LINK = 100e6 / 8
SENT = LINK / 92
"""Tuples a second that a link takes."""

STATE = 42e6
AT = 4.0
LONGEST = 30.0


def cases(
    intervals: Sequence[float], parallelism: Sequence[int], states: Sequence[int]
) -> Sequence[Case]:
    faults = [
        Case(f"{way}, {interval:g} s", Fault(way, interval))
        for way in ("partial", "global")
        for interval in intervals
    ]
    faults += [Case(f"scaled, {interval:g} s", Scaled(interval)) for interval in intervals]
    for state in states:
        read = (5.0, 900, state * 1e6)
        faults.append(Case(f"partial, {state} MB", Scaled(*read)))
        faults.append(Case(f"global, {state} MB", Fault("global", *read)))
    moved = [Case(f"{way}, {k}", Moved(way, k)) for way in ("parts", "checkpoint")
             for k in parallelism]  # fmt: skip
    return (*faults, *moved)


CHECKPOINT = STATE / 0.73
"""Bytes a second that are read of a checkpoint."""


@dataclass(frozen=True)
class Fault:
    """An instance of the keyed operator fails just before its next backup.

    state: bytes of a checkpoint that are read before anything is done again.
    """

    way: str
    interval: float
    rate: int = RATE
    state: float = 0.0

    def __call__(self, setting: Setting) -> Sequence[Record]:
        busy = self.rate * COUNT.services["count"] / INSTANCES["count"]
        steady = es_stream.scenario(COUNT, f"{self.rate}/s", 0.0, INSTANCES)
        away = es_stream.RESTART
        failures = []
        if self.way == "partial":
            away += self.interval * busy
            timing = Timing(detection=away, instance_start=0.0)
            scenario = replace(steady, model=replace(steady.model, timing=timing))
            failures = [Failure(AT, pipeline="count")]
        else:
            away += self.state / CHECKPOINT
            scenario = replace(steady, load=self._again(away))
        engine = scenario.engine(setting.seed, failures=failures, step=0.02)
        engine.start(scenario.graph, scenario.plan, setting.scratch)
        engine.advance(AT + away)
        return [{"kind": "recovery", "seconds": _recovered(engine, AT, self.rate)}]

    def _again(self, away: float) -> str:
        """Nothing for a while; then all tuples of it and of an interval, as fast as they go."""
        end = away + (self.interval + away) * self.rate / (SENT - self.rate)
        points = ((0, self.rate), (AT, self.rate), (AT + 1e-4, 0), (AT + away, 0),
                  (AT + away + 1e-4, SENT), (AT + end, SENT), (AT + end + 1e-4, self.rate),
                  (90, self.rate))  # fmt: skip
        return "points:" + ",".join(f"{at:g}={rate:.0f}" for at, rate in points)


@dataclass(frozen=True)
class Scaled:
    """The keyed operator is scaled just before its next backup, and rolled back alone.

    state: bytes that are read before anything is done again, from as many instances as there are
    machines.
    """

    interval: float
    rate: int = RATE
    state: float = 0.0

    def __call__(self, setting: Setting) -> Sequence[Record]:
        away = es_stream.RESTART + self.state / (es_stream.NODES * LINK)
        steady = es_stream.scenario(COUNT, f"{self.rate}/s", 0.0, INSTANCES)
        pipelines = steady.plan.pipelines
        plan = replace(
            steady.plan,
            pipelines=(*pipelines[:-1], Pipeline(("kept",)), Pipeline(("both",)), pipelines[-1]),
        )
        engine = SimulatorEngine(
            replace(steady.model, timing=Timing(detection=away, instance_start=0.0)),
            load={"clicks": loads.parse(steady.load), "kept": loads.parse(self._again(away))},
            failures=[Failure(AT, None, "count", at) for at in range(INSTANCES["count"])],
            seed=setting.seed,
            step=0.02,
        )
        engine.start(_with_kept(), plan, setting.scratch)
        engine.advance(AT + away + 2 * 0.02)  # some of it has been sent
        return [{"kind": "recovery", "seconds": _recovered(engine, AT, self.rate)}]

    def _again(self, away: float) -> str:
        """Nothing until it is back; then all tuples of an interval, as fast as they go."""
        begin = AT + away
        end = begin + self.interval * self.rate / SENT
        points = ((0, 0), (begin, 0), (begin + 1e-4, SENT), (end, SENT), (end + 1e-4, 0), (90, 0))
        return "points:" + ",".join(f"{at:g}={rate:.0f}" for at, rate in points)


def _with_kept() -> Graph:
    """COMMCount with a source of what was kept, which goes to its keyed operator."""
    flow, schema = Dataflow(COUNT.name), "item bigint"
    stream = flow.source("clicks", Generator(never, schema), max_parallelism=1)
    for name in COUNT.operators[:-1]:
        stream = stream.map(name, never, schema=schema)
    kept = flow.source("kept", Generator(never, schema), max_parallelism=1)
    counted = stream.union("both", kept).key_by("item")
    counted.aggregate(COUNT.keyed, n="count(*)", schema=schema).sink("sink", Discard())
    return flow.graph


def _recovered(engine: SimulatorEngine, since: float, rate: int) -> float:
    """Seconds until no more rows wait than one in a hundred of a second's."""
    while engine.now < since + LONGEST:
        engine.advance(0.02)
        seen = engine.observe()
        if sum(p.backlog_rows or 0 for p in seen.pipelines.values()) <= rate / 100:
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
        keys = Keys(2000, bytes=STATE / 2000)
        # both go over all of the state, not only over what moves
        rate = links * LINK if self.way == "parts" else CHECKPOINT
        rate *= keys.moved(self.parallelism, self.parallelism + 1)
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


def _deviation(data: Data, cases: Iterable[str]) -> float:
    return pstdev(float(data.of(case, "recovery")[0]["seconds"]) for case in cases)


def over_intervals(data: Data) -> float | None:
    """Standard deviations of recovery; of Es-Stream's after a fault where nothing was scaled."""
    given = [f"{one:g} s" for one in data.parameters["intervals"]]
    way = "scaled" if f"scaled, {given[0]}" in data.cases else "partial"
    own = _deviation(data, (f"{way}, {one}" for one in given))
    return _deviation(data, (f"global, {one}" for one in given)) / own if own else None


def over_states(data: Data) -> float | None:
    given = [f"{one} MB" for one in data.parameters["states"]]
    own = _deviation(data, (f"partial, {one}" for one in given))
    return _deviation(data, (f"global, {one}" for one in given)) / own if own else None


def _each(data: Data, way: str) -> list[tuple[float, float]]:
    """Interval and seconds of every fault, where there were several."""
    found = ((i, data.of(f"{way}, {i:g} s", "recovery")[0]) for i in data.parameters["intervals"])
    return [(float(i), float(taken)) for i, one in found for taken in one.get("each", ())]


NAMED = {
    "partial": "Es-Stream after a fault",
    "global": "global rollback",
    "scaled": "Es-Stream after scaling",
}
SIZED = {"partial": "Es-Stream", "global": "global rollback"}
PARTED = {"parts": "Es-Stream, in parts", "checkpoint": "from a checkpoint"}
REPORTED = (0.7, 1.9)
"""Seconds with an interval of 2 s after a fault, of Es-Stream and of a global rollback."""


def picture(data: Data) -> Figure:
    intervals, counts = data.parameters["intervals"], data.parameters.get("parallelism", ())
    states = data.parameters.get("states", ())
    median = f", median of {data.parameters['faults']}" if "faults" in data.parameters else ""
    sizes = tuple(
        Line(SIZED[way], tuple(map(float, states)),
             tuple(float(data.of(f"{way}, {m} MB", "recovery")[0]["seconds"]) for m in states))
        for way in ("partial", "global")
    )  # fmt: skip
    faults = tuple(
        Line(NAMED[way] + median, tuple(intervals),
             tuple(recovery(way, i)(data) for i in intervals), tone=tone)
        for tone, way in enumerate(("partial", "global", "scaled"))
        if f"{way}, {intervals[0]:g} s" in data.cases
    )  # fmt: skip
    faults += tuple(
        Line(f"{NAMED[way]}, each", tuple(i for i, _ in some), tuple(taken for _, taken in some),
             style="points", tone=tone)
        for tone, way in enumerate(("partial", "global"))
        if (some := _each(data, way))
    )  # fmt: skip
    parts = tuple(
        Line(PARTED[way], tuple(map(float, counts)), tuple(moved(way, k)(data) for k in counts))
        for way in ("parts", "checkpoint")
    )
    if data.engine == "simulator":
        faults += (Line("reported", (2.0, 2.0), REPORTED, style="points", tone=6),)
    panels = [Panel("interval of backups (s)", "recovery (s)", faults)]
    if data.engine == "simulator":
        title = "after scaling, at 900 tuples/s (reported: no times, only how they deviate)"
        panels.append(Panel("state (MB)", "recovery (s)", sizes, title=title))
        seed = (Level(0.225, "reported, parts"),)
        panels.append(Panel("instances", "repartition of 42 MB (s)", parts, levels=seed))
    return Figure(
        "Recovery and repartition" if data.engine == "simulator" else "Recovery",
        tuple(panels),
        note=es_stream.note(data, "figures 18 to 21"),
    )


_ONLY = (
    "both grow with the interval in proportion, the global one faster the fewer cores all "
    "operators do it again on: here it is the eight of the four machines that hold 14 instances. "
    "On 5 machines it is 2.2, on all 13 it is 1.4; how many the seed had is not printed"
)
_READ = (
    "what grows with the state is reading it, over 13 links here as at the flat end of figure 20, "
    "where the seed's own ratio is 3.2; with 8 links it is 2.1, and with those of four machines "
    "1.1. How many the seed had is not printed"
)

_OTHERS = (
    "on Spark it is another flow, and most of a recovery is the start of a query; what counts is "
    "the ratio"
)
_SMALL = (
    "what a partial rollback does again on Spark is one batch of the keyed operator, milliseconds "
    "for the few hundred rows of an interval: less than one start of a query differs from another"
)

FIGURE_18 = Experiment(
    "es-stream-18",
    "Recovery and repartition",
    PAPER,
    "figures 18 to 21",
    cases,
    (
        Claim("recovery with an interval of 2 s, partial rollback", 0.7, recovery("partial", 2),
              "s", on_spark=_OTHERS),
        Claim("recovery with an interval of 2 s, global rollback", 1.9, recovery("global", 2),
              "s", on_spark=_OTHERS),
        Claim("global beside partial rollback, 2 s", 1.9 / 0.7,
              _ratio(recovery("global", 2), recovery("partial", 2)), neutral=1.0),
        Claim("deviation of recovery over intervals, global beside partial", 2.5 / 1.3,
              over_intervals, neutral=1.0, why=_ONLY),
        Claim("deviation of recovery over sizes of state, global beside partial", 1.5 / 0.7,
              over_states, neutral=1.0, why=_READ, only="simulator"),
        Claim("recovery for each second of the interval, partial", None, _longer("partial"), "s",
              neutral=0.0, side="above", on_spark=_SMALL),
        Claim("recovery for each second of the interval, global", None, _longer("global"), "s",
              neutral=0.0, side="above"),
        *simulated(
            Claim("repartition of 42 MB, many instances: over 13 links of 12.5 MB/s", 0.225,
                  most_parallel("parts"), "s", basis="given"),
            Claim("repartition of 42 MB from a checkpoint", 0.73, most_parallel("checkpoint"), "s",
                  basis="given"),
            Claim("checkpoint beside parts", 0.73 / 0.225,
                  _ratio(most_parallel("checkpoint"), most_parallel("parts")), basis="given"),
        ),
    ),
    picture,
    size={"intervals": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), "parallelism": (1, 2, 4, 6, 8, 10, 12, 14),
          "states": (10, 20, 40, 80, 160)},
    quick={"intervals": (1.0, 2.0, 5.0), "parallelism": (1, 4, 14), "states": (10, 40, 160)},
    spark=recovery_spark.cases,
    spark_size={"intervals": (2.0, 4.0, 6.0), "faults": 5},
    notes=("Neither a best static plan nor dynamic allocation applies: no plan is chosen here.",
           "Figure 20 is given: how long 42 MB take over links of 100 Mbit/s is arithmetic, and "
           "how fast a checkpoint is read is the seed's own number."),
)  # fmt: skip

EXPERIMENTS = (FIGURE_18,)
