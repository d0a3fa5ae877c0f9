"""Pipelines as a graph in letters: every edge can be followed with a finger."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import workloads
from penstock.dataflow.graph import Graph
from penstock.metrics.snapshot import PipelineMetrics
from penstock.plan.plan import Pipeline, Plan
from penstock.policies.shared.topology import Topology
from penstock.views.pipeline_graph import textgraph
from tests.strategies import dataflows, few, plans

from ..drawing.test_layout import graph as edges
from ..drawing.test_layout import tangle
from .statuses import PLAN, graph, snapshot


def alone(drawn: Graph) -> Plan:
    return Plan(tuple(Pipeline((o.name,), 2) for o in drawn.operators))


def page(drawn: Graph, plan: Plan, width: int = 120, height: int = 40) -> str | None:
    found = textgraph(drawn, plan, None, width, height)
    return None if found is None else "\n".join(line.plain for line in found).replace("\u00d7", "x")


def test_a_chain() -> None:
    assert page(graph(), PLAN) == "tweets · parse · split x2 ─▶ count · counts x4"


def test_a_diamond() -> None:
    drawn = workloads.build("diamond", "out").graph
    assert page(drawn, alone(drawn)) == (
        "           ╭─▶ branch-1 x2 ─╮\n"
        "           ├─▶ branch-2 x2 ─┼╮\n"
        "orders x2 ─┼─▶ branch-3 x2 ─┴┴┬─▶ merge x2 ─▶ results x2\n"
        "           ╰─▶ branch-4 x2 ───╯"
    )


def test_a_long_edge_goes_around() -> None:
    drawn = edges("a b", "b c", "c d", "a d", "b e", "e d")
    assert page(drawn, alone(drawn)) == (
        "      ╭───────────────────╮\n"
        "a x2 ─┴─▶ b x2 ─┬─▶ c x2 ─┴┬─▶ d x2\n"
        "                ╰─▶ e x2 ──╯"
    )


def test_one_pipeline_is_no_graph_and_what_does_not_fit_is_not_drawn() -> None:
    drawn = workloads.build("diamond", "out").graph
    assert page(drawn, Plan((Pipeline(tuple(o.name for o in drawn.operators)),))) is None
    assert page(drawn, alone(drawn), width=30) is None
    assert page(drawn, alone(drawn), height=3) is None
    assert page(drawn, alone(drawn), height=4) is not None


def test_names_are_cut_before_the_graph_is_given_up() -> None:
    found = page(graph(), PLAN, width=40)
    assert found is not None
    assert "…" in found
    assert max(map(len, found.splitlines())) <= 40


def test_busy_pipelines_are_coloured() -> None:
    measured = snapshot(40)
    found = textgraph(graph(), PLAN, measured, 100, 10)
    assert found is not None
    assert {str(span.style) for span in found[0].spans} >= {"bold red"}
    assert isinstance(measured.pipelines["count"], PipelineMetrics)


_SIDES = {"─": "lr", "│": "ud", "╯": "lu", "╰": "ru", "┴": "lru", "╮": "ld", "╭": "rd",
          "┬": "lrd", "┤": "lud", "├": "rud", "┼": "lrud", "▶": "lr"}  # fmt: skip
_BACK = {"l": "r", "r": "l", "u": "d", "d": "u"}
_STEP = {"l": (-1, 0), "r": (1, 0), "u": (0, -1), "d": (0, 1)}


def reached(lines: list[str], at: tuple[int, int]) -> set[tuple[int, int]]:
    """The arrows that a pen can reach from where an edge begins; it may turn at any joint."""
    found, seen, stack = set(), set(), [at]
    while stack:
        x, y = stack.pop()
        if (x, y) in seen:
            continue
        seen.add((x, y))
        char = lines[y][x]
        if char == "▶":
            found.add((x + 2, y))
            continue
        for side in _SIDES[char]:
            right, down = x + _STEP[side][0], y + _STEP[side][1]
            if 0 <= down < len(lines) and 0 <= right < len(lines[down]):
                other = lines[down][right]
                if other in _SIDES and _BACK[side] in _SIDES[other]:
                    stack.append((right, down))
    return found


def check(drawn: Graph, plan: Plan) -> None:
    found = page(drawn, plan, 4000, 400)
    assert found is not None
    wide = max(map(len, found.splitlines()))
    lines = [line.ljust(wide) for line in found.splitlines()]
    where = {}
    for name, one in Topology(drawn, plan).pipelines.items():
        label = " · ".join(one.operators)
        label = re.escape(label) if len(label) < 40 else re.escape(one.operators[0]) + " · .*?"
        [place] = [
            (m.start(), y, m.end())
            for y, line in enumerate(lines)
            for m in re.finditer(rf"(?<![^ ▶]){label} x{one.parallelism}(?= |$)", line)
        ]
        where[name] = place
    for name, readers in Topology(drawn, plan).downstream.items():
        if readers:
            _, y, end = where[name]
            assert {where[r][:2] for r in readers} <= reached(lines, (end + 1, y))


@few
@given(dataflows(), st.data())
def test_every_reader_can_be_reached(drawn: Graph, data: st.DataObject) -> None:
    plan = data.draw(plans(drawn))
    if len(plan.pipelines) > 1:
        check(drawn, plan)


@pytest.mark.parametrize("seed", range(8))
def test_every_reader_can_be_reached_in_tangles(seed: int) -> None:
    drawn = tangle(12, 18, 6, seed)
    check(drawn, alone(drawn))
