"""Costs of changes on Spark, read from output batches: times, drops and gaps.

Rates are over whole batches: from the end of one to the end of another, over a minimum time.
Spark's channels hold so much that a source is never held back, so rows are counted at the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from penstock.drawing.figures import Bars, Figure, Line, Panel
from penstock_lab.experiments.experiment import Claim, Data, Read, Record
from penstock_lab.experiments.joker import common
from penstock_lab.experiments.joker.change_spark import CEILING, KEYED, PLAIN, by_hand_of

BEFORE, AFTER = 5.0, 3.0
"""Seconds before and after a change over which rates are read."""

WINDOW = 1.0
"""Minimum duration of a rate, in seconds."""

MORE = 1.05
"""As in the simulation: so many times the rate before is more."""

KINDS: Mapping[str, slice] = {
    "a cut": slice(0, 2),
    "one replica to two": slice(2, 3),
    "two replicas to three": slice(3, 4),
}
"""Which of the changes are of a kind."""

CUT, TWO, THREE = KINDS

Number = Callable[[Data, str, Record], float]
"""Something about a change in a case."""


def most(kind: str, case: str, number: Number) -> Callable[[Data], float]:
    """The most of something among the changes of a kind; raises `KeyError` where none was made."""

    def read(data: Data) -> float:
        made = data.of(case, "change")[KINDS[kind]]
        if not made:
            raise KeyError(f"{case}: {kind}")
        return max(number(data, case, change) for change in made)

    return read


def seconds(data: Data, case: str, change: Record) -> float:
    """Seconds until the new plan was in force."""
    return float(change["seconds"])


def silence(data: Data, case: str, change: Record) -> float:
    """Seconds: the longest time from one output to the next, of those around and after a change.

    From the last one before it on, to the one at which a few seconds have passed since it was made:
    where no query is stopped, it is the batch after the next that is the first to be another one.
    """
    times = [float(t["at"]) for t in _around(data, case, change)]
    return max(b - a for a, b in pairwise(times))


def fall(data: Data, case: str, change: Record) -> float:
    """The share by which less comes out than before, in the worst few seconds of a change.

    Of those around and after it; 0 where it is never less.
    """
    worst = min(_stretches(_around(data, case, change)))
    return max(0.0, 1 - worst / before(data, case, float(change["at"])))


def effect(data: Data, case: str, change: Record) -> float:
    """Seconds until more comes out than before; until the next change if it never does.

    To the first batch of a few seconds in which it is more, not only at once.
    """
    at, until = float(change["at"]), _next(data, case, change)
    ticks = [t for t in data.of(case) if t["at"] < until]
    least = MORE * before(data, case, at)
    ticks = ticks[max(n for n, t in enumerate(ticks) if t["at"] <= at) :]
    rates = zip(_stretches(ticks), ticks[1:], strict=False)
    found = [tick["at"] for rate, tick in rates if rate > least]
    return float(found[0] if found else ticks[-1]["at"]) - at


def before(data: Data, case: str, at: float) -> float:
    """Rows a second in the seconds before a change."""
    ticks = [t for t in data.of(case) if at - BEFORE <= t["at"] <= at]
    if len(ticks) < 2:
        raise KeyError(f"{case}: too few batches before {at:g} s")
    return _rate(ticks[0], ticks[-1])


def windows(ticks: Sequence[Record]) -> list[tuple[float, float, float]]:
    """Beginning, end and rows a second of times that are whole batches, one after the other."""
    found, since = [], ticks[0]
    for tick in ticks[1:]:
        if tick["at"] - since["at"] >= WINDOW:
            found.append((float(since["at"]), float(tick["at"]), _rate(since, tick)))
            since = tick
    return found


def usual(data: Data) -> float:
    """Seconds from one output to the next without state, the median of all."""
    found = [float(b["at"] - a["at"]) for a, b in pairwise(data.of(PLAIN))]
    if not found:
        raise KeyError(f"{PLAIN}: nothing came out")
    return median(found)


def unchanged(data: Data) -> float:
    """The deepest fall without state where nothing is changed, read as if something were.

    Shortly before a change, if the one before that is over for as long as rates are read.
    """
    pause, ends = AFTER + 2 * usual(data), [0.0]
    found = []
    for change in data.of(PLAIN, "change"):
        at = float(change["at"]) - pause
        if at - BEFORE >= ends[-1]:
            found.append(fall(data, PLAIN, {"at": at, "seconds": 0.0}))
        ends.append(_end(change) + AFTER)
    if not found:
        raise KeyError(f"{PLAIN}: there is always a change")
    return max(found)


def beside(kind: str, case: str) -> Read:
    """The longest time without output beside that of the same changes by hand."""

    def read(data: Data) -> float:
        return most(kind, case, silence)(data) / most(kind, by_hand_of(case), silence)(data)

    return read


def _rate(first: Record, last: Record) -> float:
    return float((last["delivered"] - first["delivered"]) / (last["at"] - first["at"]))


def _end(change: Record) -> float:
    return float(change["at"]) + float(change["seconds"])


def _next(data: Data, case: str, change: Record) -> float:
    later = [float(c["at"]) for c in data.of(case, "change") if c["at"] > change["at"]]
    return min(later, default=float("inf"))


def _stretches(ticks: Sequence[Record]) -> list[float]:
    """Rows a second over a few seconds of whole batches, from each one on, as far as they go."""
    ends = ((a, next((b for b in ticks if b["at"] - a["at"] >= AFTER), None)) for a in ticks)
    return [_rate(a, b) for a, b in ends if b is not None]


def _around(data: Data, case: str, change: Record) -> Sequence[Record]:
    """The batches from the last before a change to the first a few seconds after it was made."""
    ticks, at, until = data.of(case), float(change["at"]), _end(change) + AFTER
    earlier, late = ([t for t in ticks if t["at"] <= at], [t for t in ticks if t["at"] >= until])
    if not earlier or not late:
        raise KeyError(f"{case}: no batch before or after the change at {at:g} s")
    return [earlier[-1], *(t for t in ticks if at < t["at"] < until), late[0]]


# --- showing ------------------------------------------------------------------------------------


_CASES = (PLAIN, by_hand_of(PLAIN), KEYED, by_hand_of(KEYED), CEILING)


def picture(data: Data) -> Figure:
    panels, tones = [], {case: tone for tone, case in enumerate(_CASES)}
    for own in (PLAIN, KEYED):
        shown = [c for c in _CASES if c in data.cases and c.startswith(own) and data.of(c)]
        lines = tuple(_line(data, case, tones[case]) for case in shown)
        if lines:
            marks = common.marks(data, shown[0])
            panels.append(Panel("time (s)", "rows/s", lines, marks=marks, title=own))
    bars = tuple(
        Bars(case, tuple(_known(data, kind, case) for kind in KINDS), tone=tone)
        for case, tone in tones.items()
        if case in data.cases
    )
    panels.append(Panel("change", "longest time without output (s)", categories=tuple(KINDS),
                        bars=bars))  # fmt: skip
    return Figure("What a change costs", tuple(panels), note=common.note(data, "figure 16"))


def _line(data: Data, case: str, tone: int) -> Line:
    found = windows(data.of(case))
    found += [(end, end, rate) for _, end, rate in found[-1:]]  # a step needs its end
    times, rates = (tuple(one[at] for one in found) for at in (0, 2))
    return Line(case, times, rates, style="step", tone=tone)


def _known(data: Data, kind: str, case: str) -> float | None:
    try:
        return most(kind, case, silence)(data)
    except KeyError:
        return None


VISIBLE = 0.1
"""A fall that would be seen: the paper's picture shows none where it says that there is none."""

