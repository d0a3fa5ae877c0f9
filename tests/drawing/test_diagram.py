"""The dataflow as a drawing: what is in it, where, and in which colour."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import workloads
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.drawing import files
from penstock.drawing.diagram import diagram
from penstock.drawing.sketch import TONES, Box, Curve, Dot, Label, Sketch
from penstock.drawing.svg import svg
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import InstanceMetrics, OperatorMetrics, PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import dataflows, few, nothing, plans

SVG = "{http://www.w3.org/2000/svg}"


def chain(*names: str) -> Graph:
    flow = Dataflow("chain")
    stream = flow.source("in", Generator(nothing, "word string"))
    for name in names:
        stream = stream.frame(name, nothing)
    stream.sink("out", Discard())
    return flow.graph


def words(sketch: Sketch) -> list[str]:
    return [shape.text for shape in sketch.shapes if isinstance(shape, Label)]


def boxes(sketch: Sketch, role: str) -> list[Box]:
    return [s for s in sketch.shapes if isinstance(s, Box) and s.role == role]


def measured(**more: object) -> Snapshot:
    operators = {
        "in": OperatorMetrics("in", 400, 400, 100.0, 100.0, 0.0, busy=0.0),
        "a": OperatorMetrics("a", 400, 1600, 100.0, 400.0, 0.003, busy=0.3),
        "b": OperatorMetrics("b", 1600, 100, 400.0, 25.0, 0.00025, busy=0.1),
    }
    pipelines = {"in": PipelineMetrics("in", 3, **more)}  # type: ignore[arg-type]
    return Snapshot(10.0, 5.0, None, 1, 1, 0, pipelines, operators=operators)


PLAN = Plan((Pipeline(("in", "a", "b", "out"), 3),))


@few
@given(dataflows(), st.data())
def test_every_operator_and_every_pipeline_is_drawn_inside_the_page(
    graph: Graph, data: st.DataObject
) -> None:
    plan = data.draw(st.none() | plans(graph))
    found = diagram(graph, plan)
    operators = boxes(found, "box")
    assert len(operators) == len(graph.operators)
    for box in (s for s in found.shapes if isinstance(s, Box)):
        assert 0 <= box.x < box.x + box.width <= found.width
        assert 0 <= box.y < box.y + box.height <= found.height
    for one, other in combinations(operators, 2):
        apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
        apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_x or apart_y
    fields = boxes(found, "pipeline")
    for field in fields:  # a field holds whole operators, and those of one pipeline
        inside = [b for b in operators if field.x < b.x < field.x + field.width]
        inside = [b for b in inside if field.y < b.y < field.y + field.height]
        names = {b.hint.partition(":")[0] for b in inside}
        assert plan is not None
        assert names in [set(p.operators) for p in plan.pipelines]
    edges = [s for s in found.shapes if isinstance(s, Curve) and s.arrow]
    assert len(edges) == sum(len(readers) for readers in graph.successors.values())
    ET.fromstring(svg(found))


def test_an_operator_shows_its_form_its_cost_and_what_it_gives_on() -> None:
    found = diagram(chain("a", "b"), PLAN, measured())
    assert words(found)[:4] == ["\N{MULTIPLICATION SIGN} 3", "", "", "in"]
    assert {"a", "frame", "3.0 ms", "400/s", "0.2 ms"} <= set(words(found))


def test_the_bar_of_an_operator_is_its_share_of_all_work() -> None:
    a, b = boxes(diagram(chain("a", "b"), PLAN, measured()), "cost")
    assert a.width == pytest.approx(3 * b.width)


def test_a_stronger_flow_is_a_thicker_edge() -> None:
    edges = [s for s in diagram(chain("a", "b"), PLAN, measured()).shapes if isinstance(s, Curve)]
    widths = {edge.hint.partition(":")[0]: edge.width for edge in edges}
    assert widths["b to out"] < widths["in to a"] < widths["a to b"]


@pytest.mark.parametrize(
    ("busy", "role"),
    [(None, "pipeline"), (0.7, "pipeline"), (0.71, "pipeline-warm"), (0.91, "pipeline-hot")],
)
def test_a_busy_pipeline_changes_colour(busy: float | None, role: str) -> None:
    found = diagram(chain("a", "b"), PLAN, measured(busy=busy, backlog_rows=12_000))
    assert len(boxes(found, role)) == 1
    assert "12.0k wait" in words(found)


def test_instances_that_get_more_than_their_share_are_marked() -> None:
    rows = (100, 60, 20)
    instances = tuple(InstanceMetrics(i, r) for i, r in enumerate(rows))
    found = diagram(chain("a", "b"), PLAN, measured(instances=instances))
    dots = [s.role for s in found.shapes if isinstance(s, Dot)][:3]
    assert dots == ["instance-warm", "instance", "instance"]
    even = replace(instances[0], rows=400)
    found = diagram(chain("a", "b"), PLAN, measured(instances=(even, *instances[1:])))
    assert next(s.role for s in found.shapes if isinstance(s, Dot)) == "instance-hot"


def test_more_instances_than_there_is_room_for_are_counted() -> None:
    found = diagram(chain(), Plan((Pipeline(("in", "out"), 500),)))
    assert len([s for s in found.shapes if isinstance(s, Dot)]) == 21  # one is in the legend
    assert {"…", "\N{MULTIPLICATION SIGN} 500"} <= set(words(found))


def test_a_pipeline_around_somebody_elses_operator_is_drawn_as_a_tube() -> None:
    graph = workloads.build("diamond", "out").graph
    first = Pipeline(("branch-1", "merge", "results"))
    alone = tuple(Pipeline((name,)) for name in ("orders", "branch-2", "branch-3", "branch-4"))
    found = diagram(graph, Plan((first, *alone)))
    assert not [b for b in boxes(found, "pipeline") if b.width > 200]
    tubes = [s for s in found.shapes if isinstance(s, Curve) and s.role == "pipeline-body"]
    assert len(tubes) == 2


def test_names_cannot_leave_their_place_in_the_markup() -> None:
    name = "</text><script>alert('\"&\x1b\ud800')</script>"
    text = svg(diagram(chain(name)))
    assert "<script" not in text
    assert 'alert("' not in text
    root = ET.fromstring(text)
    hints = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any(hint.startswith("</text><script>alert('\"&\ufffd\ufffd')") for hint in hints)


def test_a_plan_of_another_flow_is_left_out() -> None:
    assert not boxes(diagram(chain("a"), Plan((Pipeline(("x", "y")),))), "pipeline")


def test_all_roles_have_colours_for_light_and_dark() -> None:
    found = diagram(chain("a", "b"), PLAN, measured(busy=0.99))
    assert {shape.role for shape in found.shapes} <= set(TONES)
    style = svg(found).partition("</style>")[0]
    light, _, dark = style.partition("@media screen and (prefers-color-scheme:dark)")
    for role in TONES:
        assert f".{role}{{" in light
        assert f".{role}{{" in dark


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_words_can_be_read_on_what_they_stand_on() -> None:
    on = {
        "words": ("box", "page"),
        "faint": ("box", "page", "pipeline", "pipeline-warm", "pipeline-hot"),
        "warning": ("page", "pipeline-warm"),
        "alarm": ("page", "pipeline-hot"),
    }
    for role, grounds in on.items():
        for ground in grounds:
            words, below = TONES[role], TONES[ground]
            assert _contrast(str(words.fill), str(below.fill)) >= 4.5, (role, ground)
            assert _contrast(str(words.dark_fill), str(below.dark_fill)) >= 4.5, (role, ground)


def test_files_by_their_endings(tmp_path: Path) -> None:
    found = diagram(chain("$a_1$"), Plan((Pipeline(("in", "$a_1$", "out")),)))
    image = files.save(found, tmp_path / "flow.svg").read_text()
    assert re.match(r'<svg xmlns="http://www.w3.org/2000/svg"', image)
    assert files.save(found, tmp_path / "flow.PNG").read_bytes()[:4] == b"\x89PNG"
    again = files.save(found, tmp_path / "a.png").read_bytes()
    assert again == (tmp_path / "flow.PNG").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "flow.PNG", "flow.svg"]


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    found = diagram(chain())
    with pytest.raises(InvalidInput, match=r"ends in \.svg or \.png"):
        files.save(found, tmp_path / "flow.gif")
    with pytest.raises(InvalidInput, match="No such file or directory"):
        files.save(found, tmp_path / "nowhere" / "flow.svg")
