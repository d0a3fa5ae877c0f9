"""What the experiments of stepwise profiling have in common: how their rounds are read."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.experiments.experiment import Data, Record
from penstock.report.figures import Line

PAPER = "Stepwise auto-profiling for performance optimization of streaming applications"


def rounds(data: Data, case: str) -> tuple[Record, ...]:
    """The rounds of a case, in their order."""
    return data.of(case, "round")


def final(data: Data, case: str) -> Record:
    """The round whose plan was kept."""
    return next(r for r in rounds(data, case) if r["final"])


def throughput(data: Data, case: str) -> float:
    """Records a second with the plan that was kept."""
    return float(final(data, case)["throughput"])


def first(data: Data, case: str) -> float:
    """Records a second in the first round."""
    return float(rounds(data, case)[0]["throughput"])


def gain(data: Data, case: str) -> float:
    """By which share the final plan carries more than that of the first round."""
    return throughput(data, case) / first(data, case) - 1


def line(data: Data, case: str, label: str, tone: int) -> Line:
    """Throughput round by round."""
    found = rounds(data, case)
    return Line(label, tuple(map(float, range(1, len(found) + 1))), _throughputs(found), tone=tone)


def _throughputs(found: Sequence[Record]) -> tuple[float, ...]:
    return tuple(float(r["throughput"]) for r in found)


def note(data: Data, figure: str) -> str:
    """The line below a picture."""
    where = "simulated" if data.engine == "simulator" else "on Spark"
    return f"{where}, seed {data.seed}; after Liu et al., {figure}"
