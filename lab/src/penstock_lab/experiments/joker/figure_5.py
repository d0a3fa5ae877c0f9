"""Joker's figures 5 and 6: pipelines and replicas together do more than either alone.

Why replicas alone end at about ten: an eleventh would bring a tenth more, less what they are in
each other's way, and a change has to bring more than that.

What is tried to show why cheap operators do not gain by both: the same with hops that cost nothing
and a source that is never full; and why they gain more by replicas than in the paper: the same with
replicas that are as much in each other's way as the counters of the word count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from penstock.drawing.figures import Bars, Figure, Level, Panel
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock_lab.experiments.joker import common, figure_18, fission_spark
from penstock_lab.experiments.joker.best_static import BestPlan
from penstock_lab.experiments.joker.common import ONE_MACHINE, PAPER, STATIC
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.scenario import Scenario

ORDERS = {
    "fusion only": "fusion",
    "fission only": "fission",
    "fusion first": "fusion-first",
    "fission first": "fission-first",
}

FREE = ("fusion only", "fission only", "fusion first")
"""What is also tried with the cheapest operators, free hops and a source that is never full."""


CROWDED = "fission only, crowded"

GRAIN = 4
"""Tuples for each of the other experiments, at least: fewer are dealt so unevenly that it is up to
chance whether a replica brings 20 %."""


def region(
    operators: int,
    multiplications: int,
    seconds: float,
    free: bool = False,
    crowding: float = common.CROWDING,
) -> Scenario:
    """A source and one region of operators that are all alike; free: hops and the source are."""
    written = ",".join([str(multiplications)] * operators)
    graph = common.workload("region-4", multiplications=written)
    step = common.multiplying(multiplications)
    steps = {f"multiply-{n}": step for n in range(1, operators + 1)}
    if not free:
        grain = max(GRAIN, round(200 * operators * step.service.mean))
        return common.scenario(graph, steps, seconds, crowding=crowding, grain=grain)
    fast = common.SOURCE / 100
    return common.scenario(
        graph, steps, seconds, load=1.2 / fast, source=fast, hop=0.0, crowding=0.0, grain=0.03
    )


def cases(costs: Sequence[int], seconds: float, profile: float) -> Sequence[Case]:
    found = []
    for cost in costs:
        scenario = region(4, cost, seconds)
        for name, order in ORDERS.items():
            policy = replace(common.SEED, order=order, profile=profile)
            found.append(Case(f"{name}, {cost}", Play(scenario, policy)))
        ours = replace(common.OURS, profile=profile)
        found.append(Case(f"organic, {cost}", Play(scenario, ours)))
        found.append(Case(f"best static, {cost}", BestPlan(scenario)))
    for name in FREE:
        policy = replace(common.SEED, order=ORDERS[name], profile=profile)
        found.append(Case(f"{name}, free", Play(region(4, costs[0], seconds, True), policy)))
    crowded = region(4, costs[0], seconds, crowding=figure_18.CROWDING)
    policy = replace(common.SEED, order="fission", profile=profile)
    return [*found, Case(CROWDED, Play(crowded, policy))]


def on_spark(
    costs: Sequence[str], seconds: float, load: str, profile: float, static: float
) -> Sequence[Case]:
    """static: seconds of each static plan."""
    found = []
    for cost in costs:
        for name, order in ORDERS.items():
            policy = fission_spark.policy(order, profile)
            found.append(Case(f"{name}, {cost}", fission_spark.play(seconds, load, policy)))
        found.append(Case(f"best static, {cost}", fission_spark.best(static, load)))
    return found


# --- reading ------------------------------------------------------------------------------------


def speedup(data: Data, name: str, cost: int | str) -> float:
    """Over one thread for the region."""
    own, base = f"{name}, {cost}", f"fusion only, {cost}"
    if data.engine == "spark":
        return fission_spark.after(data, own) / fission_spark.before(data, base)
    return common.speedup(data, own, base)


def at(name: str, which: int = -1) -> Read:
    """The speed-up of a way at one of the costs, the highest if none is said."""
    return lambda data: speedup(data, name, data.parameters["costs"][which])


def beside(name: str, other: str, which: int = -1) -> Read:
    """One speed-up over another."""

    def read(data: Data) -> float | None:
        mine, others = at(name, which)(data), at(other, which)(data)
        return None if mine is None or others is None else mine / others

    return read


def joint_wins(data: Data) -> float:
    """The share of the costs at which fusion first does more than either alone."""
    costs = data.parameters["costs"]
    wins = 0
    for cost in costs:
        alone = max(speedup(data, f"{way} only", cost) for way in ("fusion", "fission"))
        wins += speedup(data, "fusion first", cost) > alone
    return wins / len(costs)


def picture(data: Data) -> Figure:
    costs = tuple(data.parameters["costs"])
    ways = [w for w in (*ORDERS, "organic", "best static") if f"{w}, {costs[-1]}" in data.cases]
    bars = tuple(Bars(common.named(w), tuple(speedup(data, w, c) for c in costs)) for w in ways)
    what = "wait" if data.engine == "spark" else "multiplications of an operator"
    seeds = (Level(20, "both, reported"), Level(10, "fission, reported"),
             Level(4, "fusion, reported"))  # fmt: skip
    levels = () if data.engine == "spark" else seeds
    names = tuple(map(str, costs))
    panel = Panel(what, "speed-up", categories=names, bars=bars, levels=levels)
    return Figure(
        "Four operators: pipelines, replicas, and both",
        (panel,),
        note=common.note(data, "figure 5"),
    )


_THREADS = (
    "twenty times as much is what four pipelines of five replicas do, 21 of 24 threads with the "
    "source; here a sixth replica still pays"
)
_ORDER = (
    "with replicas first one more ceases to bring 10 % while some threads are left, with cuts "
    "first all of them are used"
)
_HOPS = (
    "by the paper's own rates a hop costs as much as five of the cheap operators, so every cut "
    "wastes threads, and both ways end where the source is full; with free hops and a source that "
    "is never full both do more than either alone with cheap operators, too (below)"
)


def _free(name: str, other: str | None = None) -> Read:
    """The speed-up with free hops, or over that of another way."""

    def read(data: Data) -> float:
        mine = common.speedup(data, f"{name}, free", "fusion only, free")
        return mine / (common.speedup(data, f"{other}, free", "fusion only, free") if other else 1)

    return read


_SLOTS = (
    "where operators wait, a slot brings as much whether a cut or a replica has it, and fission "
    "alone has nearly all that there are"
)

FIGURE_5 = Experiment(
    "joker-5",
    "Fusion and fission, alone and together",
    PAPER,
    "figure 5",
    cases,
    (
        Claim("speed-up by fusion only, costly operators", 4.0, at("fusion only"), "x", 1.0),
        Claim("speed-up by fission only, costly operators", 10.0, at("fission only"), "x", 1.0),
        Claim("speed-up by both, costly operators", 20.0, at("fusion first"), "x", 1.0,
              "higher", why=_THREADS),
        Claim("both beside fission only, costly operators", 2.0,
              beside("fusion first", "fission only"), "", 1.0, "higher", on_spark=_SLOTS),
        Claim("both beside fusion only, costly operators", 5.0,
              beside("fusion first", "fusion only"), "", 1.0, "higher"),
        Claim("fission first beside fusion first, costly operators", 1.0,
              beside("fission first", "fusion first"), within=0.1, why=_ORDER),
        Claim(
            "speed-up by fusion only, cheap operators",
            2.0,
            at("fusion only", 0),
            "x",
            1.0,
            only="simulator",
            why="the paper has twice as much by two pipelines, and no more by four; where time is "
            "only that of hops and operators, twice as much means hops that cost nothing, and then "
            "four pipelines do four times as much (below)",
        ),
        Claim(
            "speed-up by fission only, cheap operators",
            5.0,
            at("fission only", 0),
            "x",
            1.0,
            "higher",
            only="simulator",
            why="replicas are less in each other's way here, by what thirteen costly ones of "
            "figure 9 do; as much as the counters of the word count they make it 5 (below)",
        ),
        Claim(
            "share of the costs at which both do more than either alone",
            1.0,
            joint_wins,
            ideal=1.0,
            why=_HOPS,
            on_spark=fission_spark.SLOTS_ALIKE,
        ),
        Claim("cheap operators in each other's way as counters of words: speed-up by fission only",
              5.0, lambda d: common.speedup(d, CROWDED), "x", 1.0, only="simulator",
              basis="varied"),
        Claim("cheap operators, free hops: speed-up by fusion only", None, _free("fusion only"),
              "x"),
        Claim("cheap operators, free hops: both beside fission only", None,
              _free("fusion first", "fission only")),
        Claim("speed-up by our own policy, costly operators", None, at("organic"), "x"),
        Claim("speed-up of the best static plan, costly operators", None, at("best static"), "x"),
        Claim("both beside the best static plan", None, beside("fusion first", "best static")),
        Claim("our own policy beside the best static plan", None,
              beside("organic", "best static")),
    ),
    picture,
    size={"costs": (16, 128, 1024, 4096), "seconds": 300.0, "profile": 20.0},
    quick={"costs": (16, 4096), "seconds": 300.0, "profile": 20.0},
    spark=on_spark,
    spark_size={"costs": ("5 ms",), "seconds": 150.0, "load": "2000/s", "profile": 8.0,
                "static": 30.0},
    notes=(STATIC, ONE_MACHINE, fission_spark.NOTE),
)  # fmt: skip


# --- figure 6 -----------------------------------------------------------------------------------


COSTS = (64, 512, 4096)
LENGTHS = (1, 2, 4, 8)
HALF, WHOLE = LENGTHS[-2:]


def lengths(costs: Sequence[int], operators: Sequence[int], seconds: float, profile: float
            ) -> Sequence[Case]:  # fmt: skip
    policy = replace(common.SEED, profile=profile)
    found = []
    for length in operators:
        for cost in costs:
            scenario = region(length, cost, seconds)
            found.append(Case(f"{length} operators, {cost}", Play(scenario, policy)))
            found.append(Case(f"best static, {length}, {cost}", BestPlan(scenario)))
    return found


def long(length: int, cost: int, best: bool = False) -> Callable[[Data], float]:
    """The speed-up of a region, or that of its best static plan."""

    def read(data: Data) -> float:
        seed = f"{length} operators, {cost}"
        found = common.speedup(data, seed)
        if best:
            found = max(found, common.speedup(data, f"{common.BEST}, {length}, {cost}", seed))
        return found

    return read


def longer(length: int, other: int, cost: int, best: bool = False) -> Callable[[Data], float]:
    """The speed-up of a region beside that of another one, of operators that cost as much."""
    return lambda data: long(length, cost, best)(data) / long(other, cost, best)(data)


def _longer(cost: int, other: int, **judged: Any) -> Claim:
    what = f"{cost} multiplications: speed-up of {WHOLE} operators beside {other}"
    return Claim(what, None, longer(WHOLE, other, cost), **judged)


def picture_6(data: Data) -> Figure:
    costs, operators = data.parameters["costs"], data.parameters["operators"]
    bars = tuple(
        Bars(
            f"{n} operator" + "s" * (n > 1),
            tuple(common.speedup(data, f"{n} operators, {c}") for c in costs),
        )
        for n in operators
    )
    panel = Panel("multiplications", "speed-up", categories=tuple(map(str, costs)), bars=bars)
    return Figure("One region, longer and costlier", (panel,), note=common.note(data, "figure 6"))


_STEPS = (
    "the policy cuts first, until each operator has a thread of its own, and then gives all of "
    "them a replica at a time: the longer the region, the more of its threads fetch tuples from "
    "others, and the fewer steps there are until all threads are used; the best static plan, which "
    "cuts nothing here, does more of the longer region at any cost (below)"
)

_CHANCE = (
    f"With {COSTS[-1]} multiplications {WHOLE} operators and {HALF} are as good as each other: all "
    "threads are used by both, and what is between them is no more than what chance does, so that "
    "it is not judged."
)

FIGURE_6 = Experiment(
    "joker-6",
    "Longer regions",
    PAPER,
    "figure 6",
    lengths,
    (
        *(_longer(cost, other, neutral=1.0, side="above", why=_STEPS)
          for other in (1, HALF) for cost in COSTS if (other, cost) != (HALF, COSTS[-1])),
        _longer(COSTS[-1], HALF),
        *(Claim(f"{cost} multiplications: speed-up of {WHOLE} operators beside {HALF}, best static "
                "plan", None, longer(WHOLE, HALF, cost, best=True)) for cost in COSTS),
        *(Claim(f"{cost} multiplications: speed-up of {n} operator{'s'[: n - 1]}", None,
                long(n, cost), "x") for cost in COSTS for n in (1, HALF, WHOLE)),
        *(Claim(f"{cost} multiplications: speed-up of {WHOLE} operators, best static plan", None,
                long(WHOLE, cost, best=True), "x") for cost in COSTS),
    ),
    picture_6,
    size={"costs": COSTS, "operators": LENGTHS, "seconds": 420.0, "profile": 30.0},
    quick={"seconds": 280.0, "profile": 20.0},
    no_spark="its operators work, for which there are two cores; where operators wait, a cut and a "
    "replica are worth a slot each, however long the region is (joker-5)",
    notes=("The paper gives no numbers for this figure.", _CHANCE, STATIC, ONE_MACHINE),
)  # fmt: skip

EXPERIMENTS = (FIGURE_5, FIGURE_6)
