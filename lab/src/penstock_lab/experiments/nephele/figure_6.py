"""Nephele's figure 6: PrimeTester under a bound of 20 ms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.drawing.figures import Figure, Level, Line, Panel
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read, Record
from penstock_lab.experiments.nephele import prime_tester_spark
from penstock_lab.experiments.nephele.common import (
    P95,
    PAPER,
    PRINTED,
    Buffers,
    dynamic,
    fewest_testers,
    note,
    short,
)
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.scenario import (
    PRIME_RATES,
    PRIME_SERVICE,
    Scenario,
    prime_tester,
)

# --- figure 6 -----------------------------------------------------------------------------------


def figure_6(step: float) -> Sequence[Case]:
    scenario = prime_tester(step=step)
    return (
        Case("latency", Play(scenario, PRINTED)),
        Case("static", Play(Buffers().on(scenario, PRIME_RATES[0]), Buffers())),
        Case("best static", fewest_testers(partial(bounded, 20), step, PEAK)),
        Case("dynamic allocation", dynamic(scenario, 130, SMALL)),
    )


PEAK = PRIME_RATES[-1] * PRIME_SERVICE
SMALL = {"test": 36}
"""As few testers as the first step needs, with which dynamic allocation begins."""


def bounded(bound: int, step: float) -> Scenario:
    return prime_tester(latency=f"{bound}ms", step=step)


def _met(case: str) -> Read:
    return lambda data: reading.met(data, case)


def _hours(case: str) -> Read:
    return lambda data: reading.task_hours(data, case)


def hours_beside(case: str, other: str) -> Read:
    return lambda data: reading.task_hours(data, case) / reading.task_hours(data, other)


def _best(data: Data) -> float | None:
    if data.engine == "spark":
        return prime_tester_spark.best(data)
    return float(data.of("best static", "found")[0]["test"])


def _beside_best(data: Data) -> float | None:
    if data.engine == "simulator":
        return hours_beside("latency", "best static")(data)
    hours = prime_tester_spark.best_hours(data)
    return None if hours is None else reading.task_hours(data, "latency") / hours


def _testers_at_start(data: Data) -> float:
    """Testers at the end of the first step, in which the load is lowest."""
    first = [t for t in data.of("latency") if t["at"] <= data.parameters["step"]]
    return float(first[-1]["pipelines"]["test"]["instances"])


def _usual_p95(data: Data) -> float:
    """Median 95th percentile over the windows: its usual value, away from changes."""
    found = sorted(1000 * one["p95"] for t in data.of("latency") for one in t["latency"].values())
    return float(found[len(found) // 2])


def _lowest(case: str, which: str) -> Read:
    def read(data: Data) -> float:
        settled = [t for t in data.of(case) if t["at"] > data.parameters["step"]]
        return min(1000 * float(one[which]) for t in settled for one in t["latency"].values())

    return read


def _mean_ms(tick: Record) -> float:
    return 1000 * float(tick["latency"]["test->sink"]["mean"])


def _p95_ms(tick: Record) -> float:
    return 1000 * float(tick["latency"]["test->sink"]["p95"])


def _testers(tick: Record) -> float:
    return float(tick["pipelines"]["test"]["instances"])


def _attempted(data: Data, case: str) -> Line:
    times, found = reading.rates(data, case, 1.0, "offered")
    return Line("attempted", times, found, tone=6)


def picture_6(data: Data) -> Figure:
    tones = {"latency": 0, "static": 1, "best static": 5, "dynamic allocation": 2}
    if data.engine == "spark":  # there the best static plan is known by trials of its own
        tones.pop(prime_tester_spark.BEST)
    cases = [c for c in tones if c in data.cases]
    bound = next(iter(data.of("latency")[-1]["latency"].values()))["bound"] * 1000
    lines = [reading.line(data, c, _mean_ms, short(c), tone=tones[c]) for c in cases]
    lines.append(reading.line(data, "latency", _p95_ms, P95, tone=0, faint=True))
    testers = tuple(
        reading.line(data, c, _testers, short(c), style="step", tone=tones[c]) for c in cases
    )
    executors: tuple[Panel, ...] = ()
    if data.engine == "spark" and prime_tester_spark.DYNAMIC in cases:
        executors = (prime_tester_spark.panel(data, tones[prime_tester_spark.DYNAMIC]),)
    return Figure(
        f"PrimeTester with a bound of {bound:g} ms",
        (
            Panel("time (s)", "numbers/s", (_attempted(data, cases[0]),)),
            Panel(
                "time (s)",
                "mean latency (ms)",
                tuple(lines),
                levels=(Level(bound, f"{bound:g} ms"),),
                log=True,
            ),
            Panel(
                "time (s)",
                "testers",
                testers,
                marks=reading.marks(data, "latency", "test"),
                marked="changes of the policy latency",
            ),
            *executors,
        ),
        note=note(data, "figure 6"),
    )


SMOOTH = (
    "the simulated cluster has no stragglers, no garbage collection and only random bursts, so "
    "queues are shorter than the paper's and fewer testers keep the bound"
)

FIGURE_6 = Experiment(
    "nephele-6",
    "PrimeTester: 20 ms with as few testers as possible",
    PAPER,
    "figure 6",
    figure_6,
    (
        Claim(
            "share of intervals that meet the bound",
            0.91,
            _met("latency"),
            ideal=1.0,
            why=SMOOTH,
        ),
        Claim("share of intervals that meet the bound, static testers", None, _met("static")),
        Claim(
            "testers at the end of the warm-up",
            36,
            _testers_at_start,
            only="simulator",
            basis="given",
        ),
        Claim(
            "task hours beside static testers",
            1.0,
            hours_beside("latency", "static"),
            better="lower",
            within=0.1,
            why=SMOOTH,
        ),
        Claim(
            "95th percentile where nothing changes",
            30,
            _usual_p95,
            "ms",
            better="lower",
            only="simulator",
            why=SMOOTH,
        ),
        *(
            Claim(
                f"lowest {words} of the static testers with 16 KiB buffers",
                milliseconds,
                _lowest("static", which),
                "ms",
                why="the paper prints neither the peak nor the size of a buffer: the peak is "
                "derived from the testers that carry it, the buffer from the latency of "
                "almost 3 s in figure 3",
                only="simulator",
            )
            for words, which, milliseconds in (
                ("mean latency", "mean", 348),
                ("95th percentile", "p95", 564),
            )
        ),
        Claim("task hours of the policy", None, _hours("latency")),
        Claim("task hours of the static testers", None, _hours("static")),
        Claim(
            "testers of the best static plan that meets the bound in 91 %",
            None,
            _best,
        ),
        Claim("task hours beside the best static plan", None, _beside_best),
        Claim(
            "share that meets the bound under Spark's dynamic allocation",
            None,
            _met("dynamic allocation"),
        ),
        Claim(
            "task hours of dynamic allocation",
            None,
            _hours("dynamic allocation"),
            only="simulator",
        ),
        *prime_tester_spark.CLAIMS,
    ),
    picture_6,
    size={"step": 60.0},
    quick={"step": 20.0},
    spark=prime_tester_spark.cases,
    spark_size={"step": 30.0, "rate": 225, "latency": "2s"},
    on_spark=prime_tester_spark.ON_SPARK,
    notes=(
        "The simulation has the paper's graph, which the workload prime-tester has too: 32 "
        "sources, the testers and 32 sinks. The time of a test is not printed; it is chosen so "
        "that 36 testers carry the warm-up and 175 the peak. The strategy is the one printed in "
        "the paper, without the reserve that the policy keeps by default.",
    ),
)

EXPERIMENTS = (FIGURE_6,)
