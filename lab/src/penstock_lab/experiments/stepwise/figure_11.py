"""Stepwise profiling's figure 11: six applications are scaled up on six machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from penstock.drawing.figures import Figure, Level, Mark, Panel
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read
from penstock_lab.experiments.stepwise import chain_spark
from penstock_lab.experiments.stepwise.climb import Climb
from penstock_lab.experiments.stepwise.common import (
    PAPER,
    SLOWED,
    final,
    first,
    gain,
    line,
    note,
    rounds,
    slowed,
    throughput,
    tuned,
)
from penstock_lab.experiments.stepwise.contest import NOTE, ROUNDS, Contest

APPS = ("linear", "diamond", "star", "WC", "SWC", "TSA")
WAYS = ("stepwise", "Stela", "threshold")
REAL = ("WC", "SWC", "TSA")
NODES = 6


BEST = "best static"
FINE = "star in fine steps"
FREE = "WC, instances for nothing"
DEAR = "WC, dear instances"
DEAR_ONES = 0.05
"""The share of a processor that a dear instance takes."""


def cases(
    apps: Sequence[str],
    tries: int,
    turn: float,
    settle: float,
    observations: int,
) -> Sequence[Case]:
    own = Climb("", WAYS[0], NODES, turn=turn, settle=settle, observations=observations)
    found = []
    for app in apps:
        ways = {f"{app}: {way}": replace(own, app=app, way=way) for way in WAYS}
        if app == "star":
            ways[f"{FINE}: {WAYS[0]}"] = replace(own, app=app, options={"slice": 0.06})
        found.append(Case(app, Contest(ways, f"{app}: {BEST}", tries)))
    others = []
    if "WC" in apps:
        priced = ((FREE, 0.0), (DEAR, DEAR_ONES))
        others += [Case(f"{n}: {WAYS[0]}", replace(own, app="WC", upkeep=u)) for n, u in priced]
    return (*found, *others)


# --- reading ------------------------------------------------------------------------------------


def _carried(app: str) -> Read:
    return lambda data: throughput(data, f"{app}: stepwise")


def _above_the_best(app: str) -> Read:
    def read(data: Data) -> float:
        others = [throughput(data, f"{app}: {way}") for way in WAYS[1:]]
        return throughput(data, f"{app}: stepwise") / max(others)

    return read


def _above_all_rounds(app: str) -> Read:
    """The final plan beside the best round that any of the others had, kept or not."""

    def read(data: Data) -> float:
        others = [r for way in WAYS[1:] for r in rounds(data, f"{app}: {way}")]
        return throughput(data, f"{app}: stepwise") / max(float(r["throughput"]) for r in others)

    return read


def _four_rounds(data: Data, app: str, way: str) -> float:
    """How much more the best of four rounds carries than one instance of each operator."""
    early = rounds(data, f"{app}: {way}")[:4]
    return max(float(r["throughput"]) for r in early) / first(data, f"{app}: Stela") - 1


def _mean_gain(data: Data, way: str) -> float:
    return fmean(_four_rounds(data, app, way) for app in REAL)


def _faster_than(way: str) -> Read:
    return lambda data: _mean_gain(data, "stepwise") / _mean_gain(data, way)


def _static_less(data: Data) -> float:
    return 1 - throughput(data, f"SWC: {BEST}") / throughput(data, f"WC: {BEST}")


def _begins_above(app: str) -> Read:
    return lambda data: first(data, f"{app}: stepwise") / first(data, f"{app}: Stela")


def _rounds(app: str) -> Read:
    return lambda data: float(len(rounds(data, f"{app}: stepwise")))


def _tuned(app: str) -> Read:
    return lambda data: float(tuned(data, f"{app}: stepwise"))


def _gained(app: str) -> Read:
    return lambda data: 1 + gain(data, f"{app}: stepwise")


def _instances(app: str, *operators: str) -> Read:
    def read(data: Data) -> float:
        kept = final(data, f"{app}: stepwise")
        found = dict(zip(kept["pipelines"], kept["instances"], strict=True))
        return float(fmean(found[name] for name in operators))

    return read


def _slowed(app: str) -> Read:
    return lambda data: slowed(data, f"{app}: stepwise")


def _of_best(app: str) -> Read:
    return lambda data: throughput(data, f"{app}: stepwise") / throughput(data, f"{app}: {BEST}")


def picture(data: Data) -> Figure:
    apps = [a for a in APPS if any(c.startswith(f"{a}:") for c in data.cases)]
    panels = []
    for app in apps:
        here = [w for w in WAYS if f"{app}: {w}" in data.cases]
        lines = [line(data, f"{app}: {w}", w, WAYS.index(w)) for w in here]
        best = f"{app}: {BEST}"
        levels = (Level(throughput(data, best), BEST),) if best in data.cases else ()
        own = final(data, f"{app}: {WAYS[0]}")
        marks = (Mark(float(own["number"]), "kept by stepwise"),)
        panels.append(Panel("round", "records/s", tuple(lines), levels=levels, marks=marks,
                            title=app))  # fmt: skip
    return Figure(
        "Scaling up, round by round", tuple(panels), columns=2, note=note(data, "figure 11")
    )


_THREADS = (
    "the more an idle instance costs, the earlier too many of them reduce throughput, which "
    "ends the search: a row below has no cost, and one 5 % of a processor instead of 1 %. The "
    "paper does not print its cost"
)
_STUCK = (
    "the rivals do less here than in the paper. The threshold rule looks at operators behind "
    "the sources, and ends where its one source, with 4,000 tweets/s, is the limit. Stela adds "
    "instances to sources once nothing counts as congested (with skewed keys one instance is at "
    "its limit, but not the operator as a whole), removes none, and with dozens of them loses "
    "what it had gained; relative to its best round the distance is shorter except in SWC (rows "
    "below)"
)
_SOON_THERE = (
    "Stela does more here than in the paper: with an instance per machine and round, it has "
    "most of the throughput of six machines by its fourth round: 7,600 tweets/s of the 9,800 of "
    "the best static plan (WC) and 12,000 of 12,900 (TSA), which leaves little to gain. "
    "Relative to its best round it is less still (rows below)"
)
_ONE_EACH = (
    "one instance of each is further from what the source brings here than in the paper: a source "
    "brings 4,000 tweets/s, one counter carries 2,080 (WC), one that keeps a tweet for 1 ms "
    "carries 950 (SWC) and one language detector 2,500 (TSA), and profiling gives them two to four "
    "at once. That SWC gained no more than 0.21 by that in the paper says that its one instance "
    "keeps many tweets at a time; ours waits for one after the other"
)

_SIXTEEN = (
    "the paper's three steps to 48:24:24 are of 16:8:8, which neither equation (1) with its slice "
    "of 0.3 nor division by what they have in common can give; here they are of 2:1:1. With a "
    "slice of 0.06, steps are of 17:9:9 (rows below)"
)

_ONE_MS = (
    "Given: the throughput of the linear topology follows from the assumption that 10,000 "
    "random numbers take 1 ms."
)

_TUNED = (
    "no operator of the diamond takes twice its least time in the plan that the second step ends "
    "with (row below), which by the paper's own rule, with k = 2, ends profiling before a single "
    "instance is tried, and next to nothing is left to gain beside the best static plan. In the "
    "paper the operator bound by I/O was short of instances with four for one of the others, so "
    "that it must have taken more than four times as long as they; here those that wait for 5 ms "
    "take longest"
)

FIGURE_11 = Experiment(
    "stepwise-11",
    "Six applications scaled up on six machines",
    PAPER,
    "figure 11",
    cases,
    (
        Claim(
            "linear: final throughput",
            1876,
            _carried("linear"),
            only="simulator",
            basis="given",
        ),
        Claim("linear: final beside first", 1.957, _gained("linear"), neutral=1.0),
        Claim("linear: rounds", 4, _rounds("linear"), only="simulator"),
        Claim(
            "linear: instances of each operator",
            2,
            _instances("linear", "op-1", "op-3"),
            only="simulator",
        ),
        Claim(
            "star: final beside first",
            1.64,
            _gained("star"),
            neutral=1.0,
            why=_SIXTEEN,
        ),
        Claim(
            "star: rounds",
            6,
            _rounds("star"),
            why=_SIXTEEN,
        ),
        *(
            Claim(
                f"{app}: rounds of single instances",
                seed,
                _tuned(app),
                only="simulator",
                why=_TUNED,
            )
            for app, seed in (("linear", 0), ("star", 0), ("diamond", 3))
        ),
        Claim("star: instances of a source", 3, _instances("star", "north", "south")),
        Claim(
            "star: instances of the centre",
            48,
            _instances("star", "centre"),
            why="with 0.3 ms of processor time per record, 18 of them fill all processors; the "
            "paper does not print how long its operators waited for I/O",
        ),
        Claim(
            "WC: stepwise beside the best other",
            1.341,
            _above_the_best("WC"),
            neutral=1.0,
            better="higher",
            why=_SOON_THERE,
        ),
        Claim(
            "SWC: stepwise beside the best other",
            1.401,
            _above_the_best("SWC"),
            neutral=1.0,
            better="higher",
            why=_STUCK,
        ),
        Claim(
            "TSA: stepwise beside the best other",
            1.319,
            _above_the_best("TSA"),
            neutral=1.0,
            better="higher",
            why=_SOON_THERE,
        ),
        Claim(
            "gain of the first four rounds beside Stela's",
            2.48,
            _faster_than("Stela"),
            neutral=1.0,
            better="higher",
            why="one round of Stela adds an instance per machine, which is most of the total "
            "gain here",
        ),
        Claim(
            "gain of the first four rounds beside the threshold's",
            11.63,
            _faster_than("threshold"),
            neutral=1.0,
            better="higher",
            why="another instance doubles the limit of one instance as long as the processors "
            "suffice, so the threshold rule gains in each application (row below); in the "
            "paper it gained next to nothing, without an explanation",
        ),
        *(
            Claim(
                f"{app}: first round beside one instance each",
                seed,
                _begins_above(app),
                neutral=1.0,
                better="higher",
                why=_ONE_EACH,
            )
            for app, seed in (("WC", 1.45), ("SWC", 1.211), ("TSA", 1.25))
        ),
        Claim(
            "share that SWC carries less than WC",
            0.132,
            lambda d: 1 - throughput(d, "SWC: stepwise") / throughput(d, "WC: stepwise"),
            neutral=0.0,
            why="who waits takes 4 % of a tweet's processor time here, which is less than two "
            "searches differ by; the best static plans show it (row below)",
        ),
        Claim("WC: rounds", 5, _rounds("WC"), better="lower", why=_THREADS),
        Claim("SWC: rounds", 9, _rounds("SWC"), better="lower", why=_THREADS),
        Claim(
            "WC: rounds where an instance that does nothing takes no processor time",
            5,
            _rounds(FREE),
            basis="varied",
        ),
        Claim(
            "WC: rounds where an instance that does nothing takes 5 % of a processor",
            5,
            _rounds(DEAR),
            basis="varied",
        ),
        Claim(
            "star: final beside first where a step adds 17:9:9 instances",
            1.64,
            _gained(FINE),
            basis="varied",
        ),
        Claim(
            "star: rounds where a step adds 17:9:9 instances",
            6,
            _rounds(FINE),
            basis="varied",
        ),
        *(
            Claim(
                f"{app}: stepwise beside the best round that another had, kept or not",
                None,
                _above_all_rounds(app),
            )
            for app in REAL
        ),
        *(
            Claim(f"{app}: stepwise beside the best static plan", None, _of_best(app))
            for app in APPS
        ),
        Claim(
            "share that SWC carries less than WC with their best static plans", None, _static_less
        ),
        Claim(
            "threshold: gain of its first four rounds over one instance each",
            None,
            lambda d: _mean_gain(d, "threshold"),
        ),
        *(
            Claim(f"{app}: {SLOWED}", None, _slowed(app), only="simulator")
            for app in ("linear", "diamond", "star")
        ),
        *(Claim(f"{app}: final throughput", None, _carried(app)) for app in APPS[1:]),
        Claim("TSA: rounds", None, _rounds("TSA")),
        *chain_spark.CLAIMS,
    ),
    picture,
    size={
        "apps": APPS,
        "tries": 60,
        "turn": 0.5,
        "settle": 8.0,
        "observations": 20,
    },
    quick={
        "apps": ("linear", "WC", "SWC", "TSA"),
        "tries": 8,
        "turn": 0.5,
        "settle": 4.0,
        "observations": 8,
    },
    notes=(_ONE_MS, ROUNDS, NOTE, chain_spark.NOTE),
    spark=chain_spark.cases,
    spark_size={
        "seconds": 200.0,
        "load": "400/s",
        "most": 8,
        "rounds": 7,
        "observations": 4,
    },
)

EXPERIMENTS = (FIGURE_11,)
