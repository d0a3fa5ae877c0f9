"""Joker's figures 8 and 9: several regions, of equal cost and of unequal cost.

Figure 9 doubles its costs from 32 and 4 multiplications on; where it ends is not printed, here with
4,096 and 512.

What the root of the reverse tree does with its two streams is not printed. Here it multiplies for
every tuple of either; tried as well is a root that multiplies once for a pair, one of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.drawing.figures import Bars, Figure, Level, Panel
from penstock.engines.simulator.model import OperatorCost
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock_lab.experiments.joker import common
from penstock_lab.experiments.joker.best_static import BestPlan
from penstock_lab.experiments.joker.common import (
    ONE_MACHINE,
    PAPER,
    STATIC,
    after,
    before,
    middle,
    repeated,
)
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.scenario import Scenario

REGIONS = {
    "tree": (("root",), ("to-left",), ("to-right",)),
    "reverse-tree": (("from-north",), ("from-south",), ("gather", "root")),
    "chain-2": (("multiply-1",), ("multiply-2",)),
    "chain-4": (("multiply-1", "multiply-2"), ("multiply-3", "multiply-4")),
}
"""The regions of each topology by their operators; `gather` only brings two streams together."""


GRAIN, MEET, FINE = 4, 12, 512
"""Tuples for each of the other experiments, and where two streams meet, which share their room
unevenly while tuples are few; from so many multiplications on."""


def topology(
    name: str,
    cost: int,
    seconds: float,
    ratio: float = 1.0,
    pairs: bool = False,
    grain: float | None = None,
) -> Scenario:
    """All operators of one cost, or those of the first region `ratio` times as costly.

    pairs: whether two streams that come together become one tuple for two; grain: another one
    than that of figure 8.
    """
    graph = common.workload(name)
    first, *rest = REGIONS[name]
    steps = {op: common.multiplying(cost) for op in first}
    steps |= {op: common.multiplying(cost / ratio) for region in rest for op in region}
    steps |= (
        {"gather": OperatorCost(selectivity=0.5 if pairs else 1.0)}
        if name == "reverse-tree"
        else {}
    )
    if grain is None:
        grain = 1 if cost < FINE else MEET if name == "reverse-tree" else GRAIN
    return common.scenario(graph, steps, seconds, grain=grain)


def cases(costs: Sequence[int], seconds: float, profile: float) -> Sequence[Case]:
    found = []
    for name in REGIONS:
        for cost in costs:
            scenario = topology(name, cost, seconds)
            policy = replace(common.SEED, profile=profile)
            ours = replace(common.OURS, profile=profile)
            found.append(Case(f"seed, {name}, {cost}", Play(scenario, policy)))
            if cost == costs[-1]:
                found.append(Case(f"organic, {name}, {cost}", Play(scenario, ours)))
                found.append(Case(f"best static, {name}, {cost}", BestPlan(scenario)))
    pairs = topology("reverse-tree", costs[-1], seconds, pairs=True)
    found.append(Case(PAIRS, Play(pairs, replace(common.SEED, profile=profile))))
    return found


PAIRS = "seed, reverse-tree, pairs"


def speedup(data: Data, way: str, name: str, which: int = -1) -> float:
    cost = data.parameters["costs"][which]
    base = before(data, f"seed, {name}, {cost}")
    return after(data, f"{way}, {name}, {cost}") / base


def _of(way: str, name: str) -> Read:
    return lambda data: speedup(data, way, name)


def _chain_beside(tree: str) -> Read:
    """The worse chain over one of the trees."""

    def read(data: Data) -> float:
        chain = min(speedup(data, "seed", name) for name in ("chain-2", "chain-4"))
        if tree == PAIRS:
            return chain / common.speedup(data, PAIRS)
        return chain / speedup(data, "seed", tree)

    return read


def picture(data: Data) -> Figure:
    costs = data.parameters["costs"]
    bars = [
        Bars(str(cost), tuple(speedup(data, "seed", name, at) for name in REGIONS))
        for at, cost in enumerate(costs)
    ]
    last = tuple(speedup(data, "best static", name) for name in REGIONS)
    bars.append(Bars(f"best static, {costs[-1]}", last, tone=6))
    panel = Panel("topology", "speed-up", categories=tuple(REGIONS), bars=tuple(bars))
    return Figure(
        "Several regions, by multiplications of an operator",
        (panel,),
        note=common.note(data, "figure 8"),
    )


_PAIRS = (
    "a tuple passes two operators of the reverse tree as of a chain of two, so that threads bring "
    "as much in both; where the root multiplies once for a pair, three operators work for it as in "
    "the tree, and chains are ahead of both trees as in the paper (below)"
)

_STOPS = (
    "Where the policy stops short of the best static plan on the reverse tree, it is as one branch "
    "does less while the other has more of the room at the root, so that a change that pays for "
    "both together is undone; the best static plan does as much there as in a chain."
)

FIGURE_8 = Experiment(
    "joker-8",
    "Trees and chains of regions",
    PAPER,
    "figure 8",
    cases,
    (
        Claim("the worse chain beside the tree, costly operators", None, _chain_beside("tree"),
              neutral=1.0, side="above"),
        Claim("the worse chain beside the reverse tree, costly operators", None,
              _chain_beside("reverse-tree"), neutral=1.0, side="above", why=_PAIRS),
        Claim("the worse chain beside a reverse tree of pairs", None, _chain_beside(PAIRS)),
        *(Claim(f"speed-up of the {name}, costly operators", None, _of("seed", name), "x")
          for name in REGIONS),
        *(Claim(f"speed-up of the {name} by our own policy", None, _of("organic", name), "x")
          for name in REGIONS),
        *(Claim(f"speed-up of the {name} by the best static plan", None,
                _of("best static", name), "x") for name in REGIONS),
    ),
    picture,
    size={"costs": (64, 512, 4096), "seconds": 450.0, "profile": 30.0},
    quick={"costs": (4096,), "seconds": 260.0, "profile": 20.0},
    no_spark="its regions work, and all of them would share two cores; what the policy does with "
    "one region of operators that wait is shown by joker-5 and joker-11",
    notes=("The paper gives no numbers for this figure.", _STOPS, STATIC, ONE_MACHINE),
)  # fmt: skip


# --- figure 9 -----------------------------------------------------------------------------------


def fine(cost: int) -> float:
    """Tuples for each of the other experiments: about as many a second, whatever they cost.

    What the tenth replica brings is half a percent above what it has to, so that many have to be
    counted before it shows.
    """
    return max(1, cost // 128)


def unequal(costs: Sequence[int], seconds: float, profile: float, draws: int) -> Sequence[Case]:
    """draws: of the costliest under the paper's policy."""
    policy = replace(common.SEED, profile=profile)
    ours = replace(common.OURS, profile=profile)
    *flows, last = (topology("chain-2", c, seconds, 8.0, grain=fine(c)) for c in costs)
    lower = replace(policy, improvement=LOWER)
    return (
        *(Case(f"seed, {c}", Play(s, policy)) for c, s in zip(costs[:-1], flows, strict=True)),
        *repeated(Case(f"seed, {costs[-1]}", Play(last, policy)), draws),
        Case(f"organic, {costs[-1]}", Play(last, ours)),
        Case(f"best static, {costs[-1]}", BestPlan(last)),
        Case(f"lower, {costs[-1]}", Play(last, lower)),
    )


