"""What holds of the plans of every dataflow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Frame, Operator
from penstock.errors import InvalidPlan
from penstock.plan import fusion
from penstock.plan.plan import Pipeline, Plan
from tests.strategies import dataflows, few, nothing, plans

from .test_fusion import diamond, of, reasons


def quotient(plan: Plan, graph: Graph) -> Graph:
    """The graph of pipelines."""
    return Graph(
        "pipelines",
        tuple(
            Operator(
                pipeline.name,
                Frame(nothing),
                tuple(
                    {
                        plan.pipeline_of(upstream).name
                        for name in pipeline.operators
                        for upstream in graph[name].inputs
                        if upstream not in pipeline.operators
                    }
                ),
            )
            for pipeline in plan.pipelines
        ),
    )


@few
@given(dataflows(), st.integers(1, 5))
def test_the_ready_made_plans_fit_every_dataflow(graph: Graph, parallelism: int) -> None:
    for plan in (
        fusion.default_plan(graph, parallelism),
        fusion.finest_plan(graph, parallelism),
        fusion.region_plan(graph),
    ):
        fusion.check(plan, graph)
        assert fusion.normalise(plan, graph) == plan


@few
@given(dataflows())
def test_the_default_plan_leaves_no_edge_that_could_be_fused(graph: Graph) -> None:
    plan = fusion.default_plan(graph, 1)
    for operator in graph.operators:
        for upstream in operator.inputs:
            one, other = plan.pipeline_of(upstream), plan.pipeline_of(operator.name)
            if one == other:
                continue
            rest = tuple(p for p in plan.pipelines if p not in (one, other))
            operators = (*one.operators, *other.operators)
            limits = fusion.bounds(graph, operators)
            merged = fusion.normalise(Plan((*rest, Pipeline(operators, limits.least))), graph)
            with pytest.raises(InvalidPlan):
                fusion.check(merged, graph)


@few
@given(dataflows(), st.data())
def test_pipelines_of_a_valid_plan_never_form_a_cycle(graph: Graph, data: st.DataObject) -> None:
    plan = data.draw(plans(graph))
    fusion.check(plan, graph)
    assert len(quotient(plan, graph).topological) == len(plan.pipelines)


@few
@given(dataflows(), st.data())
def test_two_pipelines_that_may_be_merged_do_not_close_a_cycle(
    graph: Graph, data: st.DataObject
) -> None:
    plan = data.draw(plans(graph))
    for _ in range(4):
        if len(plan.pipelines) < 2:
            return
        one, other = data.draw(st.permutations(plan.pipelines))[:2]
        operators = (*one.operators, *other.operators)
        rest = tuple(p for p in plan.pipelines if p not in (one, other))
        merged = Plan((*rest, Pipeline(operators, fusion.bounds(graph, operators).least)))
        merged = fusion.normalise(merged, graph)
        try:
            fusion.check(merged, graph)
        except InvalidPlan:
            continue
        assert len(quotient(merged, graph).topological) == len(merged.pipelines)
        plan = merged


def test_a_merge_around_another_pipeline_is_refused() -> None:
    assert reasons(of("in", "start both out", "left", "right"), diamond()) == [
        "pipeline 'start': 'start' is read by 2 operators (left, right), "
        "so nothing can follow it in its pipeline but sinks"
    ]
