"""Es-Stream's figures 13 to 17: the highest rate, and instances and machines over time.

Figure 13 raises the rate by 500 tuples/s at a time. That all cores together carry 15,000 and 13,500
is what service times are taken from; read off is how much of that each way of dealing instances
reaches. EvenScheduler has 24 instances, as many as the plans that the seed compares, and DRS deals
the same number anew; Es-Stream takes what it needs of the 52 that the machines hold. The best
static plan is that of all deals of 52 whose slowest operator, or all cores together, carry most.

Figures 14 and 15: instances, 16 and 17: machines. What the seed says of figures 14, 16 and 17 has
no numbers: which instances become more, and that machines follow the rate under Es-Stream alone.
The best static plan there has as many instances as Es-Stream at the highest rate, dealt for that
rate.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from penstock.engines.simulator.scenario import Scenario
from penstock.experiments import es_stream, reading
from penstock.experiments.es_stream import COUNT, PAPER, TOP, Application
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read, Record
from penstock.experiments.play import Play
from penstock.experiments.rivals import scaled
from penstock.models import instances, jackson
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.drs import Drs
from penstock.report.figures import Bars, Figure, Level, Line, Mark, Panel

ROOM = es_stream.NODES * es_stream.INSTANCES
FEW = 24
APPS = (COUNT, TOP)


# --- figure 13 ----------------------------------------------------------------------------------


def rising(rates: Sequence[int], step: float) -> Sequence[Case]:
    load = f"steps:{','.join(map(str, rates))}@{step:g}s"
    seconds, found = step * len(rates), []
    for app in APPS:
        few = es_stream.scenario(app, load, seconds, app.even(FEW), es_stream.NODES)
        many = es_stream.scenario(app, load, seconds, app.even(ROOM), es_stream.NODES)
        limits = Limits(slots=ROOM + 1, executors=es_stream.NODES)
        found += [
            Case(f"es-stream, {app.name}", Play(few, es_stream.SEED, limits=limits)),
            Case(f"drs, {app.name}", Play(few, Drs(budget=True), limits=Limits(slots=FEW + 1))),
            Case(f"even, {app.name}", Play(few)),
            Case(f"even on all, {app.name}", Play(many)),
            Case(f"best static, {app.name}", Play(replace(many, plan=_dealt(many, app)))),
            Case(f"dynamic allocation, {app.name}", Play(_small(many, app), es_stream.DYNAMIC)),
        ]
    return found


def _dealt(scenario: Scenario, app: Application) -> Plan:
    """All instances, dealt so that most is carried: the best of all deals."""
    names, costs = app.operators, app.services
    most = es_stream.NODES * es_stream.CORES / sum(costs.values())

    def carries(deal: Sequence[int]) -> tuple[float, float]:
        each = [k / costs[n] for n, k in zip(names, deal, strict=True)]
        return min(most, *each), min(each)

    few = itertools.product(range(1, ROOM), repeat=len(names) - 1)
    deals: Iterable[Sequence[int]] = ((*deal, ROOM - sum(deal)) for deal in few if sum(deal) < ROOM)
    best = max(deals, key=carries)
    return scaled(scenario.plan, dict(zip(names, best, strict=True)))


def _small(scenario: Scenario, app: Application) -> Scenario:
    """The same, started with a task on each core of one machine."""
    wanted = dict.fromkeys(app.operators, es_stream.CORES)
    return replace(scenario, plan=scaled(scenario.plan, wanted))


def bottleneck(data: Data, case: str) -> float:
    """The highest rate of which all comes through, by the last quarter of its step.

    With a rate that is too high for a while, as before more instances are there, it goes on.
    """
    step, best = float(data.parameters["step"]), 0.0
    for number, rate in enumerate(data.parameters["rates"]):
        begin, end = (number + 0.75) * step, (number + 1) * step
        if reading.throughput(data, case, begin, end) >= 0.97 * rate:
            best = float(rate)
    return best


def _reached(way: str, app: Application) -> Read:
    return lambda data: bottleneck(data, f"{way}, {app.name}")


def _surpassed(app: Application) -> Read:
    """The share of the seed's rivals that carry less than Es-Stream."""

    def read(data: Data) -> float:
        own = bottleneck(data, f"es-stream, {app.name}")
        return fmean(bottleneck(data, f"{way}, {app.name}") < own for way in ("drs", "even"))

    return read