LOWER = 0.075
"""What a change has to bring where less is asked for: a 13th replica that is as good as the others
brings a twelfth, less what they are in each other's way."""


def _last(way: str, which: int = -1) -> Read:
    def read(data: Data) -> float:
        cost = data.parameters["costs"][which]
        return common.speedup(data, f"{way}, {cost}", f"seed, {cost}")

    return middle(read)


def _replicas(operator: str, which: int = -1, way: str = "seed") -> Read:
    def read(data: Data) -> float:
        ticks = data.of(f"{way}, {data.parameters['costs'][which]}")
        return float(common.replicas(ticks[-1], operator))

    return middle(read)


def _cheap_ones(choose: Callable[[Sequence[float]], float]) -> Read:
    """The replicas of the cheap region, over all costs."""

    def read(data: Data) -> float:
        costs = data.parameters["costs"]
        return choose([_replicas("multiply-2", at)(data) or 0.0 for at in range(len(costs))])

    return read


def picture_9(data: Data) -> Figure:
    costs = data.parameters["costs"]
    names = tuple(f"{c} / {c // 8}" for c in costs)
    speeds = tuple(_last("seed", at)(data) for at in range(len(costs)))
    up = tuple(_replicas("multiply-1", at)(data) for at in range(len(costs)))
    down = tuple(_replicas("multiply-2", at)(data) for at in range(len(costs)))
    scale = fine(costs[-1])
    case = f"seed, {costs[-1]}"
    ticks = [reading.line(data, case, lambda t: t["throughput"] / scale, "ktps")]
    return Figure(
        "A costly region before a cheap one",
        (
            Panel("multiplications", "speed-up and replicas", categories=names,
                  bars=(Bars("speed-up", speeds), Bars("replicas, first region", up),
                        Bars("replicas, second region", down)),
                  levels=(Level(12, "speed-up, reported"),)),
            Panel("time (s)", "ktps delivered", tuple(ticks),
                  marks=reading.marks(data, f"seed, {costs[-1]}", "multiply-1"),
                  marked="replicas of the first region"),
        ),
        note=common.note(data, "figure 9"),
    )  # fmt: skip


