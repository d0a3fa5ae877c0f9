"""Sections, and which of them stand for others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import Dataflow, Discard
from penstock.dataflow.graph import Graph
from penstock.dataflow.regions import regions
from penstock.policies.joker.sections import Section, representatives, sections
from tests.engines.spark.flows import source
from tests.strategies import dataflows, few, plans


def alone(*names: str) -> list[Section]:
    return [Section((name,), (name,)) for name in names]


def tree() -> Graph:
    flow = Dataflow("tree")
    rows = source(flow).filter("a", lambda r: True)
    left, right = (rows.filter(name, lambda r: True) for name in ("left", "right"))
    left.union("both", right).sink("out", Discard())
    return flow.graph


def names(found: dict[Section, frozenset[Section]]) -> dict[str, set[str]]:
    return {section.name: {root.name for root in roots} for section, roots in found.items()}


def test_the_nearest_to_the_source_stands_for_all_that_it_feeds() -> None:
    found = representatives(tree(), alone("a", "left", "both"))
    assert names(dict(found)) == {"a": {"a"}, "left": {"a"}, "both": {"a"}}


def test_branches_stand_for_themselves_and_together_for_where_they_meet() -> None:
    found = representatives(tree(), alone("left", "right", "both"))
    assert names(dict(found)) == {
        "left": {"left"},
        "right": {"right"},
        "both": {"left", "right"},
    }


@few
@given(st.data())
def test_sections_part_the_operators_and_hold_whole_pipelines_and_regions(
    data: st.DataObject,
) -> None:
    graph = data.draw(dataflows())
    plan = data.draw(plans(graph))
    groups = [region.operators for region in regions(graph)]
    found = sections(graph, plan, groups)
    assert sorted(n for s in found for n in s.operators) == sorted(graph.topological)
    for group in (*groups, *(p.operators for p in plan.pipelines)):
        assert sum(bool(set(group) & set(s.operators)) for s in found) == 1
    chosen = data.draw(st.lists(st.sampled_from(found), unique=True))
    stand = representatives(graph, chosen)
    for section in chosen:
        fed_by = [
            other
            for other in chosen
            if other is not section
            and any(graph.reachable(n).intersection(section.operators) for n in other.operators)
        ]
        if not fed_by:
            assert stand[section] == {section}
        else:
            assert stand[section] <= {section, *fed_by}
