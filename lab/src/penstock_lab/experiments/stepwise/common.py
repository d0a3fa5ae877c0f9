"""What the experiments of stepwise profiling share: how their rounds are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.drawing.figures import Line, Mark
from penstock_lab.experiments.experiment import Data, Record

PAPER = "Stepwise auto-profiling for performance optimization of streaming applications"

SLOWED = "time of the slowest operator before single instances are tried, beside its least"
"""The row of `slowed`."""


def rounds(data: Data, case: str) -> tuple[Record, ...]:
    """The rounds of a case, in their order."""
    return data.of(case, "round")


def final(data: Data, case: str) -> Record:
    """The round whose plan was kept."""
    return next(r for r in rounds(data, case) if r["final"])


def throughput(data: Data, case: str) -> float:
    """Throughput of the plan that was kept."""
    return float(final(data, case)["throughput"])


def first(data: Data, case: str) -> float:
    """Records a second in the first round."""
    return float(rounds(data, case)[0]["throughput"])


def tuned(data: Data, case: str) -> int:
    """Rounds of the last step, which tries single instances."""
    return sum("operator" in r["changed"] for r in rounds(data, case))


def untuned(data: Data, case: str) -> Record:
    """The round from which single instances were tried, or the one kept if none were."""
    found = rounds(data, case)
    first = next((r for r in found if "operator" in r["changed"]), None)
    if first is None:
        return final(data, case)
    return next(
        r
        for r in reversed(found[: found.index(first)])
        if r["throttle"] == first["throttle"]
        and sorted(map(int.__sub__, first["instances"], r["instances"]))[-2:] == [0, 1]
    )


def slowed(data: Data, case: str) -> float:
    """Slowest operator's time per row relative to its least, before single instances."""
    return float(untuned(data, case)["slowed"])


def gain(data: Data, case: str) -> float:
    """Gain of the final plan over that of the first round."""
    return throughput(data, case) / first(data, case) - 1


def line(data: Data, case: str, label: str, tone: int) -> Line:
    """Throughput round by round."""
    found = rounds(data, case)
    return Line(label, tuple(map(float, range(1, len(found) + 1))), _throughputs(found), tone=tone)


def kept(data: Data, cases: Sequence[str]) -> Line:
    """The rounds whose plans were kept, as points of a picture."""
    found = [final(data, case) for case in cases]
    numbers = tuple(float(r["number"]) for r in found)
    return Line("kept", numbers, _throughputs(found), style="points", tone=6)


def marks(data: Data, cases: Sequence[str]) -> tuple[Mark, ...]:
    """Marks where a case first slows its sources down, and where it turns to single instances."""
    found: dict[int, dict[str, list[str]]] = {}
    for case in cases:
        for kind, words in (("throttle", "slower"), ("operator", "one by one")):
            first = next((r for r in rounds(data, case) if kind in r["changed"]), None)
            if first is not None:
                found.setdefault(first["number"], {}).setdefault(words, []).append(case)

    def label(of: Mapping[str, Sequence[str]]) -> str:
        named = (w if len(who) == len(cases) else f"{', '.join(who)} {w}" for w, who in of.items())
        return "; ".join(named)

    return tuple(Mark(float(at), label(found[at])) for at in sorted(found))


def _throughputs(found: Sequence[Record]) -> tuple[float, ...]:
    return tuple(float(r["throughput"]) for r in found)


def note(data: Data, figure: str) -> str:
    """The line below a picture."""
    where = "simulated" if data.engine == "simulator" else "on Spark"
    return f"{where}, random seed {data.seed}; after Liu et al., {figure}"
