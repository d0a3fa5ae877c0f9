"""The drawings of the documentation: `python scripts/docs/pictures.py` writes them again.

Dataflows, the built-in ones among them, are drawn by Penstock itself; what it has no drawing for is
a sketch of boxes and arrows here. All of them are files in docs/pictures, so that they are seen
wherever the pages are.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import Dataflow, Discard, Generator, Pipeline, Plan, workloads
from penstock.dataflow.graph import Graph
from penstock.dataflow.regions import regions
from penstock.drawing.diagram import diagram
from penstock.drawing.sketch import Box, Curve, Dot, Label, Shape, Sketch
from penstock.drawing.svg import svg
from penstock.metrics.snapshot import Snapshot
from penstock.plan.fusion import default_plan
from penstock.policies.shared.rebalance import Vertex
from penstock.testing import MemoryEngine

_TIMES = "\N{MULTIPLICATION SIGN}"

HOME = Path(__file__).parents[2] / "docs" / "pictures"


def main() -> None:
    for name, sketch in all_of_them().items():
        (HOME / name).write_text(text(sketch), encoding="utf-8")


def all_of_them() -> Mapping[str, Sketch]:
    """Every drawing by the name of its file."""
    return {
        "loop.svg": loop(),
        "dataflow.svg": diagram(words()),
        "regions.svg": region_drawing(),
        "plan.svg": diagram(words(), PLAN),
        "measured.svg": diagram(words(), PLAN, snapshot()),
        "channel.svg": channel(),
        "transition.svg": transition(),
        "wait.svg": wait(),
        **{f"workload-{name}.svg": workload(name) for name in workloads.names()},
    }


def text(sketch: Sketch) -> str:
    return svg(sketch) + "\n"


def workload(name: str) -> Sketch:
    """A built-in dataflow as `penstock explain --draw` draws it on a machine with two cores."""
    graph = workloads.build(name, "out").graph
    return diagram(graph, default_plan(graph, 2))


# --- the example of the concepts ----------------------------------------------------------------


def words() -> Graph:
    """Words and languages are counted."""

    def none(*given: Any) -> Any:
        return given

    flow = Dataflow("words")
    tweets = flow.source("tweets", Generator(none, "lang string, text string", "2000/s"))
    split = tweets.frame("split", none, schema="word string")
    counts = split.key_by("word").aggregate("count", n="count(*)", schema="word string, n bigint")
    counts.filter("frequent", none).sink("counts", Discard())
    tweets.key_by("lang").aggregate("languages", n="count(*)").sink("shares", Discard())
    flow.constrain("split", "count", latency="3s")
    return flow.graph


PLAN = Plan(
    (
        Pipeline(("tweets",), 1),
        Pipeline(("split",), 2),
        Pipeline(("count", "frequent", "counts"), 4, ceiling=8),
        Pipeline(("languages", "shares"), 1),
    ),
    executors=2,
)


def snapshot() -> Snapshot:
    """What was measured of it, by an engine that computes exactly."""
    engine = MemoryEngine(
        {"split": 0.0004, "count": 0.00026, "languages": 0.0002}, {"split": 7}, 2000
    )
    with tempfile.TemporaryDirectory() as home:
        engine.start(words(), PLAN, Path(home))
        engine.advance(10)
        return engine.observe()


def region_drawing() -> Sketch:
    """Regions in the place of pipelines, without instances."""
    graph = words()
    found = Plan(tuple(Pipeline(region.operators) for region in regions(graph)))
    whole = diagram(graph, found)

    def kept(shape: Shape) -> bool:
        if isinstance(shape, Label):
            return not shape.text.startswith(_TIMES) and shape.text != "an instance"
        return not (isinstance(shape, Dot) and shape.role.startswith("instance"))

    return replace(whole, title="regions of words", shapes=tuple(filter(kept, whole.shapes)))


# --- boxes and arrows ---------------------------------------------------------------------------


def box(
    x: float, y: float, wide: float, title: str, *lines: str, role: str = "box"
) -> Iterator[Shape]:
    """A box with a title and lines below it, centred."""
    high = 26 + 15 * len(lines)
    yield Box(x, y, wide, high, role)
    yield Label(x + wide / 2, y + 18, title, "words", 12, "middle", bold=True)
    for at, line in enumerate(lines):
        yield Label(x + wide / 2, y + 34 + 15 * at, line, "faint", 10.5, "middle")


def arrow(*points: tuple[float, float], width: float = 1.5) -> Curve:
    return Curve(points[0], points[1:], "edge", width, arrow=True)


def down(x: float, y: float, to: float) -> Iterator[Shape]:
    """An arrow that points down: heads of `Curve` point to the right."""
    yield Curve((x, y), ((x, to - 5),), "edge", 1.5)
    yield Curve((x - 4, to - 6), ((x, to), (x + 4, to - 6)), "edge", 1.5)


def up(x: float, y: float, to: float) -> Iterator[Shape]:
    yield Curve((x, y), ((x, to + 5),), "edge", 1.5)
    yield Curve((x - 4, to + 6), ((x, to), (x + 4, to + 6)), "edge", 1.5)


def loop() -> Sketch:
    """The control loop."""
    shapes = [
        *box(
            20,
            24,
            150,
            "policy",
            "snapshots, plan,",
            "constraints, budget in;",
            "decision, memory out",
        ),
        *box(250, 24, 150, "guard", "bounds, budget,", "cool-down, undo,", "cost against gain"),
        *box(
            480,
            24,
            150,
            "history",
            "snapshot, decision,",
            "veto, transition:",
            "everything is kept",
        ),
        *box(
            20,
            150,
            610,
            "engine",
            "Spark, the simulator, or the one in memory: the same small port",
            role="pipeline",
        ),
        arrow((170, 60), (246, 60)),
        Label(208, 52, "decision", "faint", 10.5, "middle"),
        arrow((400, 60), (476, 60)),
        Label(438, 52, "all of it", "faint", 10.5, "middle"),
        *up(95, 150, 97),
        Label(103, 128, "observe", "faint", 10.5),
        *down(325, 95, 148),
        Label(333, 128, "apply the plan, or a veto with its reason", "faint", 10.5),
    ]
    return Sketch("the control loop", 650, 212, tuple(shapes))


def channel() -> Sketch:
    """One writer, a log, files, and readers at their own pace."""
    shapes = [
        *box(16, 52, 120, "pipeline", "2 instances", role="pipeline"),
        Box(210, 20, 210, 92, "pipeline"),
        Label(315, 40, "channel", "words", 12, "middle", bold=True),
        Label(222, 62, "log/000006.json  rows 5,000-6,199", "words", 10.5),
        Label(222, 78, "log/000007.json  rows 6,200-7,350", "words", 10.5),
        Label(222, 98, "data/…  Parquet, a directory a batch", "faint", 10.5),
        *box(500, 14, 130, "pipeline", "4 instances", role="pipeline"),
        *box(500, 90, 130, "pipeline", "1 instance", role="pipeline"),
        arrow((136, 72), (206, 72), width=2),
        arrow((424, 50), (496, 36), width=2),
        arrow((424, 90), (496, 112), width=2),
        Label(492, 22, "at row 7,100", "faint", 10, "end"),
        Label(492, 132, "at row 5,600", "faint", 10, "end"),
        Label(
            315, 152, "what the slowest reader has committed is deleted", "faint", 10.5, "middle"
        ),
    ]
    return Sketch("a channel between pipelines", 650, 168, tuple(shapes))


def transition() -> Sketch:
    """Moved state: the successor runs before the pipeline stops."""

    def bar(x: float, y: float, wide: float, role: str, words: str) -> Iterator[Shape]:
        yield Box(x, y, wide, 24, role, 4)
        yield Label(x + wide / 2, y + 16, words, "words", 10.5, "middle")

    shapes = [
        Label(14, 38, "2 parts of state", "words", 11, bold=True),
        Label(14, 80, "4 parts of state", "words", 11, bold=True),
        *bar(130, 22, 330, "pipeline", "delivers"),
        *bar(180, 64, 90, "pipeline-warm", "copy, cut"),
        *bar(270, 64, 210, "pipeline-warm", "reads again what came since"),
        *bar(480, 64, 150, "pipeline", "delivers"),
        Curve((460, 14), ((460, 98),), "edge", 1),
        Curve((480, 14), ((480, 98),), "edge", 1),
        Label(470, 112, "the gap: both stand at the same row", "faint", 10.5, "middle"),
        arrow((130, 128), (630, 128)),
        Label(380, 144, "time", "faint", 10.5, "middle"),
    ]
    return Sketch("make before break", 650, 154, tuple(shapes))


def wait() -> Sketch:
    """The wait before a pipeline as a function of its instances, and what a budget asks for."""
    vertex = Vertex("count", a=1.2, b=2.4, least=1, most=12)
    left, bottom, wide, high = 52.0, 190.0, 560.0, 160.0
    most, top = 12.0, 2.2

    def at(p: float, seconds: float) -> tuple[float, float]:
        return left + wide * p / most, bottom - high * seconds / top

    line = [at(p / 20, vertex.a / (p / 20 - vertex.b)) for p in range(60, 241)]
    budget = 0.4
    shapes: list[Shape] = [
        Curve((left, bottom - high), ((left, bottom), (left + wide, bottom)), "edge", 1),
        Curve(at(vertex.b, 0), (at(vertex.b, top),), "edge", 0.8),
        Label(at(vertex.b, 0)[0], bottom - high - 6, "b: busy on average", "faint", 10.5, "middle"),
        Curve(at(0, budget), (at(most, budget),), "pipeline-warm", 1.2),
        Label(left + wide, at(0, budget)[1] - 6, "the wait that may be", "warning", 10.5, "end"),
        Curve(line[0], tuple(line[1:]), "edge", 1.6),
    ]
    for p in range(math.floor(vertex.b) + 1, 13):
        x, y = at(p, vertex.wait(p))
        enough = vertex.wait(p) <= budget
        shapes += [Dot(x, y, 4, "source" if enough else "instance")]
        shapes += [Label(x, bottom + 16, str(p), "faint", 10.5, "middle")]
    first = next(p for p in range(3, 13) if vertex.wait(p) <= budget)
    x, y = at(first, vertex.wait(first))
    shapes += [Label(x, y + 20, "fewest that keep it", "words", 10.5, "middle")]
    shapes += [Label(left + wide / 2, bottom + 32, "instances p", "faint", 10.5, "middle")]
    shapes += [Label(left - 8, bottom - high + 4, "wait", "faint", 10.5, "end")]
    return Sketch("W(p) = a / (p - b)", 650, 232, tuple(shapes))


if __name__ == "__main__":
    main()