RIVALS = ("drs", "even", "even on all", "best static", "dynamic allocation")


def picture_13(data: Data) -> Figure:
    ways = ("es-stream", *RIVALS)
    names = tuple(app.name for app in APPS)
    bars = tuple(Bars(w, tuple(bottleneck(data, f"{w}, {n}") for n in names)) for w in ways)
    seeds = Bars("es-stream, seed", tuple(app.bottleneck for app in APPS), tone=6)
    panel = Panel("application", "tuples/s", categories=names, bars=(*bars, seeds))
    few = ("es-stream", "drs", "even", "best static")
    lines = [Line(w, *reading.rates(data, f"{w}, COMMCount", 5.0)) for w in few]
    times, offered = reading.rates(data, "even, COMMCount", 5.0, "offered")
    lines.append(Line("offered", times, offered, tone=6, faint=True))
    return Figure(
        "The highest rate that is carried",
        (panel, Panel("time (s)", "tuples/s", tuple(lines), title="COMMCount")),
        note=es_stream.note(data, "figure 13"),
    )


FIGURE_13 = Experiment(
    "es-stream-13",
    "The highest rate",
    PAPER,
    "figure 13",
    rising,
    (
        *(
            Claim(f"{app.name}: highest rate of Es-Stream (all cores: given)", app.bottleneck,
                  _reached("es-stream", app), "/s")
            for app in APPS
        ),
        *(
            Claim(f"{app.name}: highest rate, {way}", None, _reached(way, app), "/s")
            for app in APPS
            for way in RIVALS
        ),
        *(
            Claim(f"{app.name}: share of DRS and even that Es-Stream surpasses", 1.0,
                  _surpassed(app))
            for app in APPS
        ),
    ),
    picture_13,
    size={"rates": tuple(range(2_000, 17_500, 500)), "step": 20.0},
    quick={"rates": (*range(5_000, 12_000, 1_000), *range(12_000, 17_000, 500)), "step": 18.0},
    no_spark="26 cores are what it is about",
)  # fmt: skip


# --- figures 14 to 17 ---------------------------------------------------------------------------

TIMES = (100.0, 160.0)
"""When the rate goes from 1,800 to 3,600 and to 2,700 tuples/s."""

SEEDS = {"COMMCount": (14, 24, 19), "Top_N": (18, 27, 23)}


def changing(seconds: float) -> Sequence[Case]:
    first, second = TIMES
    load = f"points:0=1800,{first:g}=1800,{first + 0.001:g}=3600,{second:g}=3600," + (
        f"{second + 0.001:g}=2700,{seconds:g}=2700"
    )
    found = []
    for app in APPS:
        scenario = es_stream.scenario(app, load, seconds, app.even(FEW if app is COUNT else 16))
        limits = Limits(executors=es_stream.NODES)
        drs = Limits(slots=scenario.plan.slots)
        found += [
            Case(f"es-stream, {app.name}", Play(scenario, es_stream.SEED, limits=limits)),
            Case(f"drs, {app.name}", Play(scenario, Drs(budget=True), limits=drs)),
            Case(f"best static, {app.name}", Play(_for_peak(app, load, seconds))),
            Case(f"dynamic allocation, {app.name}", Play(_small(scenario, app), es_stream.DYNAMIC)),
        ]
    return found


def _for_peak(app: Application, load: str, seconds: float) -> Scenario:
    """The deal of Es-Stream's instances at 3,600 tuples/s that has the shortest queues then."""
    loads = {n: 3600 * s for n, s in app.services.items()}
    total = sum(instances.best(load, es_stream.SEED.share) for load in loads.values())
    servers = [jackson.Server(n, a, 1, total) for n, a in loads.items()]
    deal = jackson.best(servers, total).instances
    return es_stream.scenario(app, load, seconds, deal, es_stream.NODES)


