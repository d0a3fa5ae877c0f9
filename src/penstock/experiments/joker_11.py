"""Joker's figures 11, 12, 14 and 15: what its thresholds do.

Figure 11: one operator of 256 multiplications, and a rate that doubles from 40 to 640 ktps, while
one thread does 500. Figure 12: figure 5's four operators with other thresholds of throughput.
Figures 14 and 15: two operators of which the shares of a thread's time are printed (0.75 and 0.10,
0.45 and 0.40), so that the hop is the rest; a thread does 100 ktps here, which is not printed and
does not matter. Figure 14 ends when the source is full: it emits what four replicas do, as the
seed's algorithm resolves that bottleneck in four steps; figure 15 has all threads.

A thread of the seed is busier than its tuples make it: above 0.5 at 160 ktps and above 0.8 at 320,
of 500 that it can do. Tried as well are thresholds that 160 and 320 of 500 exceed, 0.3 and 0.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.engines.simulator.model import Step
from penstock.engines.simulator.scenario import Scenario
from penstock.engines.simulator.service import Gamma
from penstock.experiments import joker, reading
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock.experiments.joker import ONE_MACHINE, PAPER
from penstock.experiments.joker_5 import region
from penstock.experiments.joker_best import Best
from penstock.experiments.play import Play
from penstock.experiments.rivals import scaled
from penstock.policies.organic import Organic
from penstock.report.figures import Bars, Figure, Level, Line, Panel

# --- figure 11 ----------------------------------------------------------------------------------

RATES = (40, 80, 160, 320, 640)
BUSY = (0.5, 0.8, 0.95)
LOWER = (0.3, 0.6)


def doubled(step: float, profile: float) -> Sequence[Case]:
    graph = joker.workload("region-4", multiplications="256")
    load = f"steps:{','.join(map(str, RATES))}@{step:g}s"
    scenario = joker.scenario(
        graph, {"multiply-1": joker.multiplying(256)}, len(RATES) * step, load=load
    )
    seed = [
        Case(f"{busy}", Play(scenario, replace(_seed(profile), bottleneck=busy, target=0.2)))
        for busy in (*BUSY, *LOWER)
    ]
    return (
        *seed,
        Case("organic", Play(scenario, replace(joker.OURS, profile=profile))),
        Case("best static", Play(scenario, plan=scaled(scenario.plan, {"multiply-1": NEEDED}))),
    )


NEEDED = 2
"""Replicas for 640 ktps, of which one does 500: no static plan can have fewer."""


def _seed(profile: float) -> Organic:
    return replace(joker.SEED, profile=profile)


def most(case: str, which: int, at_end: bool = False) -> Read:
    """The most replicas while a rate lasted, or those at its end; rates are counted from 0."""

    def read(data: Data) -> float:
        step = float(data.parameters["step"])
        ticks = reading.between(data.of(case), which * step + 1, (which + 1) * step - 1)
        found = [joker.replicas(t, "multiply-1") for t in ticks]
        return float(found[-1] if at_end else max(found))

    return read


def _single(data: Data) -> float:
    """What one thread does when more comes than it can do."""
    step = float(data.parameters["step"])
    ticks = reading.between(data.of("0.95"), 4 * step + 3, 5 * step)
    alone = [t for t in ticks if joker.replicas(t, "multiply-1") == 1]
    return float(alone[-1]["pipelines"]["multiply-1"]["rate_in"])


def _handled(data: Data) -> float:
    """The share of 640 ktps that is carried at the end."""
    end = float(data.of("0.8")[-1]["at"])
    rate = reading.throughput(data, "0.8", end - 15, end)
    return min(1.0, rate / 640)


def _time(case: str) -> Read:
    """Threads times the time they were there, of which the fewest carry all that comes."""
    return lambda data: reading.task_hours(data, case) / reading.task_hours(data, "best static")


def picture_11(data: Data) -> Figure:
    cases = [str(b) for b in BUSY] + ["organic"]
    rate = Line("offered", *reading.rates(data, "0.8", 2.0, "offered"), tone=6, faint=True)
    through = [Line(_named(c), *reading.rates(data, c, 2.0)) for c in cases]
    counts = tuple(_replicas(data, c, 0.04 * at) for at, c in enumerate(cases))
    return Figure(
        "When a thread counts as too busy",
        (
            Panel("time (s)", "ktps", (rate, *through)),
            Panel("time (s)", "replicas", counts),
        ),
        note=joker.note(data, "figure 11"),
    )


def _replicas(data: Data, case: str, apart: float) -> Line:
    """Lines a little apart, so that none hides another."""
    return reading.line(
        data, case, lambda t: joker.replicas(t, "multiply-1") + apart, _named(case), style="step"
    )


def _named(case: str) -> str:
    return case if case == "organic" else f"threshold {case}"


_IDLE = (
    "160 and 320 ktps of 500 make a thread busy 0.32 and 0.64 here; in the seed a thread that goes "
    "round its queues is busy, too; thresholds that 0.32 and 0.64 exceed do what the seed says: a "
    "second replica is tried and taken back (below)"
)

FIGURE_11 = Experiment(
    "joker-11",
    "When a thread counts as too busy",
    PAPER,
    "figure 11",
    doubled,
    (
        Claim("most replicas at 160 ktps, threshold 0.5", 2.0, most("0.5", 2), why=_IDLE),
        Claim("most replicas at 320 ktps, threshold 0.5", 2.0, most("0.5", 3)),
        Claim("most replicas at 320 ktps, threshold 0.8", 2.0, most("0.8", 3), why=_IDLE),
        Claim("most replicas at 320 ktps, threshold 0.95", 1.0, most("0.95", 3)),
        Claim("replicas at the end of 320 ktps, threshold 0.5", 1.0, most("0.5", 3, True)),
        Claim("throughput of one thread at 640 ktps (given)", 500.0, _single, "ktps"),
        Claim("replicas at the end, threshold 0.5", 2.0, most("0.5", 4, True)),
        Claim("replicas at the end, threshold 0.8", 2.0, most("0.8", 4, True)),
        Claim("replicas at the end, threshold 0.95", 2.0, most("0.95", 4, True)),
        Claim("share of 640 ktps that is carried in the end", 1.0, _handled),
        Claim("most replicas at 80 ktps, threshold 0.3 (seed: 0.5)", 1.0, most("0.3", 1)),
        Claim("most replicas at 160 ktps, threshold 0.3 (seed: 0.5)", 2.0, most("0.3", 2)),
        Claim("replicas at the end of 160 ktps, threshold 0.3 (seed: 0.5)", 1.0,
              most("0.3", 2, True)),
        Claim("most replicas at 160 ktps, threshold 0.6 (seed: 0.8)", 1.0, most("0.6", 2)),
        Claim("most replicas at 320 ktps, threshold 0.6 (seed: 0.8)", 2.0, most("0.6", 3)),
        Claim("replicas at the end, our own policy", None, most("organic", 4, True)),
        Claim("thread hours with threshold 0.8 beside the best static plan", None, _time("0.8")),
        Claim("thread hours of our own policy beside the best static plan", None,
              _time("organic")),
    ),
    picture_11,
    size={"step": 150.0, "profile": 30.0},
    quick={"step": 50.0, "profile": 10.0},
    no_spark="its two cores show figure 5 only",
    notes=(ONE_MACHINE,),
)  # fmt: skip


# --- figure 12 ----------------------------------------------------------------------------------

GAINS = (0.1, 0.2, 0.4)


def gained(costs: Sequence[int], seconds: float, profile: float) -> Sequence[Case]:
    found = []
    for cost in costs:
        scenario = region(4, cost, seconds)
        for gain in GAINS:
            policy = replace(_seed(profile), improvement=gain)
            found.append(Case(f"{gain}, {cost}", Play(scenario, policy)))
        found.append(Case(f"best static, {cost}", Best(scenario)))
    return found


def _beside(gain: float | str, which: int) -> Read:
    """The speed-up with a threshold, or of the best plan, over that with 0.1."""

    def read(data: Data) -> float:
        cost = data.parameters["costs"][which]
        return joker.after(data, f"{gain}, {cost}") / joker.after(data, f"0.1, {cost}")

    return read


def picture_12(data: Data) -> Figure:
    costs = data.parameters["costs"]
    bars = [
        Bars(f"threshold {g:.0%}", tuple(joker.speedup(data, f"{g}, {c}") for c in costs))
        for g in GAINS
    ]
    best = (joker.speedup(data, f"best static, {c}", f"0.1, {c}") for c in costs)
    bars.append(Bars("best static", tuple(best), tone=6))
    panel = Panel(
        "multiplications", "speed-up", categories=tuple(map(str, costs)), bars=tuple(bars)
    )
    return Figure("What a change has to bring", (panel,), note=joker.note(data, "figure 12"))


FIGURE_12 = Experiment(
    "joker-12",
    "What a change has to bring",
    PAPER,
    "figure 12",
    gained,
    (
        Claim("speed-up with 0.2 beside 0.1, costly operators", 1.0, _beside(0.2, -1),
              why="the sixth replica of four pipelines brings just under 20 % here, and goes"),
        Claim("speed-up with 0.4 beside 0.1, costly operators (far below 1)", None,
              _beside(0.4, -1)),
        Claim("speed-up with 0.2 beside 0.1, cheap operators (below 1)", None, _beside(0.2, 0)),
        Claim("speed-up with 0.4 beside 0.1, cheap operators (below 1)", None, _beside(0.4, 0)),
        Claim("best static plan beside 0.1, costly operators", None, _beside("best static", -1)),
        Claim("best static plan beside 0.1, cheap operators", None, _beside("best static", 0)),
    ),
    picture_12,
    size={"costs": (16, 256, 4096), "seconds": 420.0, "profile": 30.0},
    quick={"costs": (16, 4096), "seconds": 160.0, "profile": 10.0},
    no_spark="its two cores show figure 5 only",
    notes=(ONE_MACHINE,),
)  # fmt: skip


# --- figures 14 and 15 --------------------------------------------------------------------------

_THREAD = 100.0


def shared(first: float, second: float, seconds: float, source: float) -> Scenario:
    """Two operators with these shares of the time of a thread that does 100 ktps."""
    graph = joker.workload("region-4", multiplications="1,1")
    steps = {
        "multiply-1": Step(Gamma(first / _THREAD, 0.1), keys=joker.KEYS),
        "multiply-2": Step(Gamma(second / _THREAD, 0.1), keys=joker.KEYS),
    }
    hop = (1 - first - second) / _THREAD
    return joker.scenario(graph, steps, seconds, source=1 / source, load=1.2 * source, hop=hop)


def split(seconds: float, profile: float) -> Sequence[Case]:
    found = []
    for name, shares, source, thresholds in (
        ("unequal", (0.75, 0.10), 4.0 * _THREAD, (0.2, 0.1)),
        ("equal", (0.45, 0.40), 3200.0, (0.2, 0.9)),
    ):
        scenario = shared(*shares, seconds, source)
        for threshold in thresholds:
            policy = replace(_seed(profile), split_utility=threshold)
            found.append(Case(f"{name}, {threshold}", Play(scenario, policy)))
        ours = replace(joker.OURS, profile=profile)
        found.append(Case(f"{name}, organic", Play(scenario, ours)))
        found.append(Case(f"{name}, best static", Best(scenario)))
    return found


def _cuts(case: str) -> Read:
    """How often a cut was tried."""
    return lambda data: float(sum("split into" in c["reason"] for c in data.of(case, "change")))


def _less(data: Data) -> float:
    """By which share the speed-up with 0.9 is below that with 0.2."""
    low, high = (joker.after(data, f"equal, {t}") for t in (0.2, 0.9))
    return 1 - high / low


def _after(name: str, way: str) -> Read:
    """The throughput of a way over that with the seed's threshold."""
    return lambda d: joker.after(d, f"{name}, {way}") / joker.after(d, f"{name}, 0.2")


