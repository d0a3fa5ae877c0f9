"""Joker's figures 5 and 6: pipelines and replicas together do more than either alone.

Why replicas alone end at ten: the eleventh brings 10 %, and a change has to bring more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.engines.simulator.scenario import Scenario
from penstock.experiments import joker
from penstock.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock.experiments.joker import PAPER
from penstock.experiments.play import Play
from penstock.report.figures import Bars, Figure, Level, Line, Panel

ORDERS = {
    "fusion only": "fusion",
    "fission only": "fission",
    "fusion first": "fusion-first",
    "fission first": "fission-first",
}


def region(operators: int, multiplications: int, seconds: float) -> Scenario:
    """A source and one region of operators that are all alike."""
    written = ",".join([str(multiplications)] * operators)
    graph = joker.workload("region-4", multiplications=written)
    step = joker.multiplying(multiplications)
    steps = {f"multiply-{n}": step for n in range(1, operators + 1)}
    return joker.scenario(graph, steps, seconds)


def cases(costs: Sequence[int], seconds: float, profile: float) -> Sequence[Case]:
    found = []
    for cost in costs:
        scenario = region(4, cost, seconds)
        for name, order in ORDERS.items():
            policy = replace(joker.SEED, order=order, profile=profile)
            found.append(Case(f"{name}, {cost}", Play(scenario, policy)))
        ours = replace(joker.OURS, profile=profile)
        found.append(Case(f"organic, {cost}", Play(scenario, ours)))
        found.append(Case(f"best static, {cost}", best(scenario)))
    return found


def best(scenario: Scenario) -> joker.Best:
    """Four operators in one, two or four pipelines."""
    one, two, three, four = names = tuple(f"multiply-{n}" for n in range(1, 5))
    graph = scenario.graph
    plans = (
        joker.fused(graph, names),
        joker.fused(graph, (one, two), (three, four)),
        joker.fused(graph),
    )
    return joker.Best(scenario, plans, (names,))


def on_spark(costs: Sequence[str], seconds: float, load: str, profile: float) -> Sequence[Case]:
    return [
        Case(f"{name}, {cost}", joker.waiting(order, seconds, load, profile))
        for cost in costs
        for name, order in ORDERS.items()
    ]


# --- reading ------------------------------------------------------------------------------------


def speedup(data: Data, name: str, cost: int | str) -> float:
    """Over one thread for the region."""
    return joker.speedup(data, f"{name}, {cost}", f"fusion only, {cost}")


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
    if data.engine == "spark":
        bars = tuple(Bars(w, tuple(speedup(data, w, c) for c in costs)) for w in ways)
        panel = Panel("wait", "speed-up", categories=costs, bars=bars)
    else:
        lines = tuple(
            Line(w, tuple(map(float, range(len(costs)))),
                 tuple(speedup(data, w, c) for c in costs), faint=w == "best static")
            for w in ways
        )  # fmt: skip
        told = ", ".join(map(str, costs))
        levels = (Level(20, "joint, seed"), Level(10, "fission, seed"), Level(4, "fusion, seed"))
        panel = Panel(f"multiplications: {told}", "speed-up", lines, levels=levels)
    return Figure(
        "Four operators: pipelines, replicas, and both",
        (panel,),
        note=joker.note(data, "figure 5"),
    )


_THREADS = (
    "four pipelines of five replicas and a source are 21 of 24 threads; the seed stops there, here "
    "the sixth replica still pays"
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
              beside("fusion first", "fission only"), "", 1.0, "higher"),
        Claim("both beside fusion only, costly operators", 5.0,
              beside("fusion first", "fusion only"), "", 1.0, "higher"),
        Claim("fission first beside fusion first, costly operators", 1.0,
              beside("fission first", "fusion first")),
        Claim(
            "speed-up by fusion only, cheap operators",
            2.0,
            at("fusion only", 0),
            "x",
            1.0,
            why="a tuple that goes from thread to thread takes 1.2 us by the seed's own rates, "
            "more than two of the cheap operators",
        ),
        Claim(
            "speed-up by fission only, cheap operators",
            5.0,
            at("fission only", 0),
            "x",
            1.0,
            "higher",
            why="threads do not contend for queues or memory here; only the source bounds them",
        ),
        Claim(
            "share of the costs at which both do more than either alone",
            1.0,
            joint_wins,
            why="with cheap operators a hop costs more than an operator, so every cut wastes "
            "threads; and both ways end where the source is full",
        ),
        Claim("speed-up by our own policy, costly operators", None, at("organic"), "x"),
        Claim("speed-up of the best static plan, costly operators", None, at("best static"), "x"),
        Claim("both beside the best static plan", None, beside("fusion first", "best static")),
        Claim("our own policy beside the best static plan", None,
              beside("organic", "best static")),
    ),
    picture,
    size={"costs": (16, 128, 1024, 4096), "seconds": 300.0, "profile": 20.0},
    quick={"costs": (16, 4096), "seconds": 160.0, "profile": 10.0},
    spark=on_spark,
    spark_size={"costs": ("5 ms",), "seconds": 90.0, "load": "2000/s", "profile": 8.0},
)  # fmt: skip


# --- figure 6 -----------------------------------------------------------------------------------


def lengths(costs: Sequence[int], operators: Sequence[int], seconds: float, profile: float
            ) -> Sequence[Case]:  # fmt: skip
    policy = replace(joker.SEED, profile=profile)
    return [
        Case(f"{length} operators, {cost}", Play(region(length, cost, seconds), policy))
        for length in operators
        for cost in costs
    ]


def _long(which: int, cost: int = -1) -> Callable[[Data], float]:
    def read(data: Data) -> float:
        length, each = data.parameters["operators"][which], data.parameters["costs"][cost]
        return joker.speedup(data, f"{length} operators, {each}")

    return read


def picture_6(data: Data) -> Figure:
    costs, operators = data.parameters["costs"], data.parameters["operators"]
    bars = tuple(
        Bars(f"{n} operators", tuple(joker.speedup(data, f"{n} operators, {c}") for c in costs))
        for n in operators
    )
    panel = Panel("multiplications", "speed-up", categories=tuple(map(str, costs)), bars=bars)
    return Figure("One region, longer and costlier", (panel,), note=joker.note(data, "figure 6"))


FIGURE_6 = Experiment(
    "joker-6",
    "Longer regions",
    PAPER,
    "figure 6",
    lengths,
    (
        Claim("speed-up of the longest and costliest beside the shortest and cheapest", None,
              lambda data: _long(-1)(data) / _long(0, 0)(data)),
        Claim("speed-up of the longest, costliest", None, _long(-1), "x"),
        Claim("speed-up of the shortest, costliest", None, _long(0), "x"),
        Claim("speed-up of the longest, cheapest", None, _long(-1, 0), "x"),
        Claim("speed-up of the shortest, cheapest", None, _long(0, 0), "x"),
    ),
    picture_6,
    size={"costs": (64, 512, 4096), "operators": (1, 2, 4, 8), "seconds": 420.0,
          "profile": 30.0},
    quick={"costs": (64, 4096), "operators": (2, 8), "seconds": 150.0, "profile": 10.0},
    no_spark="its two cores show figure 5 only",
)  # fmt: skip

EXPERIMENTS = (FIGURE_5, FIGURE_6)
