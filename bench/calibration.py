"""How well the simulator predicts Spark: some plans are fitted, others are predicted."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench import flows
from bench.result import Claim, Result
from penstock.app import run as run_flow
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.spark.engine import SparkEngine
from penstock.metrics.snapshot import LatencyMetrics, OperatorMetrics, Snapshot
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock.predict.calibration import fit
from penstock.predict.model_file import FittedModel, from_calibration
from penstock.predict.observations import read_run
from penstock.store import history
from penstock.workloads import build

PERIOD = 26.0
_LAST = 12.0
"""Seconds at the end of a period whose snapshots count; each looks back 5 s."""

_OVERLOADED, _MOST = 44.0, 32.0
"""The same where more comes than is taken: batches are as long as windows then, so few end."""

_WARMING = 40.0
"""Seconds of a period that does not count: until then Spark compiles what it runs often."""

_LONG = 60.0
"""Seconds that a simulated trial is looked at, after as many in which it settles."""

_SEEDS = 5
"""So often is a trial simulated that has too much to do."""

_RATE, _LATENCY = 0.10, 0.20
"""How far off throughput and mean latency may be."""

WINDOW = 5.0
"""Seconds that a snapshot looks back."""


@dataclass(frozen=True)
class Trial:
    """A plan for one period: what is changed for it, the load, and whether it is fitted.

    overloaded: more comes than it can take, so that only throughput can be predicted; counts: no
    for a beginning in which Spark is still slow.
    """

    change: str
    rate: float
    fitted: bool
    overloaded: bool = False
    counts: bool = True

    @property
    def seconds(self) -> float:
        if not self.counts:
            return _WARMING
        return _OVERLOADED if self.overloaded else PERIOD

    @property
    def last(self) -> float:
        return _MOST if self.overloaded else _LAST


@dataclass(frozen=True)
class Case:
    """A workload and the plans that it runs under, one after the other in one run.

    Plans to fit and plans to predict alternate, so that a machine that slows down, or a JVM that
    warms up, affects both. The cost of a row shows only where rows take most of a batch's time. So
    one plan with few tasks and one with many are fitted at a high load; where rows are cheap beside
    tasks, as in Spark's Python operators, that takes an overloaded plan, and another overloaded
    plan is predicted. Channels have their default size: with one smaller than a batch, writer and
    readers would alternate, and throughput would depend on how their batches happen to grow.
    """

    name: str
    build: Callable[[Path, str], Dataflow]
    trials: Sequence[Trial]
    parallelism: int = 4

    @property
    def load(self) -> str:
        """Each trial's rate for a period."""
        points = []
        for (begin, end), trial in zip(self.spans, self.trials, strict=True):
            points += [f"{begin:g}={trial.rate:g}", f"{end:g}={trial.rate:g}"]
        return "points:" + ",".join(points)

    @property
    def spans(self) -> list[tuple[float, float]]:
        """When each trial begins and ends."""
        ends = list(itertools.accumulate(trial.seconds for trial in self.trials))
        return list(itertools.pairwise([0.0, *ends]))

    def graph(self, out: Path) -> Graph:
        """The dataflow, its latency over windows that are shorter than a period."""
        graph = self.build(out, self.load).graph
        return replace(
            graph, constraints=tuple(replace(c, window=WINDOW) for c in graph.constraints)
        )


def _workload(name: str, **options: Any) -> Callable[[Path, str], Dataflow]:
    return lambda out, load: build(name, out, load=load, **options)


def _warm(change: str, rate: float) -> Trial:
    return Trial(change, rate, fitted=False, counts=False)


