"""Es-Stream's figures 13 to 17: the highest rate, and instances and machines over time.

Figure 13 raises the rate by 500 tuples/s at a time. That all cores together carry 15,000 and 13,500
is what service times are taken from; read off is how much of that each way of dealing instances
reaches. EvenScheduler has 24 instances, as many as the plans that the seed compares, and DRS deals
the same number anew; Es-Stream takes what it needs of the 52 that the machines hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from penstock.experiments import es_stream, reading
from penstock.experiments.es_stream import COUNT, PAPER, TOP, Application
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read, Record
from penstock.experiments.play import Play
from penstock.plan.limits import Limits
from penstock.policies.drs import Drs
from penstock.report.figures import Bars, Figure, Level, Line, Panel

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
        ]
    return found


def bottleneck(data: Data, case: str) -> float:
    """The highest rate of which all comes through, by the second half of its step.

    With a rate that is too high for a while, as before more instances are there, it goes on.
    """
    step, best = float(data.parameters["step"]), 0.0
    for number, rate in enumerate(data.parameters["rates"]):
        begin, end = (number + 0.5) * step, (number + 1) * step
        if reading.throughput(data, case, begin, end) >= 0.97 * rate:
            best = float(rate)
    return best


def _reached(way: str, app: Application) -> Read:
    return lambda data: bottleneck(data, f"{way}, {app.name}")


def picture_13(data: Data) -> Figure:
    ways = ("es-stream", "drs", "even", "even on all")
    names = tuple(app.name for app in APPS)
    bars = tuple(Bars(w, tuple(bottleneck(data, f"{w}, {n}") for n in names)) for w in ways)
    seeds = Bars("es-stream, seed", tuple(app.bottleneck for app in APPS), tone=6)
    panel = Panel("application", "tuples/s", categories=names, bars=(*bars, seeds))
    lines = [Line(w, *reading.rates(data, f"{w}, COMMCount", 5.0)) for w in ways]
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
            for way in ("drs", "even", "even on all")
        ),
    ),
    picture_13,
    size={"rates": tuple(range(2_000, 17_500, 500)), "step": 20.0},
    quick={"rates": tuple(range(6_000, 17_000, 1_000)), "step": 12.0},
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
        ]
    return found


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


def picture_15(data: Data) -> Figure:
    ways = [c for c in data.cases if c.startswith("es-stream")]
    count = tuple(reading.line(data, c, es_stream.instances, style="step") for c in ways)
    nodes = tuple(reading.line(data, c, lambda t: t["executors"], style="step") for c in data.cases)
    times = tuple(reading.line(data, c, _latency) for c in data.cases)
    levels = tuple(Level(n, f"{app}, seed") for app, found in SEEDS.items() for n in found[1:2])
    return Figure(
        "1,800, then 3,600, then 2,700 tuples/s",
        (
            Panel("time (s)", "instances", count, levels=levels),
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
    ),
    picture_15,
    size={"seconds": 260.0},
    quick={"seconds": 230.0},
    no_spark="what M/M/k says of milliseconds does not hold of batches",
)  # fmt: skip

EXPERIMENTS = (FIGURE_13, FIGURE_15)
