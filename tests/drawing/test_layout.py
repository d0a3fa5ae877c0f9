"""Layouts: edges lead forwards, nothing lies on anything else, and few edges cross."""

from __future__ import annotations

import random
from itertools import combinations, pairwise, permutations, product

import pytest
from hypothesis import given

from penstock import workloads
from penstock.dataflow.graph import CycleError, Graph
from penstock.dataflow.operators import Operator, Union
from penstock.drawing import layout as module
from penstock.drawing.layout import Layout, Position, layout
from tests.speed import within
from tests.strategies import dataflows, few


def graph(*edges: str) -> Graph:
    """`"a b"` is an edge; operators in the order in which they are named."""
    pairs = [edge.split() for edge in edges]
    inputs: dict[str, list[str]] = {name: [] for pair in pairs for name in pair}
    for first, *second in pairs:
        for name in second:
            inputs[name].append(first)
    return Graph("drawn", tuple(Operator(n, Union(), tuple(i)) for n, i in inputs.items()))


def tangle(operators: int, edges: int, reach: int, seed: int) -> Graph:
    """A connected DAG whose edges skip up to `reach` operators."""
    chance = random.Random(seed)
    pairs = {(max(0, n - chance.randint(1, reach)), n) for n in range(1, operators)}
    while len(pairs) < edges:
        late = chance.randrange(1, operators)
        pairs.add((max(0, late - chance.randint(1, reach)), late))
    return graph(*(f"{a} {b}" for a, b in sorted(pairs)))


def rows(found: Layout) -> dict[str, tuple[int, float]]:
    return {name: (place.layer, place.row) for name, place in found.positions.items()}


def check(drawn: Graph) -> Layout:
    found = layout(drawn)
    assert set(found.positions) == set(drawn.by_name)
    edges = {(i, o.name) for o in drawn.operators for i in o.inputs if i in drawn}
    assert {(r.source, r.target) for r in found.routes} == edges
    for route in found.routes:
        layers = [place.layer for place in route.positions]
        assert route.positions[0] == found.positions[route.source]
        assert route.positions[-1] == found.positions[route.target]
        assert layers == [*range(layers[0], layers[-1] + 1)]
        assert len(layers) > 1
    owners: dict[int, dict[float, str]] = {}
    for name, place in found.positions.items():
        owners.setdefault(place.layer, {})[place.row] = name
    for route in found.routes:  # the lane of an edge is nobody else's, operators' and lanes' alike
        for place in route.positions[1:-1]:
            assert owners[place.layer].setdefault(place.row, route.source) == route.source
    for taken in owners.values():
        ordered = sorted(taken)
        assert all(b - a > 1 - 1e-5 for a, b in pairwise(ordered))
    assert sum(map(len, owners.values())) >= len(drawn.operators)
    assert min((row for taken in owners.values() for row in taken), default=0) == 0
    assert found.rows == max((row for taken in owners.values() for row in taken), default=0)
    assert found.layers == max(owners, default=-1) + 1
    return found


@few
@given(dataflows())
def test_edges_lead_forwards_and_no_two_things_share_a_place(drawn: Graph) -> None:
    check(drawn)


@pytest.mark.parametrize("seed", range(20))
def test_tangles_too(seed: int) -> None:
    drawn = tangle(30, 45, 12, seed)
    assert check(drawn) == layout(Graph("again", drawn.operators))


@pytest.mark.parametrize("name", workloads.names())
def test_no_edges_cross_in_the_built_in_dataflows(name: str) -> None:
    assert check(workloads.build(name, "out").graph).crossings == 0


def test_a_chain_is_straight() -> None:
    assert rows(layout(graph("a b", "b c"))) == {"a": (0, 0), "b": (1, 0), "c": (2, 0)}


def test_branches_stand_around_the_middle() -> None:
    found = rows(layout(graph("a b", "a c", "a d", "b e", "c e", "d e")))
    assert found == {"a": (0, 1), "b": (1, 0), "c": (1, 1), "d": (1, 2), "e": (2, 1)}


def test_a_long_edge_takes_a_lane_of_its_own() -> None:
    found = check(graph("a b", "b c", "c d", "a d"))
    [long] = [route for route in found.routes if len(route.positions) > 2]
    assert (long.source, long.target) == ("a", "d")
    assert {place.row for place in long.positions[1:-1]}.isdisjoint({found.positions["b"].row})


