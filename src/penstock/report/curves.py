"""Charts of a run over time: throughput, latency, instances and backlog."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock import text
from penstock.drawing.figures import Figure, Level, Line, Mark, Panel
from penstock.report.story import Story, Turn

_MINUTES = 600.0  # seconds; longer runs have a time axis in minutes


def curves(story: Story) -> Figure:
    """Figure with one panel per measured quantity."""
    return Figure(
        f"{story.graph.name}: the course of the run",
        tuple(_panels(story)),
        note="Ticks on top are changes of the plan." if story.changes else "",
    )


def _panels(story: Story) -> Iterator[Panel]:
    unit = 60.0 if story.seconds > _MINUTES else 1.0
    x = "time (min)" if unit == 60.0 else "time (s)"
    at = tuple(p.x / unit for p in story.points)
    if not at:
        return
    marks = tuple(Mark(m.x / unit, "; ".join(m.transition.changes)) for m in story.changes)

    def line(label: str, of: Callable[[Turn], float | None], **look: object) -> Line:
        return Line(label, at, tuple(map(of, story.points)), **look)  # type: ignore[arg-type]

    flows = [
        line("offered", lambda p: p.line.offered, tone=1, faint=True),
        line("sustained", lambda p: p.line.sustained, tone=0),
    ]
    yield Panel(x, "rows/s", _there(flows), title="throughput (rows/s)", marks=marks)
    for constraint in story.graph.constraints:
        yield from _latency(story, constraint.name, constraint.latency, x, at, marks)
    sizes = [
        line("instances", lambda p: p.plan.slots, style="step", tone=0),
        line("executors", lambda p: p.line.executors, style="step", tone=2),
    ]
    yield Panel(x, "instances", _there(sizes), title="instances and executors", marks=marks)
    waiting = _there([line("backlog", lambda p: p.line.backlog, tone=3)])
    if waiting:
        yield Panel(x, "rows", waiting, title="backlog (rows waiting)", marks=marks)


def _latency(
    story: Story, name: str, bound: float, x: str, at: tuple[float, ...], marks: tuple[Mark, ...]
) -> Iterator[Panel]:
    factor, unit = (1000.0, "ms") if bound < 1 else (1.0, "s")

    def values(what: str) -> tuple[float | None, ...]:
        found = (p.snapshot.latency.get(name) for p in story.points)
        return tuple(None if one is None else factor * getattr(one, what) for one in found)

    tail = Line("95th percentile", at, values("p95"), tone=5, faint=True)
    shown = _there([tail, Line("mean", at, values("mean"), tone=0)])
    if not shown:
        return
    first, _, last = name.partition("->")
    level = Level(factor * bound, f"bound {text.span(bound)}")
    title = f"latency {first} to {last} ({unit})"
    means = sorted(y for line in shown for y in line.y if y is not None)
    high = means[min(len(means) - 1, int(0.98 * len(means)))]
    top = 1.1 * max(level.value, high) if means[-1] > 4 * max(level.value, high) else None
    yield Panel(x, unit, shown, levels=(level,), title=title, marks=marks, top=top)


def _there(lines: list[Line]) -> tuple[Line, ...]:
    """The lines that have at least one measured value."""
    return tuple(line for line in lines if any(y is not None for y in line.y))
