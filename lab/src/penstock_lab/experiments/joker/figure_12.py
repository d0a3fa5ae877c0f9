"""Joker's figures 12, 14 and 15: what a change has to bring, and what a cut has to promise.

Figure 12: figure 5's four operators with other thresholds of throughput. Figures 14 and 15: two
operators of which the shares of a thread's time are printed (0.75 and 0.10, 0.45 and 0.40), so that
the hop is the rest; a thread does 100 ktps here, which is not printed and does not matter. To give
a tuple to another thread takes half as long as to get one, which is a choice: from 0.07 of it to
all of it the cuts of figure 14 bring too little, as in the paper, and those of figure 15 enough.
Tried as well is that it takes nothing, as in the other experiments, whose hop follows from rates.
Figure 14 ends when the source is full: it emits what five replicas do, as the paper's algorithm
resolves that bottleneck in four steps of one replica each; figure 15 has all threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.drawing.figures import Bars, Figure, Level, Line, Panel
from penstock.engines.simulator.distributions import Gamma
from penstock.engines.simulator.model import OperatorCost
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock_lab.experiments.joker import common
from penstock_lab.experiments.joker.best_static import BestPlan
from penstock_lab.experiments.joker.common import ONE_MACHINE, PAPER, STATIC, middle, repeated
from penstock_lab.experiments.joker.figure_5 import region
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.scenario import Scenario

# --- figure 12 ----------------------------------------------------------------------------------

GAINS = (0.1, 0.2, 0.4)


def gained(costs: Sequence[int], seconds: float, profile: float) -> Sequence[Case]:
    found = []
    for cost in costs:
        scenario = region(4, cost, seconds)
        for gain in GAINS:
            policy = replace(common.SEED, profile=profile, improvement=gain)
            found.append(Case(f"{gain}, {cost}", Play(scenario, policy)))
        found.append(Case(f"best static, {cost}", BestPlan(scenario)))
        if cost in (costs[0], costs[-1]):
            alone = replace(scenario, model=replace(scenario.model, crowding=0.0))
            for gain in GAINS[:2]:
                policy = replace(common.SEED, profile=profile, improvement=gain)
                found.append(Case(f"{ALONE}{gain}, {cost}", Play(alone, policy)))
    return found


ALONE = "nobody in the way, "


def _beside(gain: float | str, which: int, way: str = "") -> Read:
    """The speed-up with a threshold, or of the best plan, over that with 0.1."""

    def read(data: Data) -> float:
        cost = data.parameters["costs"][which]
        return common.after(data, f"{way}{gain}, {cost}") / common.after(data, f"{way}0.1, {cost}")

    return read


def _cheap_beside_costly(data: Data, way: str = "") -> float:
    """What is left of the speed-up with 0.2, of cheap operators beside costly ones."""
    return (_beside(0.2, 0, way)(data) or 0.0) / (_beside(0.2, -1, way)(data) or 1.0)


def picture_12(data: Data) -> Figure:
    costs = data.parameters["costs"]
    bars = [
        Bars(f"threshold {g:.0%}", tuple(common.speedup(data, f"{g}, {c}") for c in costs))
        for g in GAINS
    ]
    best = (common.speedup(data, f"best static, {c}", f"0.1, {c}") for c in costs)
    bars.append(Bars("best static", tuple(best), tone=6))
    panel = Panel(
        "multiplications", "speed-up", categories=tuple(map(str, costs)), bars=tuple(bars)
    )
    return Figure("What a change has to bring", (panel,), note=common.note(data, "figure 12"))


_LAST = (
    "by chance: the last replica of four pipelines that stays with 0.1 adds about 0.2, and is "
    "removed where it adds less"
)

FIGURE_12 = Experiment(
    "joker-12",
    "What a change has to bring",
    PAPER,
    "figure 12",
    gained,
    (
        Claim("speed-up with 0.2 beside 0.1, costly operators", 1.0, _beside(0.2, -1),
              within=0.1, why=_LAST),
        Claim("speed-up with 0.4 beside 0.1, costly operators", None, _beside(0.4, -1),
              neutral=1.0, side="below"),
        Claim("speed-up with 0.2 beside 0.1, cheap operators", None, _beside(0.2, 0),
              neutral=1.0, side="below"),
        Claim("speed-up with 0.4 beside 0.1, cheap operators", None, _beside(0.4, 0),
              neutral=1.0, side="below"),
        Claim("what 0.2 leaves of the speed-up with 0.1, cheap beside costly operators", None,
              _cheap_beside_costly, neutral=1.0, side="below"),
        Claim("replicas not in each other's way: what 0.2 leaves of the speed-up with 0.1, cheap "
              "beside costly operators", None, lambda d: _cheap_beside_costly(d, ALONE),
              neutral=1.0, side="below", basis="varied"),
        Claim("best static plan beside 0.1, costly operators", None, _beside("best static", -1)),
        Claim("best static plan beside 0.1, cheap operators", None, _beside("best static", 0)),
    ),
    picture_12,
    size={"costs": (16, 256, 4096), "seconds": 420.0, "profile": 30.0},
    quick={"costs": (16, 4096), "seconds": 250.0, "profile": 20.0},
    no_spark="for operators that wait, the n-th slot adds 1/n more until no slot is left, so "
             "each threshold's final plan is arithmetic; operators that compute have only two "
             "cores",
    notes=(
        "The paper prints no numbers here and says that cheap operators lose drastically with "
        "0.2; here they lose more than costly ones, as replicas slow each other down, which "
        "matters more for cheap operators.",
        STATIC,
        ONE_MACHINE,
    ),
)  # fmt: skip


# --- figures 14 and 15 --------------------------------------------------------------------------

_THREAD = 100.0
_FULL = 5.0
"""Replicas with which the source of figure 14 is full."""


_SENDING = 0.5
"""What it takes to give a tuple to another thread, beside getting it."""


FINE = 16
"""Tuples for each of the other experiments where the last replicas bring hardly more than they have
to, so that many have to be counted before it shows."""


def shared(
    first: float,
    second: float,
    seconds: float,
    source: float,
    sending: float = _SENDING,
    grain: float = 1.0,
) -> Scenario:
    """Two operators with these shares of the time of a thread that does 100 ktps."""
    graph = common.workload("region-4", multiplications="1,1")
    steps = {
        "multiply-1": OperatorCost(Gamma(first / _THREAD, 0.1), keys=common.KEYS),
        "multiply-2": OperatorCost(Gamma(second / _THREAD, 0.1), keys=common.KEYS),
    }
    hop = (1 - first - second) / _THREAD
    found = common.scenario(
        graph, steps, seconds, source=1 / source, load=1.2 * source, hop=hop, grain=grain
    )
    return replace(found, model=replace(found.model, send=sending * hop / grain))


def split(seconds: float, profile: float, draws: int) -> Sequence[Case]:
    """draws: of each flow under the paper's policy."""
    found: list[Case] = []
    for name, shares, source, grain, thresholds in (
        ("unequal", (0.75, 0.10), _FULL * _THREAD, 1, (0.2, 0.1)),
        ("equal", (0.45, 0.40), 3200.0, FINE, (0.2, 0.9)),
    ):
        scenario = shared(*shares, seconds, source, grain=grain)
        for threshold in thresholds:
            policy = replace(common.SEED, profile=profile, split_utility=threshold)
            found += repeated(Case(f"{name}, {threshold}", Play(scenario, policy)), draws)
        ours = replace(common.OURS, profile=profile)
        found.append(Case(f"{name}, organic", Play(scenario, ours)))
        found.append(Case(f"{name}, best static", BestPlan(scenario)))
    free = shared(0.75, 0.10, seconds, _FULL * _THREAD, 0.0)
    policy = replace(common.SEED, profile=profile, split_utility=0.1)
    return (*found, Case(FREE, Play(free, policy)))