_LESS_AND_LESS = (
    "a change has to bring more than 10 %, and the more replicas there are the less one more "
    "brings; the paper has the same threshold and does not say how its last ones passed it; where "
    "less is asked for, more stay (below)"
)

_QUARTER = (
    "a tuple takes the cheap region a quarter of the time of the costly one, with its hop; it has "
    "more than a quarter of the replicas as threads that look for tuples count as busy"
)
_HOPS = (
    "with few multiplications a hop is most of what either region takes, so the cheap one needs as "
    "many replicas as the costly one until the source is full; with many it needs fewer; the paper "
    "has four in all its runs and does not say why"
)

FIGURE_9 = Experiment(
    "joker-9",
    "A costly region before a cheap one",
    PAPER,
    "figure 9",
    unequal,
    (
        Claim("speed-up, costly operators", 12.0, _last("seed"), "x", 1.0, "higher",
              why=_LESS_AND_LESS, basis="given"),
        Claim("replicas of the costly region", 13.0, _replicas("multiply-1"),
              why=_LESS_AND_LESS, basis="given"),
        Claim("replicas of the cheap region, costly operators", 4.0, _replicas("multiply-2"),
              why=_QUARTER),
        Claim("replicas of the cheap region, cheap operators", 4.0, _replicas("multiply-2", 0),
              why=_HOPS),
        Claim("replicas of the cheap region: most of all costs beside fewest", 1.0,
              lambda d: (_cheap_ones(max)(d) or 0.0) / (_cheap_ones(min)(d) or 1.0),
              within=0.1, why=_HOPS),
        Claim("where a change has to bring 7.5 %: replicas of the costly region", 13.0,
              _replicas("multiply-1", -1, "lower"), basis="varied"),
        Claim("where a change has to bring 7.5 %: replicas of the cheap region", 4.0,
              _replicas("multiply-2", -1, "lower"), basis="varied"),
        Claim("where a change has to bring 7.5 %: speed-up", 12.0, _last("lower"), "x", 1.0,
              basis="varied"),
        Claim("speed-up by our own policy", None, _last("organic"), "x"),
        Claim("speed-up of the best static plan", None, _last("best static"), "x"),
    ),
    picture_9,
    size={"costs": (32, 128, 512, 2048, 4096), "seconds": 450.0, "profile": 30.0, "draws": 3},
    quick={"costs": (32, 4096), "seconds": 320.0, "profile": 20.0, "draws": 1},
    no_spark="its regions work, and all of them would share two cores; what the policy does with "
    "one region of operators that wait is shown by joker-5 and joker-11",
    notes=("Numbers of the paper's policy with the costliest operators are medians of some draws.",
           "Given: how much replicas are in each other's way is fitted to this figure, so that 13 "
           "replicas do 12 times as much as one. What a number of replicas does follows from that. "
           "With the paper's threshold of 10 % the policy stops at 10 of the 13.",
           STATIC, ONE_MACHINE),
)  # fmt: skip

EXPERIMENTS = (FIGURE_8, FIGURE_9)
