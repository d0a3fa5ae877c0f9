"""What Joker's experiments have in common: its machine, what tuples cost on it, and its policy.

A tuple here stands for a thousand of the paper's and takes a thousand times as long, so that rates
are in thousands a second (ktps) and times in milliseconds instead of microseconds. Threads, seconds
and ratios stay as they are.

What a tuple costs follows from what the paper prints. An operator takes FIXED + MULTIPLICATION for
each multiplication, and a thread takes HOP for each tuple that it gets from another thread. One
operator of 256 multiplications processes 500 ktps with one thread (section 5.2), and the
seven operators of the selectivity experiment, which see 12.5 tuples and multiply 4,096 times for
one that comes, process 80 ktps (section 5.1):

    HOP + FIXED + 256 MULTIPLICATION = 1/500        HOP + 12.5 FIXED + 4096 MULTIPLICATION = 1/80

The third number follows from where the paper's policy changes its mind: below 64 multiplications it
makes two pipelines of four operators, from there on four (section 5.1). To cut two operators apart
promises the 20 % that it asks for where one costs a quarter of a hop. Costs double from run to run,
so this is between 32 and 64, here in the middle:

    FIXED + 48 MULTIPLICATION = HOP/4

That makes 2.1 ns for a multiplication, 0.21 us for an operator and 1.25 us for a hop. The hop
hardly depends on the third number: 1.2 us if a multiplication takes 1.5 ns.

Two more follow from how many threads do how much: what a tuple takes longer where others work
beside (CROWDING), and for how long a thread that has nothing to do is on a processor (LOOKING).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from penstock import workloads
from penstock.dataflow.graph import Graph
from penstock.drawing.figures import Mark
from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.distributions import Gamma
from penstock.engines.simulator.model import Keys, Machine, Model, OperatorCost, Timing
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock.policies.joker.policy import Organic
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Data, Job, Read, Record, Setting
from penstock_lab.experiments.scenario import Scenario

PAPER = "Joker: elastic stream processing with organic adaptation"

THREADS = 24

MULTIPLICATION = (1.25 * (1 / 80 - 1 / 500) / 11.5 - 1 / 2000) / (1.25 * 3840 / 11.5 - 112)
FIXED = (1 / 80 - 1 / 500 - 3840 * MULTIPLICATION) / 11.5
HOP = 1 / 500 - 256 * MULTIPLICATION - FIXED

CROWDING = (13 / 12 - 1) / 12 * (HOP + FIXED + 4096 * MULTIPLICATION)
"""What a tuple takes longer for each other replica: thirteen replicas of figure 9's costly region,
4,096 multiplications here, do twelve times as much as one. That is 0.07 us, next to nothing beside
costly operators and much beside cheap ones, for which the paper says that the overhead of
parallelization becomes significant (section 5.1)."""

LOOKING = (0.5 - 80 / 500 + 0.5 - 160 / 500) / 2
"""The share of its time for which a thread that is not full goes round its operators and finds
nothing, which is processor time like any other. One of 500 ktps is above 0.5 with 160 of them and
not with 80 (section 5.2), so it is between 0.18 and 0.34, here in the middle. Threads that are held
back by what follows do not go round: those of figure 16 whose neighbours are full are not taken for
full themselves."""

SOURCE = 1 / 3200
"""A tuple at a source: the one of the word count, fully busy, emits 3.2 Mtps (section 5.4)."""

KEYS = Keys(100_000)
"""So many that they spread evenly: the paper calls its speed-ups linear."""

SEED = Organic(
    step="one",
    replicas="region",
    busy="threads",
    stateless=False,
    sources=False,
    scale_down=False,
    anticipate=True,
    headroom=False,
)
"""The policy of the paper: one replica more of a whole keyed region, never fewer, by the processor
time of its threads alone; undone if throughput does not rise."""

OURS = Organic(sources=False)
"""Our policy, with the sources of the paper, which have one thread each."""


def multiplying(
    multiplications: float, selectivity: float = 1.0, fixed: float = FIXED
) -> OperatorCost:
    """The cost of an operator with this many multiplications."""
    return OperatorCost(Gamma(fixed + multiplications * MULTIPLICATION, 0.1), selectivity, KEYS)


def workload(name: str, **options: Any) -> Graph:
    """The graph of a workload, which is not run."""
    return workloads.build(name, Path(), **options).graph


def scenario(
    graph: Graph,
    steps: Mapping[str, OperatorCost],
    seconds: float,
    *,
    load: float | str = 1.2 / SOURCE,
    source: float = SOURCE,
    plan: Plan | None = None,
    hop: float = HOP,
    crowding: float = CROWDING,
    grain: float = 1.0,
) -> Scenario:
    """A dataflow on the paper's machine of 24 hardware threads, as it starts: a thread a region.

    Sources always have something to emit, so they are held back by what follows, or by their own
    thread. Queues hold what one thread does in about a second, which the paper does not print.
    Changes take less than a second, as it says: threads stand still for half of one here, and new
    ones take 0.2 s more, which is a choice. grain: tuples for each that would else be there, each
    so much cheaper; finer where costly ones are too few to be dealt evenly, coarser where cheap
    ones are too many.
    """
    sources = {o.name: OperatorCost(Gamma(source / grain, 0.1)) for o in graph.sources}
    whole = (hop + sum(step.service.mean for step in steps.values())) / grain
    model = Model(
        {**sources, **{name: _ground(step, grain) for name, step in steps.items()}},
        node=Machine(cores=THREADS),
        arrivals=Deterministic(),
        hop=hop / grain,
        crowding=crowding / grain,
        looking=LOOKING,
        queue=max(20, round(1 / whole)),
        timing=Timing(executor_start=0.0, instance_start=0.2, restart=0.5),
    )
    rate = load if isinstance(load, str) else f"{load * grain:g}/s"
    return Scenario(graph, plan or fusion.region_plan(graph), model, rate, seconds)


def _ground(step: OperatorCost, grain: float) -> OperatorCost:
    """An operator with more and cheaper tuples."""
    mean = step.service.mean / grain
    return step if grain == 1.0 or not mean else replace(step, service=Gamma(mean, 0.1))


def fused(graph: Graph, *groups: Sequence[str]) -> Plan:
    """Pipelines of these operators, the others as in the plan to start with."""
    group = {name: at for at, names in enumerate(groups) for name in names}

    def along(upstream: str, name: str) -> bool:
        sink = graph[name] in graph.sinks
        return sink or (upstream in group and group[upstream] == group.get(name))

    return fusion.fuse(graph, along)


BEST = "best static"

STATIC = (
    "The best static plan is the model's best plan or the final plan of a policy, whichever has "
    "the higher throughput."
)

ONE_MACHINE = (
    "Spark's dynamic allocation does not apply: one machine has all its threads from the start."
)

# --- reading ------------------------------------------------------------------------------------


def before(data: Data, case: str) -> float:
    """ktps that the sources emit before the first change."""
    first = next((c["at"] for c in data.of(case, "change")), data.of(case)[-1]["at"])
    return reading.throughput(data, case, 3.0, min(first, 40.0), "ingested")


def after(data: Data, case: str, last: float = 20.0) -> float:
    """ktps that the sources emit at the end.

    Of the best static plan it is the most of all plans there are then: a policy that changes
    nothing any more is a static plan, too, and its end another look at it.
    """
    ways = [case, *(one for one in alike(data, case) if _settled(data, one, last))]
    return max(_after(data, one, last) for one in ways)


def _after(data: Data, case: str, last: float) -> float:
    end = data.of(case)[-1]["at"]
    return reading.throughput(data, case, end - last, end, "ingested")


def _settled(data: Data, case: str, last: float) -> bool:
    """True if nothing changed in this time."""
    end = data.of(case)[-1]["at"]
    return all(change["at"] < end - last - SEED.settle for change in data.of(case, "change"))


def alike(data: Data, case: str) -> tuple[str, ...]:
    """Other policies on the flow of the best static plan: case names with that word replaced."""
    words = case.split(", ")
    if BEST not in words:
        return ()
    at = words.index(BEST)

    def same(other: str) -> bool:
        found = other.split(", ")
        rest = [*words[:at], *words[at + 1 :]]
        long = len(found) == len(words)
        return long and other != case and [*found[:at], *found[at + 1 :]] == rest

    return tuple(filter(same, data.cases))


def speedup(data: Data, case: str, base: str | None = None) -> float:
    """Final throughput relative to that before the first change of `base`."""
    return after(data, case) / before(data, base or case)


def replicas(tick: Record, operator: str) -> int:
    """Threads of the pipeline that begins with an operator."""
    return int(tick["pipelines"][operator]["instances"])


def tries(data: Data, case: str) -> tuple[tuple[Record, bool], ...]:
    """Each tentative change, and whether it stayed."""
    made = data.of(case, "change")
    after = (*(c["reason"].startswith("undone") for c in made[1:]), False)
    return tuple(
        (change, not undone)
        for change, undone in zip(made, after, strict=True)
        if "nothing is left" not in change["reason"]
    )


def marks(data: Data, case: str) -> tuple[Mark, ...]:
    """Marks for the changes: cuts, undone cuts, replicas of a region."""
    found = []
    for change in data.of(case, "change"):
        words = []
        for action in change["actions"]:
            grown = re.fullmatch(r".+: parallelism (\d+) -> (\d+)", action)
            words.append(f"{grown[1]} → {grown[2]}" if grown else _CUTS.get(action.split()[0], ""))
        found.append(Mark(float(change["at"]), ", ".join(dict.fromkeys(filter(None, words)))))
    return tuple(found)


_CUTS = {"split": "cut", "merge": "joined"}


def named(way: str) -> str:
    """Name of a policy in pictures."""
    return {"seed": JOKERS, "organic": "our own policy"}.get(way, way)


JOKERS = "Joker's policy"
CHANGES = f"changes of {JOKERS}"


def note(data: Data, figure: str) -> str:
    """The line below a picture."""
    where = "simulated with fewer, longer tuples" if data.engine == "simulator" else "on Spark"
    return f"{where}, random seed {data.seed}; after Joker, {figure}"


_DRAW = ", draw "


@dataclass(frozen=True)
class RepeatedDraw:
    """A case with another random seed, which is the same for all cases of a draw."""

    job: Job
    number: int

    def __call__(self, setting: Setting) -> Iterable[Record]:
        return self.job(replace(setting, seed=1000 * setting.seed + self.number))


def repeated(case: Case, draws: int) -> tuple[Case, ...]:
    """Repeat a case; the first run keeps its name and is the one in pictures over time."""
    return tuple(
        Case(f"{case.name}{_DRAW}{n + 1}" if n else case.name, RepeatedDraw(case.job, n))
        for n in range(draws)
    )


def middle(read: Read) -> Read:
    """The median of a number over the draws, each read as if there were no other.

    What was carried out once is the same in all of them.
    """

    def found(data: Data) -> float | None:
        values = [read(_draw(data, n)) for n in range(int(data.parameters.get("draws", 1)))]
        known = [v for v in values if v is not None]
        return median(known) if len(known) == len(values) else None

    return found


def _draw(data: Data, number: int) -> Data:
    """One of the draws, its cases under the names of the first."""
    if not number:
        return replace(data, records=tuple(r for r in data.records if _DRAW not in r["case"]))
    own = f"{_DRAW}{number + 1}"
    names = {case: case.removesuffix(own) for case in data.cases if case.endswith(own)}
    once = [case for case in data.cases if _DRAW not in case and f"{case}{own}" not in names]
    names |= {case: case for case in once}
    kept = ({**r, "case": names[r["case"]]} for r in data.records if r["case"] in names)
    return replace(data, records=tuple(kept))
