"""Nephele's figure 3: why batching alone cannot guarantee latency.

Besides the cases of the paper, there are elastic and static rivals: our own policy, the best static
plan and Spark's dynamic allocation, all with the test time of batching for 20 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from penstock.drawing.figures import Figure, Level, Line, Panel
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Case, Claim, Data, Experiment, Read, Record
from penstock_lab.experiments.nephele.common import (
    PAPER,
    PRINTED,
    Buffers,
    dynamic,
    fewest_testers,
    note,
    short,
)
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.scenario import Scenario, prime_tester

RATES = tuple(range(10_000, 90_000, 10_000))
"""Numbers per second, step by step.

The paper's steps are 10,000 apart, as its text on figure 6 says; the last is not printed, but it is
well above the 63,000 that the best configuration carries."""

PEAKS = {"instant flushing": 40_000, "batching for 20 ms": 52_000, "16 KiB buffers": 63_000}
"""Numbers per second that the paper's 200 testers carried with each way of shipping.

The simulation has no costs of system calls and packets, so these rates are put in: the time of a
test including all shipping is 200 testers / peak. Only what follows from that is compared."""

TONES = {
    "instant flushing": 1,
    "batching for 20 ms": 0,
    "16 KiB buffers": 4,
    "elastic": 2,
    "best static": 5,
    "dynamic allocation": 3,
}
SCALED = ("elastic", "best static", "dynamic allocation")
"""Cases with other numbers of testers than the paper's 200."""


def cases(step: float) -> Sequence[Case]:
    instant, batching, buffers = PEAKS
    return (
        Case(instant, Play(_fixed(instant, step))),
        Case(batching, Play(_fixed(batching, step), PRINTED)),
        Case(buffers, Play(Buffers().on(_fixed(buffers, step), RATES[0]), Buffers())),
        Case("elastic", Play(_elastic(step), PRINTED)),
        Case("best static", fewest_testers(_elastic, step, 200 / PEAKS[batching] * RATES[-1])),
        Case("dynamic allocation", dynamic(_elastic(step), 130, {"test": 44})),
        Case("tests alone", Play(_alone(step))),
    )


def _fixed(way: str, step: float) -> Scenario:
    service = 200 / PEAKS[way]
    return prime_tester(
        200, step=step, rates=RATES, service=service, ends=50, elastic=False, nodes=50
    )


def _elastic(step: float) -> Scenario:
    """Elastic cases with the nodes of later figures, which this figure lacks."""
    service = 200 / PEAKS["batching for 20 ms"]
    return prime_tester(200, step=step, rates=RATES, service=service, ends=50)


def _alone(step: float) -> Scenario:
    """The warm-up with instant flushing, if shipping cost no more than with buffers."""
    service = 200 / PEAKS["16 KiB buffers"]
    return prime_tester(
        200, step=step, rates=RATES[:1], service=service, ends=50, elastic=False, nodes=50
    )


# --- reading ------------------------------------------------------------------------------------


def _steps(data: Data, case: str) -> list[tuple[Record, ...]]:
    """The second half of each step while the load rises, where a steady state would be reached."""
    step = float(data.parameters["step"])
    ticks = data.of(case)
    return [reading.between(ticks, (n + 0.5) * step, (n + 1) * step) for n in range(len(RATES) + 1)]


def lost(case: str) -> Read:
    """Number of the first step in which the testers are always busy, so that queues only grow."""

    def read(data: Data) -> float | None:
        for number, ticks in enumerate(_steps(data, case)):
            busy = [t["pipelines"]["test"]["busy"] for t in ticks]
            if fmean(b for b in busy if b is not None) >= 0.98:
                return float(number)
        return None

    return read


def missed(case: str) -> Read:
    """Number of the first step whose mean latency is above 20 ms."""

    def read(data: Data) -> float | None:
        found = (n for n, ticks in enumerate(_steps(data, case)) if _mean(ticks) > 20)
        first = next(found, None)
        return None if first is None else float(first)

    return read


def _mean(ticks: Sequence[Record]) -> float:
    return fmean(_milliseconds(t) for t in ticks)


def _milliseconds(tick: Record) -> float:
    return 1000 * float(tick["latency"]["test->sink"]["mean"])


def _testers(tick: Record) -> float:
    return float(tick["pipelines"]["test"]["instances"])


def _warm_up(case: str) -> Read:
    return lambda data: _mean(_steps(data, case)[0])


def bends(data: Data) -> float:
    """Latency added by instant flushing from 20,000 to 30,000, relative to the step before."""
    first, second, third = (_mean(ticks) for ticks in _steps(data, "instant flushing")[:3])
    return (third - second) / (second - first)


def peak(data: Data, case: str) -> float:
    """The highest throughput over half a step."""
    step = float(data.parameters["step"])
    halves = range(1, 2 * len(RATES))
    return max(reading.throughput(data, case, n * step / 2, (n + 1) * step / 2) for n in halves)