CASES = (
    Case(
        "word count",
        _workload("wordcount"),
        (
            _warm("tweets=2", 8000),
            _warm("split count", 8000),
            Trial("tweets=1, count=1", 5000, True),
            Trial("tweets=2, count=4", 10000, False),
            Trial("tweets=1, count=2", 7000, True),
            Trial("fuse split count, tweets=1", 40000, True),
            Trial("tweets=2, tweets.cadence=1s", 10000, False),
            Trial("tweets=4, tweets.cadence=0s", 100000, True),
            Trial("tweets=1", 400000, True, overloaded=True),
            Trial("tweets=2", 400000, False, overloaded=True),
        ),
    ),
    Case(
        "linear, waiting",
        _workload("linear", cost="wait"),
        (
            _warm("orders=2", 30),
            _warm("split step-2", 30),
            Trial("orders=1, step-2=1", 30, True),
            Trial("orders=2, step-2=3", 80, False),
            Trial("fuse step-1 step-2, orders=1", 30, True),
            Trial("orders=4, orders.cadence=1s", 80, False),
            Trial("orders=3, orders.cadence=0s", 90, True),
            Trial("orders=2", 200, False, overloaded=True),
        ),
    ),
    Case(
        "linear, computing",
        _workload("linear", cost="cpu", numbers=5000),
        (
            _warm("orders=2", 100),
            _warm("split step-2", 100),
            Trial("orders=1, step-2=1", 100, True),
            Trial("orders=1, step-2=2", 200, False),
            Trial("fuse step-1 step-2, orders=1", 100, True),
            Trial("orders=2, orders.cadence=1s", 250, False),
            Trial("orders=4, orders.cadence=0s", 300, True),
            Trial("orders=3, orders.admission=500", 1200, False, overloaded=True),
        ),
    ),
    Case(
        "diamond, waiting",
        _workload("diamond", cost="wait"),
        (
            _warm("branch-1=2", 20),
            _warm("branch-1=4", 20),
            Trial("branch-1=1", 20, True),
            Trial("branch-1=2, branch-1.cadence=1s", 30, False),
            Trial("branch-1=4, branch-1.cadence=0s", 60, True),
            # batches well below the beat: those that nearly miss it may do one or the other
            Trial("branch-1=3, orders.cadence=1s", 40, False),
            Trial("branch-1=2, orders.cadence=0s", 40, True),
            Trial("branch-1=2", 130, False, overloaded=True),
        ),
    ),
    Case(
        "star, waiting",
        _workload("star", cost="wait"),
        (
            _warm("centre=2", 15),
            _warm("split centre", 15),
            Trial("gather=1, centre=1, to-east=1, to-west=1", 15, True),
            Trial("centre=2", 30, False),
            Trial("fuse gather centre, centre=1", 20, True),
            Trial("centre=2, to-east=2, to-west=2, centre.cadence=1s", 40, False),
            Trial("centre.cadence=0s", 40, True),
            Trial("to-east=1, to-west=1", 120, False, overloaded=True),
        ),
    ),
    Case(
        "running sums",
        lambda out, load: flows.running(out, load=load),
        (
            _warm("rows=2", 500),
            _warm("split total", 500),
            Trial("rows=1, total=1", 300, True),
            Trial("rows=1, total=2", 600, False),
            Trial("fuse same total, rows=1", 15000, True),
            Trial("rows=2, rows.cadence=1s", 2000, False),
            Trial("rows=4, rows.cadence=0s", 20000, True),
            Trial("rows=1", 150000, True, overloaded=True),
            Trial("rows=2", 150000, False, overloaded=True),
        ),
    ),
)


def record(spark: Any, case: Case, folder: Path) -> Path:
    """Run all plans of a case; the run directory."""
    graph = case.graph(folder / "out")
    changes = [
        f"{begin:g}s:{one.change}" for (begin, _), one in zip(case.spans, case.trials, strict=True)
    ]
    run_flow(
        graph,
        plan=fusion.default_plan(graph, case.parallelism),
        engine=SparkEngine(spark=spark),
        seconds=case.spans[-1][1],
        changes=changes,
        run_dir=folder / "run",
        verify=False,
        drain=False,  # what has piled up in the last trial says nothing
    )
    return folder / "run"