def picture_14(data: Data) -> Figure:
    panels = []
    for name in ("unequal", "equal"):
        cases = [c for c in data.cases if c.startswith(f"{name},") and "best" not in c]
        lines = []
        for case in cases:
            times, rates = reading.rates(data, case, 5.0, "ingested")
            lines.append(Line(case, times, tuple(r / _THREAD for r in rates)))
        panels.append(Panel("time (s)", "speed-up", tuple(lines), title=name))
    level = Level(4.0, "source")
    panels[0] = replace(panels[0], levels=(level,))
    return Figure(
        "What a cut has to promise", tuple(panels), note=joker.note(data, "figures 14 and 15")
    )


FIGURE_14 = Experiment(
    "joker-14",
    "What a cut has to promise",
    PAPER,
    "figures 14 and 15",
    split,
    (
        Claim("unequal operators, 0.2: cuts that are tried", 0.0, _cuts("unequal, 0.2")),
        Claim("unequal operators, 0.1: a cut is tried and taken back (1: yes)", 1.0,
              lambda data: float((_cuts("unequal, 0.1")(data) or 0) > 0)),
        Claim("unequal operators, 0.1 beside 0.2: speed-up", 1.0,
              lambda d: joker.after(d, "unequal, 0.1") / joker.after(d, "unequal, 0.2")),
        Claim("equal operators, 0.2: cuts that are tried (1 or more)", 1.0,
              lambda data: float((_cuts("equal, 0.2")(data) or 0) > 0)),
        Claim("equal operators, 0.9: cuts that are tried", 0.0, _cuts("equal, 0.9")),
        Claim("equal operators, 0.9: how much less speed-up than with 0.2", 0.4, _less,
              neutral=0.0,
              why="replicas alone end where one more brings 10 %, at ten or eleven here and at "
              "eight in the seed"),
        Claim("equal operators, 0.9: replicas", 8.0,
              lambda d: float(joker.replicas(d.of("equal, 0.9")[-1], "multiply-1")),
              why="each replica does as much as the first here, so they pay up to the tenth"),
        *(Claim(f"{name} operators: {way} beside 0.2", None, _after(name, way))
          for name in ("unequal", "equal") for way in ("organic", "best static")),
    ),
    picture_14,
    size={"seconds": 420.0, "profile": 30.0},
    quick={"seconds": 170.0, "profile": 10.0},
    no_spark="its two cores show figure 5 only",
    notes=(ONE_MACHINE,),
)  # fmt: skip

EXPERIMENTS = (FIGURE_11, FIGURE_12, FIGURE_14)