def _beside_instant(case: str) -> Read:
    return lambda data: peak(data, case) / peak(data, "instant flushing")


def _met(case: str) -> Read:
    return lambda data: reading.met(data, case)


def _hours_beside(case: str) -> Read:
    return lambda data: reading.task_hours(data, case) / reading.task_hours(data, "best static")


def picture(data: Data) -> Figure:
    cases = [c for c in TONES if c in data.cases]
    times, offered = reading.rates(data, cases[0], 1.0, "offered")
    through = [Line("attempted", times, offered, tone=6)]
    for case in cases:
        if case != "best static":  # it carries what is attempted
            through.append(Line(short(case), *reading.rates(data, case, 5.0), tone=TONES[case]))
    latency = tuple(reading.line(data, c, _milliseconds, short(c), tone=TONES[c]) for c in cases)
    testers = tuple(
        reading.line(data, c, _testers, short(c), style="step", tone=TONES[c])
        for c in SCALED
        if c in cases
    )
    marks = reading.marks(data, "elastic", "test")
    return Figure(
        "PrimeTester on 200 testers, and with as many as it takes",
        (
            Panel("time (s)", "numbers/s", tuple(through)),
            Panel("time (s)", "mean latency (ms)", latency, levels=(Level(20, "20 ms"),), log=True),
            Panel(
                "time (s)",
                "testers",
                testers,
                levels=(Level(200, "200"),),
                marks=marks,
                marked="changes of elastic",
            ),
        ),
        note=note(data, "figure 3"),
    )


JAMS = {"instant flushing": 3, "batching for 20 ms": 5, "16 KiB buffers": 6}
"""The steps in which the paper's queues only grow.

Since the peaks are put in, so is the first step with a rate above them."""

FIGURE_3 = Experiment(
    "nephele-3",
    "PrimeTester: why elasticity",
    PAPER,
    "figure 3",
    cases,
    (
        *(
            Claim(f"step of the jam, {case}", step, lost(case), basis="given")
            for case, step in JAMS.items()
        ),
        Claim(
            "step in which batching misses 20 ms", 4, missed("batching for 20 ms"), basis="given"
        ),
        Claim(
            "what instant flushing waits longer from 20,000 to 30,000 numbers/s beside from 10,000 "
            "to 20,000",
            None,
            bends,
            neutral=1.0,
            side="above",
            basis="given",
        ),
        Claim(
            "throughput of batching beside instant flushing",
            1.3,
            _beside_instant("batching for 20 ms"),
            neutral=1.0,
            basis="given",
        ),
        Claim(
            "throughput of 16 KiB buffers beside instant flushing",
            1.58,
            _beside_instant("16 KiB buffers"),
            neutral=1.0,
            basis="given",
        ),
        Claim(
            "latency of 16 KiB buffers in the warm-up",
            3000,
            _warm_up("16 KiB buffers"),
            "ms",
            basis="given",
        ),
        Claim(
            "latency of instant flushing in the warm-up",
            1.5,
            _warm_up("instant flushing"),
            "ms",
            why="200 testers that do 40,000 numbers/s take 5 ms per number, and 3.2 ms if "
            "buffers save most of the shipping, so a number cannot pass in 1.5 ms if one "
            "tester does all of it; even with free shipping it takes longer (below)",
        ),
        Claim(
            "latency in the warm-up where shipping costs no more than that of buffers",
            None,
            lambda data: _mean(data.of("tests alone")),
            "ms",
        ),
        Claim(
            "share of intervals that meet 20 ms, elastic",
            None,
            lambda data: reading.met(data, "elastic"),
        ),
        Claim(
            "share of intervals that meet 20 ms, batching alone",
            None,
            lambda data: reading.met(data, "batching for 20 ms"),
        ),
        *(
            Claim(f"share of intervals that meet 20 ms, {case}", None, _met(case))
            for case in ("best static", "dynamic allocation")
        ),
        *(
            Claim(f"task hours beside the best static plan, {case}", None, _hours_beside(case))
            for case in ("elastic", "dynamic allocation")
        ),
    ),
    picture,
    size={"step": 60.0},
    quick={"step": 20.0},
    no_spark="the figure is about when channels between tasks ship their buffers; Spark ships "
    "batches",
    notes=(
        "The simulation has the paper's graph, which the workload prime-tester has too: 50 "
        "sources, 200 testers and 50 sinks. The throughput of 200 testers with each way of "
        "shipping, and the numbers in a buffer, are the paper's numbers and put in. So is the "
        "step in which batching misses its bound: testers that carry 52,000 numbers/s are 96 % "
        "busy with 50,000. Waits that grow ever faster are a property of any queue.",
        "Storm, the fourth configuration of the figure, is not repeated: it ships at once, like "
        "instant flushing. The paper has both to compare the code of two systems, which no "
        "simulation shows.",
    ),
)

EXPERIMENTS = (FIGURE_3,)