@dataclass(frozen=True)
class Found:
    """What came of a trial: rows a second into the last operators, and mean latency in seconds.

    Latency is None where no row got through in time.
    """

    throughput: float
    latency: float | None


def seen_in(graph: Graph, snapshots: Sequence[Snapshot]) -> Found | None:
    """Totals over all windows: rows of whole batches for the time they stand for, and the latency
    of all rows. Windows overlap, so what is at the edges counts less, and it matters little which
    batch ended just before them. None if nothing was measured.
    """
    lasts = sorted({c.last for c in graph.constraints})
    rates = [_rate([s.operators[n] for s in snapshots if n in s.operators]) for n in lasts]
    if None in rates:
        return None
    ages = [
        _mean([s.latency[c.name] for s in snapshots if c.name in s.latency])
        for c in graph.constraints
    ]
    known = [age for age in ages if age is not None]
    whole = len(known) == len(ages)
    return Found(sum(rate or 0.0 for rate in rates), mean(known) if whole else None)


def _rate(windows: Sequence[OperatorMetrics]) -> float | None:
    """Where no batch ended in a window, the next one stands for its time."""
    known = [(one.rows_in, one.rate_in) for one in windows]
    ended = [(rows, rows / rate) for rows, rate in known if rows and rate]
    seconds = sum(span for _, span in ended)
    return sum(rows for rows, _ in ended) / seconds if seconds else None


def _mean(windows: Sequence[LatencyMetrics]) -> float | None:
    rows = sum(one.rows for one in windows)
    return sum(one.mean * one.rows for one in windows) / rows if rows else None


def predicted(fitted: FittedModel, graph: Graph, plan: Plan, trial: Trial, folder: Path) -> Found:
    """The same trial in the simulator.

    One that has too much to do never settles: its batches grow with what waits. So it takes as
    long as on Spark and is looked at as there, several times, as it begins a bit otherwise each
    time. The others are looked at for long, without their beginning.
    """
    model = fitted.model(graph, nodes=plan.executors)
    rate = f"{trial.rate:g}/s"
    if not trial.overloaded:
        wide = replace(
            graph, constraints=tuple(replace(c, window=_LONG) for c in graph.constraints)
        )
        engine = SimulatorEngine(model, load=rate, seed=1, window=_LONG)
        engine.start(wide, plan, folder)
        engine.advance(2 * _LONG)
        return _whole(seen_in(wide, [engine.observe()]))
    found = []
    for seed in range(_SEEDS):
        engine = SimulatorEngine(model, load=rate, seed=seed, window=WINDOW)
        engine.start(graph, plan, folder / f"{seed}")
        engine.advance(trial.seconds - trial.last)
        seen = []
        while engine.now < trial.seconds:
            engine.advance(1.0)
            seen.append(engine.observe())
        found.append(_whole(seen_in(graph, seen)))
    return Found(mean(one.throughput for one in found), None)


def _whole(found: Found | None) -> Found:
    assert found is not None
    return found


def compared(case: Case, run_dir: Path, folder: Path) -> list[dict[str, Any]]:
    """Fit the trials that are for it, predict the others: a row for each trial."""
    whole = read_run(run_dir)
    spans = case.spans
    chosen = [span for span, trial in zip(spans, case.trials, strict=True) if trial.fitted]
    # a window that looks back to the trial before shows what is to be predicted
    moments = [m for m in whole.windows if any(a + WINDOW < m.at <= b for a, b in chosen)]
    calibration = fit([replace(whole, windows=tuple(moments))])
    rows = []
    seen = [*history.recorded_snapshots(run_dir)]
    for at, ((_, end), trial) in enumerate(zip(spans, case.trials, strict=True)):
        late = end - trial.last  # by then the backlog of the change before is gone
        mine = [one for one in seen if late < one.snapshot.at <= end and one.snapshot.settled]
        measured = seen_in(whole.graph, [one.snapshot for one in mine])
        if measured is None or not trial.counts:
            continue
        plan = mine[-1].plan
        simulated = predicted(
            from_calibration(calibration), whole.graph, plan, trial, folder / f"{at}"
        )
        rows.append(_row(case, trial, plan, measured, simulated))
    return rows