def test_a_source_that_is_joined_late_stands_next_to_its_reader() -> None:
    assert rows(layout(graph("a b", "b c", "c j", "late j")))["late"][0] == 2


def test_crossed_pairs_are_untangled() -> None:
    assert (
        layout(graph("a x", "b y", "c z", "a late", "x late", "z p", "y q", "x r")).crossings == 0
    )
    crossed = graph("a x", "b y", "c w", "d z", "w d1", "z d2", "y d3", "x d4")
    assert layout(crossed).crossings == 0


def test_what_cannot_be_drawn_without_a_crossing_has_one() -> None:
    assert layout(graph("a x", "a y", "b x", "b y")).crossings == 1


def test_crossings_are_those_of_straight_lines() -> None:
    found = layout(tangle(20, 40, 8, 3))
    steps = {pair for r in found.routes for pair in pairwise(r.positions)}

    def cross(one: tuple[Position, Position], other: tuple[Position, Position]) -> bool:
        (a, b), (c, d) = one, other
        return a.layer == c.layer and (a.row - c.row) * (b.row - d.row) < 0

    assert found.crossings == sum(cross(*pair) for pair in combinations(steps, 2))


def test_few_more_cross_than_must_and_never_more_than_as_written() -> None:
    least = ours = 0
    for seed in range(40):
        drawn = tangle(7, 9, 4, seed)
        mesh = module._Mesh.of(drawn, module.layers(drawn))
        orders = product(*(permutations(column) for column in mesh.columns))
        least += min(module._crossings(mesh, order) for order in orders)
        found = layout(drawn).crossings
        assert found <= module._crossings(mesh, mesh.columns)
        ours += found
    assert least <= ours <= 1.25 * least


def skipping(operators: int, edges: int, seed: int) -> Graph:
    """A chain, with edges from anywhere to anywhere behind."""
    chance = random.Random(seed)
    pairs = {*pairwise(range(operators))}
    pairs |= {tuple(sorted(chance.sample(range(operators), 2))) for _ in range(edges)}
    return graph(*(f"{a} {b}" for a, b in sorted(pairs)))


@pytest.mark.parametrize(
    "large", [tangle(1000, 1500, 30, 1), tangle(1000, 8000, 1000, 2), skipping(1000, 1000, 3)]
)
def test_a_thousand_operators_of_any_shape_take_less_than_two_seconds(large: Graph) -> None:
    assert within(2.0, lambda: layout(large))


@pytest.mark.parametrize("seed", range(10))
def test_what_is_too_large_to_be_untangled_has_its_places_too(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EFFORT", 0)
    for drawn in (skipping(30, 20, seed), tangle(30, 45, 30, seed), graph("a b", "c d", "a d")):
        found = check(drawn)
        below = max(place.row for place in found.positions.values())
        lanes = [place.row for route in found.routes for place in route.positions[1:-1]]
        assert all(row > below for row in lanes)


def test_lanes_that_do_not_overlap_share_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EFFORT", 0)
    found = check(graph("a b", "b c", "c d", "d e", "a d", "b d", "c e"))
    lanes = {r.source: r.positions[1].row for r in found.routes if len(r.positions) > 2}
    assert lanes == {"a": 1, "b": 2, "c": 1}


def test_nothing_has_an_empty_layout() -> None:
    assert layout(Graph("nothing", ())) == Layout({}, (), 0, 0.0)


def test_a_cycle_is_refused_by_name() -> None:
    with pytest.raises(CycleError, match="a -> b"):
        layout(graph("a b", "b a"))


def test_the_layout_as_json() -> None:
    assert layout(graph("a b", "b c", "a c")).to_json() == {
        "layers": 3,
        "rows": 1.0,
        "operators": {
            "a": {"layer": 0, "row": 0.5},
            "b": {"layer": 1, "row": 1.0},
            "c": {"layer": 2, "row": 0.5},
        },
        "edges": [
            {"from": "a", "to": "b", "rows": [0.5, 1.0]},
            {"from": "a", "to": "c", "rows": [0.5, 0.0, 0.5]},
            {"from": "b", "to": "c", "rows": [1.0, 0.5]},
        ],
    }