FREE = "sending for nothing, unequal, 0.1"


def _cuts(case: str) -> Read:
    """How often a cut was tried."""
    return lambda data: float(sum("split into" in c["reason"] for c, _ in common.tries(data, case)))


def _cuts_kept(case: str) -> Read:
    """How many of them stayed."""
    return lambda data: float(
        sum("split into" in c["reason"] for c, stayed in common.tries(data, case) if stayed)
    )


def _steps(case: str) -> Read:
    """How many changes stayed."""
    return lambda data: float(sum(stayed for _, stayed in common.tries(data, case)))


def _replicas(data: Data) -> float:
    """Those of equal operators that are not cut, at the end."""
    return float(common.replicas(data.of("equal, 0.9")[-1], "multiply-1"))


def _longer(data: Data) -> float:
    """How many times as long it takes with 0.1 as with 0.2 until the last change that stays."""
    low, high = (
        max((c["at"] for c, stayed in common.tries(data, f"unequal, {t}") if stayed), default=None)
        for t in (0.1, 0.2)
    )
    if low is None or high is None:
        raise KeyError("nothing was changed")
    return float(low / high)


def _less(data: Data) -> float:
    """By which share the speed-up with 0.9 is below that with 0.2."""
    low, high = (common.after(data, f"equal, {t}") for t in (0.2, 0.9))
    return 1 - high / low


def _after(name: str, way: str) -> Read:
    """The throughput of a way over that with the paper's threshold."""
    return lambda d: common.after(d, f"{name}, {way}") / common.after(d, f"{name}, 0.2")


MARKED = {"unequal": 0.1, "equal": 0.2}
"""The thresholds with which a cut is tried, of which the picture marks the changes."""