def _row(case: Case, trial: Trial, plan: Plan, measured: Found, simulated: Found) -> dict[str, Any]:
    late = None
    if not trial.overloaded and measured.latency and simulated.latency:
        late = simulated.latency / measured.latency - 1
    return {
        "workload": case.name,
        "plan": _words(plan),
        "load": f"{trial.rate:g}/s" + (", too much" if trial.overloaded else ""),
        "used for": "fit" if trial.fitted else "check",
        "rows/s": measured.throughput,
        "predicted": simulated.throughput,
        "error %": round(100 * (simulated.throughput / measured.throughput - 1), 1),
        "latency (ms)": "grows" if late is None else round(1000 * (measured.latency or 0)),
        "predicted (ms)": "grows" if late is None else round(1000 * (simulated.latency or 0)),
        "error (%)": "" if late is None else round(100 * late, 1),
    }


def _taken(case: Case, rows: Sequence[dict[str, Any]]) -> float:
    """The share of what came that got through where too much did."""
    trials = [one for one in case.trials if one.counts]
    found = [float(row["rows/s"]) for row in rows if row["workload"] == case.name]
    pairs = list(zip(trials, found, strict=True))
    kept = median(rate / one.rate for one, rate in pairs if not one.overloaded)
    return max(rate / one.rate / kept for one, rate in pairs if one.overloaded)


def _words(plan: Plan) -> str:
    found = []
    for one in plan.pipelines:
        cadence = f" every {one.cadence:g} s" if one.cadence else ""
        admission = f" up to {one.admission} rows" if one.admission else ""
        name = one.operators[0] + (f"…{one.operators[-1]}" if len(one.operators) > 1 else "")
        found.append(f"{name}={one.parallelism}{cadence}{admission}")
    return ", ".join(found)


def run(spark: Any, folder: Path) -> Result:
    """Record each case, and compare what it came to with what the simulator says."""
    rows: list[dict[str, Any]] = []
    before = os.getloadavg()[0]
    for case in CASES:
        place = folder / case.name.replace(" ", "-").replace(",", "")
        rows += compared(case, record(spark, case, place), place / "simulated")
    return Result(
        "calibration",
        "Plans on Spark, some of them for fitting the simulator, the others predicted by it; load "
        f"average of the machine {before:.1f} before and {os.getloadavg()[0]:.1f} after.",
        rows,
        claims(rows),
    )


def claims(rows: Sequence[dict[str, Any]]) -> list[Claim]:
    """What is asked of the plans that were predicted."""
    checked = [row for row in rows if row["used for"] == "check"]
    rate = [abs(row["error %"]) / 100 for row in checked]
    late = [abs(row["error (%)"]) / 100 for row in checked if row["error (%)"] != ""]
    names = {str(row["workload"]) for row in checked}
    wrong = {str(row["workload"]) for row in checked if not _right(row)}
    return [
        Claim(
            "largest share of the load accepted by an overloaded plan",
            max(_taken(case, rows) for case in CASES),
            most=0.9,
        ),
        Claim(
            "workloads for which every plan is predicted within tolerance",
            float(len(names - wrong)),
            least=5,
        ),
        Claim("largest error of throughput", max(rate), most=_RATE),
        Claim("largest error of mean latency", max(late), most=_LATENCY),
        Claim("median error of throughput", median(rate), most=_RATE),
        Claim("median error of mean latency", median(late), most=_LATENCY),
    ]


def _right(row: dict[str, Any]) -> bool:
    late = row["error (%)"] == "" or abs(row["error (%)"]) <= 100 * _LATENCY
    return bool(late and abs(row["error %"]) <= 100 * _RATE)
