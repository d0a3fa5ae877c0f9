"""Stepwise profiling's figure 12: deeper topologies, and larger platforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.drawing.figures import Bars, Figure, Level, Panel
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock_lab.experiments.stepwise import storm
from penstock_lab.experiments.stepwise.climb import Climb
from penstock_lab.experiments.stepwise.common import (
    PAPER,
    SLOWED,
    final,
    gain,
    kept,
    line,
    marks,
    note,
    rounds,
    slowed,
    throughput,
    tuned,
)
from penstock_lab.experiments.stepwise.contest import NOTE, Contest

DEPTHS = {6: 0.335, 8: 0.24, 12: 0.205}
"""Gain of the paper's final plans over the first ones, by depth."""

NODES = (6, 10, 14)
BEST = ", best static"
TURNS = "in turns, depth"
"""A chain of alternating kinds of operators, which all share the same machines."""


def cases(
    depths: Sequence[int],
    nodes: Sequence[int],
    tries: int,
    turn: float,
    settle: float,
    observations: int,
) -> Sequence[Case]:
    climb = Climb("", "stepwise", turn=turn, settle=settle, observations=observations)
    deep = {f"depth {n}": replace(climb, app=storm.mixed(n)) for n in depths}
    large = {f"{n} machines": replace(climb, app="WC", nodes=n) for n in nodes}
    turns = [
        Case(f"{TURNS} {n}", replace(climb, app=storm.mixed(n, turns=True)))
        for n in (min(depths), max(depths))
    ]
    return (
        *(
            Case(name, Contest({name: one}, f"{name}{BEST}", tries))
            for name, one in {**deep, **large}.items()
        ),
        *turns,
    )


def _gained(case: str) -> Read:
    return lambda data: 1 + gain(data, case)


def _carried(nodes: int) -> Read:
    return lambda data: throughput(data, f"{nodes} machines")


def _per_node(data: Data, nodes: int) -> float:
    return throughput(data, f"{nodes} machines") / nodes


def _of_best(case: str) -> Read:
    return lambda data: throughput(data, case) / throughput(data, f"{case}{BEST}")


def _instances(case: str) -> Read:
    return lambda data: float(sum(final(data, case)["instances"]))


def _rounds(case: str) -> Read:
    return lambda data: float(len(rounds(data, case)))


def _slowed(case: str) -> Read:
    return lambda data: slowed(data, case)


def _rounds_of_depth(data: Data) -> float:
    return len(rounds(data, "depth 12")) / len(rounds(data, "depth 6"))


def _tuned_of_depth(data: Data) -> float:
    """Rounds of single instances at depth 12 minus those at depth 6."""
    return float(tuned(data, "depth 12") - tuned(data, "depth 6"))


def _number(case: str) -> str:
    return case.removeprefix("depth ").removesuffix(" machines")


def picture(data: Data) -> Figure:
    deep = [c for c in data.cases if c.startswith("depth") and not c.endswith(BEST)]
    large = [c for c in data.cases if c.endswith("machines")]
    return Figure(
        "Stepwise profiling of deeper topologies and on more machines",
        (
            *(
                Panel(
                    "round",
                    "records/s",
                    (
                        *(line(data, case, case, tone) for tone, case in enumerate(found)),
                        kept(data, found),
                    ),
                    marks=marks(data, found),
                    title=title,
                )
                for title, found in (("linear", deep), ("word count", large))
            ),
            *(
                Panel(
                    what,
                    "stepwise / best static",
                    categories=tuple(_number(case) for case in found),
                    bars=(Bars("stepwise", tuple(_of_best(case)(data) for case in found)),),
                    levels=(Level(1.0, "as much"),),
                )
                for what, cases in (("operators, linear", deep), ("machines, word count", large))
                if (found := [c for c in cases if f"{c}{BEST}" in data.cases])
            ),
        ),
        columns=2,
        note=note(data, "figure 12"),
    )


_FIRST = (
    "the first round leaves most of the machines idle here, since four instances that wait 5 ms "
    "carry 800 records/s; the paper's first round nearly filled its machines, with a mix of "
    "operators that it does not print"
)

_DEEP = (
    "neither depth reaches the step of single instances here: with sources slowed down until "
    "the latency is met, no operator takes twice its least time (rows below), which ends the "
    "search"
)
_SHALLOW = (
    "the fewer operators there are, the more of the machines the first round leaves idle here (see "
    "above), so that depth 6 has most to gain"
)

FIGURE_12 = Experiment(
    "stepwise-12",
    "Depth of the topology and size of the platform",
    PAPER,
    "figure 12",
    cases,
    (
        *(
            Claim(
                f"depth {depth}: final beside first",
                1 + seed,
                _gained(f"depth {depth}"),
                neutral=1.0,
                why=_FIRST,
            )
            for depth, seed in DEPTHS.items()
        ),
        Claim(
            "gain at depth 12 beside depth 6",
            0.205 / 0.335,
            lambda d: gain(d, "depth 12") / gain(d, "depth 6"),
            neutral=1.0,
            why=_SHALLOW,
        ),
        Claim(
            "rounds at depth 12 beside depth 6, which has half",
            None,
            _rounds_of_depth,
            neutral=2.0,
            side="below",
            why=_DEEP,
        ),
        Claim(
            "rounds of single instances at depth 12 more than at depth 6",
            None,
            _tuned_of_depth,
            neutral=0.0,
            side="above",
            why=_DEEP,
        ),
        *(Claim(f"depth {depth}: rounds", None, _rounds(f"depth {depth}")) for depth in DEPTHS),
        *(Claim(f"depth {depth}: {SLOWED}", None, _slowed(f"depth {depth}")) for depth in (6, 12)),
        *(
            Claim(
                f"depth {depth}, kinds of operators in turns: final beside first",
                1 + DEPTHS[depth],
                _gained(f"{TURNS} {depth}"),
                neutral=1.0,
                basis="varied",
            )
            for depth in (6, 12)
        ),
        Claim(
            "WC: throughput of a machine, 14 beside 6",
            None,
            lambda d: _per_node(d, 14) / _per_node(d, 6),
            neutral=1.0,
            side="below",
        ),
        Claim(
            "WC: rounds on 14 machines",
            10,
            _rounds("14 machines"),
            better="lower",
            why="instances beyond the number of processors cost nothing here, so the search "
            "finds small gains for longer",
        ),
        *(Claim(f"WC: throughput on {n} machines", None, _carried(n)) for n in NODES),
        *(
            Claim(f"WC: instances on {n} machines", None, _instances(f"{n} machines"))
            for n in NODES
        ),
        *(
            Claim(f"{case}: stepwise beside the best static plan", None, _of_best(case))
            for case in (*(f"depth {d}" for d in DEPTHS), *(f"{n} machines" for n in NODES))
        ),
    ),
    picture,
    notes=(NOTE,),
    size={
        "depths": tuple(DEPTHS),
        "nodes": NODES,
        "tries": 40,
        "turn": 0.5,
        "settle": 8.0,
        "observations": 20,
    },
    quick={
        "tries": 8,
        "turn": 0.5,
        "settle": 4.0,
        "observations": 8,
        "nodes": (6, 14),
        "depths": (6, 12),
    },
    no_spark="it varies the number of machines, and there is one; with a query for each of "
    "twelve operators, two cores would be busy with batches",
)

EXPERIMENTS = (FIGURE_12,)