def phase(app: str, which: int, get: str = "instances") -> Read:
    """Instances, or machines, at the end of a phase."""

    def read(data: Data) -> float:
        end = (*TIMES, float(data.parameters["seconds"]))[which]
        ticks = reading.between(data.of(f"es-stream, {app}"), end - 10, end - 1)
        values = [es_stream.instances(t) if get == "instances" else t[get] for t in ticks]
        return float(fmean(values[-3:]))

    return read


def _grown(app: str) -> Read:
    def read(data: Data) -> float | None:
        before, then = phase(app, 0)(data), phase(app, 1)(data)
        return None if before is None or then is None else then / before

    return read


def _latency(tick: Record) -> float:
    return es_stream.milliseconds(tick)


def _beside(way: str, app: str, what: str) -> Read:
    """Mean latency of a rival, or the time of all its instances, over those of Es-Stream."""

    def read(data: Data) -> float:
        cases = (f"{way}, {app}", f"es-stream, {app}")
        if what == "instance hours":
            other, own = (reading.task_hours(data, c) for c in cases)
        else:
            other, own = (reading.average(data, c, _latency) for c in cases)
        return other / own

    return read


def _moved(app: str, way: str) -> Read:
    """How many machines fewer the fewest are than the most, from the first look on."""

    def read(data: Data) -> float:
        found = [t["executors"] for t in data.of(f"{way}, {app}") if t["at"] > 40]
        return float(max(found) - min(found))

    return read


def picture_15(data: Data) -> Figure:
    ways = [c for c in data.cases if c.startswith("es-stream")]
    shown = [c for c in data.cases if c.startswith(("es-stream", "drs"))]
    count = tuple(reading.line(data, c, es_stream.instances, style="step") for c in ways)
    nodes = tuple(reading.line(data, c, lambda t: t["executors"], style="step") for c in shown)
    times = tuple(reading.line(data, c, _latency) for c in shown)
    changes = tuple(Mark(at, f"{to}/s") for at, to in zip(TIMES, ("3,600", "2,700"), strict=True))
    levels = tuple(Level(n, f"{app}, seed") for app, found in SEEDS.items() for n in found[1:2])
    return Figure(
        "1,800, then 3,600, then 2,700 tuples/s",
        (
            Panel("time (s)", "instances", count, levels=levels, marks=changes),
            Panel("time (s)", "machines", nodes),
            Panel("time (s)", "mean latency (ms)", times, log=True),
        ),
        note=es_stream.note(data, "figures 14 to 17"),
    )


FIGURE_15 = Experiment(
    "es-stream-15",
    "Instances and machines under a changing rate",
    PAPER,
    "figures 14 to 17",
    changing,
    (
        *(
            Claim(f"{app}: instances at {rate}/s" + (" (given)" if n == 14 else ""), float(n),
                  phase(app, at))
            for app, found in SEEDS.items()
            for at, (n, rate) in enumerate(zip(found, ("1,800", "3,600", "2,700"), strict=True))
        ),
        *(
            Claim(f"{app}: instances at 3,600/s beside 1,800/s", found[1] / found[0], _grown(app),
                  neutral=1.0)
            for app, found in SEEDS.items()
        ),
        *(
            Claim(f"{app}: machines at {rate}/s", None, phase(app, at, "executors"))
            for app in SEEDS
            for at, rate in enumerate(("1,800", "3,600", "2,700"))
        ),
        *(
            Claim(f"{app}: machines that come and go under {way}", None, _moved(app, way))
            for app in SEEDS
            for way in ("es-stream", "drs")
        ),
        *(
            Claim(f"{app}: {what} of {way} beside Es-Stream", None, _beside(way, app, what))
            for app in SEEDS
            for way in ("drs", "best static", "dynamic allocation")
            for what in ("latency", "instance hours")
        ),
    ),
    picture_15,
    size={"seconds": 260.0},
    quick={"seconds": 230.0},
    no_spark="what M/M/k says of milliseconds does not hold of batches; that instances follow the "
    "rate is shown there by es-stream-9",
)  # fmt: skip

EXPERIMENTS = (FIGURE_13, FIGURE_15)