def picture_14(data: Data) -> Figure:
    panels = []
    for name in ("unequal", "equal"):
        cases = [c for c in data.cases if c.startswith(f"{name},") and "best" not in c]
        cases = [c for c in cases if c.count(", ") == 1]  # the first draw
        marked = f"{name}, {MARKED[name]}"
        marks = common.marks(data, marked) if marked in cases else ()
        lines, base = [], common.before(data, cases[0])
        for case in cases:
            times, rates = reading.rates(data, case, 5.0, "ingested")
            lines.append(Line(case, times, tuple(r / base for r in rates)))
        title = f"{name} operators; marked: threshold {MARKED[name]}"
        panels.append(Panel("time (s)", "speed-up", tuple(lines), marks=marks, title=title))
    level = Level(_FULL, "source")
    panels[0] = replace(panels[0], levels=(level,))
    return Figure(
        "What a cut has to promise", tuple(panels), note=common.note(data, "figures 14 and 15")
    )


_EACH = (
    "a cut is tried before each replica and undone, as in the paper; how often depends on when "
    "the source is full"
)
_ALONE = (
    "replicas slow each other down less here, as much as the thirteen of figure 9; in the paper "
    "the execution congests after eight"
)
WAYS = {"organic": "our own policy", common.BEST: "the best static plan"}


def told(name: str, threshold: float) -> str:
    return f"{name} operators, a cut has to promise {100 * threshold:.0f} %"


def drawn(claim: Claim) -> Claim:
    """A claim of which the median of all draws is told."""
    return replace(claim, read=middle(claim.read))


FIGURE_14 = Experiment(
    "joker-14",
    "What a cut has to promise",
    PAPER,
    "figures 14 and 15",
    split,
    tuple(map(drawn, (
        Claim(f"{told('unequal', 0.2)}: cuts that are tried", 0.0, _cuts("unequal, 0.2"),
              basis="given"),
        Claim(f"{told('unequal', 0.2)}: changes until the source is full", 4.0,
              _steps("unequal, 0.2"), basis="given"),
        Claim(f"{told('unequal', 0.1)}: cuts that are tried", 4.0, _cuts("unequal, 0.1"),
              why=_EACH, basis="given"),
        Claim(f"{told('unequal', 0.1)}: cuts that stay", 0.0, _cuts_kept("unequal, 0.1"),
              why=_EACH, basis="given"),
        Claim(f"{told('unequal', 0.1)}, sending for nothing: cuts that are tried", None,
              _cuts(FREE)),
        Claim(f"{told('unequal', 0.1)}, sending for nothing: cuts that stay", None,
              _cuts_kept(FREE)),
        Claim("unequal operators, 10 % beside 20 %: time until the last change that stays", None,
              _longer, neutral=1.0, side="above", basis="given"),
        Claim("unequal operators, 10 % beside 20 %: speed-up", 1.0,
              lambda d: common.after(d, "unequal, 0.1") / common.after(d, "unequal, 0.2"),
              basis="given"),
        Claim(f"{told('equal', 0.2)}: cuts that are tried", 1.0, _cuts("equal, 0.2"),
              basis="given"),
        Claim(f"{told('equal', 0.2)}: cuts that stay", 1.0, _cuts_kept("equal, 0.2"),
              basis="given"),
        Claim(f"{told('equal', 0.9)}: cuts that are tried", 0.0, _cuts("equal, 0.9"),
              basis="given"),
        Claim("equal operators, 90 % beside 20 %: how much less speed-up, as a share", 0.4, _less,
              neutral=0.0, why=_ALONE),
        Claim(f"{told('equal', 0.9)}: replicas", 8.0, _replicas, why=_ALONE),
        *(Claim(f"{name} operators: throughput of {words} beside that of the paper's with 20 %",
                None, _after(name, way))
          for name in ("unequal", "equal") for way, words in WAYS.items()),
    ))),
    picture_14,
    size={"seconds": 420.0, "profile": 30.0, "draws": 3},
    quick={"seconds": 290.0, "profile": 20.0, "draws": 1},
    no_spark="what a cut promises is what operators cost beside a hop between threads, and the hop "
    "of Spark is a query of its own, with what each of its batches costs",
    notes=("Numbers of the paper's policy are medians of several draws.",
           "Given: which cuts are tried, as the shares of the operators are printed and what a cut "
           "promises is the paper's own formula; which of them stay, as what it takes to give a "
           "tuple to another thread is chosen so; and how often one is tried, and so how long it "
           "takes, as the source is full after as many changes as the paper says. What is found is "
           "what the policy ends with where operators are equal.",
           STATIC, ONE_MACHINE),
)  # fmt: skip

EXPERIMENTS = (FIGURE_12, FIGURE_14)