ON_SPARK = (
    "a local master with more slots than cores, and the paper's region of operators that wait, of "
    "which a script makes what the paper's policy made: a cut in two, one in three, two replicas "
    "of all, three of all. Rates are over whole batches: of the last 5 s before a change, and of "
    "the worst 3 s from then on until 3 s after it was made; more comes out from the first batch "
    "of 3 s in which it does. By hand: all queries are stopped, each after its batch, and all "
    "are started under the new plan in the same session. Dynamic allocation does not apply, as a "
    "local master has one executor for good."
)

_RESTARTS = (
    "a cut ends a Spark query and starts two, which have to plan and read their first batches; "
    "in the paper a thread is paused and goes on"
)
_DEALT = (
    "no query is stopped, and the next batch has one task more; but that task needs another "
    "Python process unless one is idle, and the batch that waits for its start takes one or two "
    "seconds longer on two cores"
)
_PREPARED = (
    "the state is repartitioned next to the running query that holds it; the paper moves "
    "references within one process"
)


def claims() -> tuple[Claim, ...]:
    words = {PLAIN: "waiting operators", KEYED: "the same with state that moves",
             CEILING: "the same below the ceiling"}  # fmt: skip

    def of(case: str, kind: str, what: str) -> str:
        return f"{words[case]}, {kind}: {what}"

    found: list[Claim] = []
    for case, kind in ((PLAIN, CUT), (PLAIN, TWO), (PLAIN, THREE), (KEYED, THREE),
                       (CEILING, THREE)):  # fmt: skip
        slow = _RESTARTS if kind == CUT else _PREPARED if case == KEYED else _DEALT
        three = kind == THREE
        found += [
            Claim(of(case, kind, "seconds that it took"), None, most(kind, case, seconds),
                  neutral=1.0, side="below", only="spark", on_spark=slow),
            Claim(of(case, kind, "fall of throughput"), 0.3, most(kind, case, fall),
                  better="lower", only="spark", on_spark=slow)
            if three else
            Claim(of(case, kind, "fall of throughput"), None, most(kind, case, fall),
                  neutral=VISIBLE, side="below", only="spark", on_spark=slow),
            Claim(of(case, kind, "seconds until more comes out"), 3.0 if three else 2.0,
                  most(kind, case, effect), better="lower", only="spark", on_spark=slow),
        ]  # fmt: skip
    found.append(Claim("waiting operators, nothing changed: deepest fall of throughput", None,
                       unchanged, only="spark"))  # fmt: skip
    found.append(Claim("waiting operators: usual time from one output to the next", None, usual,
                       "s", only="spark"))  # fmt: skip
    for case in (PLAIN, KEYED, CEILING):
        for kind in KINDS if case != CEILING else (TWO, THREE):  # cuts are as without one
            found += [
                Claim(of(case, kind, "longest time without output"), None,
                      most(kind, case, silence), "s", only="spark"),
                Claim(of(case, kind, "that time beside the same by hand"), None,
                      beside(kind, case), only="spark"),
            ]  # fmt: skip
    return tuple(found)


CLAIMS = claims()
