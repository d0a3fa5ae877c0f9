"""What a notebook shows: every value has a picture or a table, and nothing in it is markup."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from penstock import workloads
from penstock.control.summary import EventSummary, LatencySummary
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, Union
from penstock.drawing.figures import Figure, Line, Panel
from penstock.drawing.markup import Html, joined, pairs, table, tag
from penstock.metrics.events import Event, EventKind
from penstock.notebook_display import Shown
from penstock.plan.decision import Decision
from penstock.plan.plan import Pipeline, Plan
from penstock.views.notebook import Tabled, html

from .statuses import PLAN, TRANSITION, graph, snapshot, summary

EVIL = "\"><script>alert('x')</script>"


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            assert (dict(attrs)["src"] or "").startswith("data:image/svg+xml;base64,")
        else:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def pictures(found: str) -> list[str]:
    """The drawings in a representation, which stand in it as images."""
    return [base64.b64decode(one).decode() for one in re.findall(r'base64,([^"]*)"', found)]


def shown(value: Shown) -> str:
    """The words of a representation, which must be well formed and without scripts."""
    found = value._repr_html_()
    parser = _Words()
    parser.feed(found)
    assert not parser.open
    assert not {"script", "svg", "link", "iframe"} & set(parser.tags)
    assert "http" not in found
    for drawn in map(ElementTree.fromstring, pictures(found)):
        assert not any(one.tag.endswith(("script", "image", "a")) for one in drawn.iter())
        parser.words += [one.text or "" for one in drawn.iter() if one.tag.endswith("text")]
    return " ".join(parser.words)


def test_a_dataflow_is_drawn() -> None:
    flow = workloads.build("diamond", "out")
    assert shown(flow) == shown(flow.graph)
    assert "branch-4" in shown(flow)
    assert "dataflow of 7 operators; orders → merge below 2.00 s, mean over 10.0 s" in shown(flow)
    assert "<img" in flow._repr_html_()


def test_a_dataflow_that_cannot_be_drawn_says_why() -> None:
    round_ = (Operator("a", Union(), ("b",)), Operator("b", Union(), ("a",)))
    assert "it has a cycle: b -> a -> b" in shown(Graph("round", round_))


def test_a_plan() -> None:
    words = shown(Plan((Pipeline(("a", "b"), 3, 100, 0.5), Pipeline(("c",), 40)), 2))
    assert "a · b" in words
    assert "●●●" in words
    assert "500ms" in words
    assert "100 rows" in words
    assert "2 pipelines, 43 instances, 2 executors" in words


def test_a_decision() -> None:
    words = shown(Decision(PLAN, "count is busy 0.93 > 0.80", {"count.busy": 0.93}))
    assert "another plan" in words
    assert "count is busy 0.93 > 0.80" in words
    assert "count.busy" in words
    assert "leave it as it is" in shown(Decision(None, "nothing to do"))


def test_a_transition() -> None:
    words = shown(replace(TRANSITION, phases=(("drain", 0.2),), state_rows_moved=1200))
    for word in ("count: parallelism 2 -> 4", "1.32 s", "310 ms", "drain 200 ms", "1,200 rows"):
        assert word in words
    assert "still watched" in words
    assert "still watched" not in shown(replace(TRANSITION, settled=True))


@pytest.mark.parametrize(
    ("exact", "word"), [(True, "exact"), (False, "not exact"), (None, "not checked")]
)
def test_a_run(exact: bool | None, word: str) -> None:
    words = shown(summary(exact))
    for part in ("run of wordcount", "842 ms mean", "1,500 dead letters", word, "368 slot-seconds"):
        assert part in words


def test_a_run_with_events() -> None:
    assert "events" not in shown(summary())
    lost = Event(41.0, EventKind.EXECUTOR_LOST, "executor 3")
    words = shown(replace(summary(), events=EventSummary(2, (lost,))))
    assert "2; last: 0:41 executor lost: executor 3" in words


def test_a_snapshot() -> None:
    words = shown(snapshot(40))
    for part in ("count", "97%", "1.25M", "4.21 s mean", "bound 3.00 s"):
        assert part in words
    assert shown(replace(snapshot(1), pipelines={}, latency={}, rows_offered=None))


@dataclass(frozen=True)
class Result(Shown):
    """What an experiment found."""

    title: str = f"ratios {EVIL}"

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        return ("claim", "seed"), ((EVIL, "1.5"),)

    def figures(self) -> Sequence[Figure]:
        return (Figure(EVIL, (Panel("x", EVIL, (Line(EVIL, (0.0, 1.0), (1.0, 2.0)),)),)),)


def test_other_results_need_a_title_a_table_and_figures() -> None:
    assert isinstance(Result(), Tabled)
    assert "1.5" in shown(Result())
    [drawn] = pictures(Result()._repr_html_())
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


def test_values_of_other_kinds_are_shown_as_they_are() -> None:
    assert "&lt;Cls&gt;" in html(type("Cls", (), {"__repr__": lambda self: "<Cls>"})())


def test_nothing_in_a_value_becomes_markup() -> None:
    plan = Plan((Pipeline((EVIL, EVIL + "2"), 2),))
    values: list[Shown] = [
        Graph(EVIL, (Operator(EVIL, Union()),)),
        plan,
        Decision(plan, EVIL, {EVIL: 1.0}),
        replace(TRANSITION, changes=(EVIL,), reason=EVIL),
        replace(summary(), flow=EVIL, policy=EVIL, run_dir=EVIL, exact_reason=EVIL),
        replace(summary(), events=EventSummary(1, (Event(0.0, EVIL, EVIL, EVIL),))),
        replace(snapshot(1), latency={EVIL: snapshot(1).latency["parse->count"]}),
        Result(),
    ]
    for value in values:
        assert "<script" not in value._repr_html_()
        assert "alert('x')" in shown(value) or "alert(" in shown(value)


# --- markup -------------------------------------------------------------------------------------


def test_text_is_escaped_and_markup_is_not() -> None:
    inner = tag("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert tag("p", inner, " & ", None, ["x", [inner]], class_="a b", id=None) == (
        '<p class="a b"><b>&lt;&amp;&gt;</b> &amp; x<b>&lt;&amp;&gt;</b></p>'
    )
    assert tag("a", title='"<x>"') == '<a title="&quot;&lt;x&gt;&quot;"></a>'
    assert joined(Html("<br>")) == "<br>"
    assert tag("br") == "<br>"


def test_tables_and_pairs() -> None:
    assert table(("a", "b"), [("1", "2")], numbers=(1,)) == (
        '<div class="wide"><table><thead><tr><th>a</th><th class="number">b</th></tr></thead>'
        '<tbody><tr><td>1</td><td class="number">2</td></tr></tbody></table></div>'
    )
    assert pairs([("<a>", "b")]) == "<dl><div><dt>&lt;a&gt;</dt><dd>b</dd></div></dl>"


def test_the_graph_of_the_tests_has_a_picture() -> None:
    assert "tweets" in shown(graph())


@pytest.mark.parametrize(("mean", "look"), [(2.9, "good"), (3.0, "good"), (3.1, "bad")])
def test_the_mean_latency_is_coloured_by_its_bound(mean: float, look: str) -> None:
    latency = {"parse->count": LatencySummary(3.0, mean, 0.7, 1.9, 2.4, 0.5)}
    written = html(replace(summary(), latency=latency))
    assert f'<span class="strong {look}">{mean:.2f} s mean</span>' in written
    assert "kept in 50% of the windows" in written
