"""All workloads: what each of them has to have."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from penstock import workloads
from penstock.dataflow.connectors import Generator
from penstock.dataflow.generator import records
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Join, Read
from penstock.dataflow.regions import regions
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.predict.operator_costs import costs_of
from penstock.verify import exactness
from penstock.verify.checksum import digest
from penstock_lab.workloads import meaning, twitter_sentiment

NAMES = workloads.names()


def generators(graph: Graph) -> dict[str, Generator]:
    found = {}
    for source in graph.sources:
        assert isinstance(source.body, Read)
        assert isinstance(source.body.source, Generator)
        found[source.name] = source.body.source
    return found


def inputs(graph: Graph, count: int) -> dict[str, pa.Table]:
    return {
        name: pa.Table.from_batches(records(generator, 0, count))
        for name, generator in generators(graph).items()
    }


def test_the_seeds_applications_are_there() -> None:
    assert NAMES == (
        "wordcount",
        "synthetic-wordcount",
        "twitter-analysis",
        "linear",
        "diamond",
        "star",
        "page-load",
        "processing",
        "network",
        "region-4",
        "region-5",
        "regions-7",
        "tree",
        "reverse-tree",
        "chain-2",
        "chain-4",
        "selectivity",
        "finance",
        "break-ins",
        "prime-tester",
        "twitter-sentiment",
        "commodity-count",
        "top-n",
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_whole(name: str) -> None:
    workload = workloads.describe(name)
    assert workload.description
    assert workload.source.split(",")[0] in (
        "Stepwise profiling", "Stela", "Joker", "Nephele", "Es-Stream",
    )  # fmt: skip
    assert {"load", "seed", "limit", "malformed", "burst"} <= workload.options.keys()
    flow = workloads.build(name, "out")
    flow.validate()
    graph = flow.graph
    assert graph.name == name
    assert graph.constraints
    assert {e.sink for e in graph.expectations} == {s.name for s in graph.sinks}


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_has_regions_and_plans(name: str) -> None:
    graph = workloads.build(name, "out").graph
    assert sorted(o for r in regions(graph) for o in r.operators) == sorted(graph.by_name)
    for plan in (fusion.default_plan(graph, 2), fusion.region_plan(graph)):
        fusion.check(plan, graph)


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_knows_what_operators_cost(name: str) -> None:
    graph = workloads.build(name, "out").graph
    known = costs_of(graph)
    silent = {"merge", "gather", "offers", "suspects", "flat", "copies"}  # unions and renamings
    for operator in graph.operators:
        if operator.inputs and operator not in graph.sinks and operator.name not in silent:
            costly = known[operator.name].service.mean > 0
            assert costly or operator.name.startswith("select-"), operator.name


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    first, again, other = (
        {
            source: digest(table)
            for source, table in inputs(workloads.build(name, "out", seed=seed).graph, 2500).items()
        }
        for seed in (7, 7, 1000)
    )
    assert first == again
    assert all(first[source] != other[source] for source in first)
    assert len(set(first.values())) == len(first)  # no source repeats another


@pytest.mark.parametrize("name", NAMES)
def test_a_share_of_the_records_is_malformed(name: str) -> None:
    sound = inputs(workloads.build(name, "out", malformed=0.0).graph, 5000)
    spoilt = inputs(workloads.build(name, "out", malformed=0.1).graph, 5000)
    for source in sound:
        # Sound records are drawn alike, so that in the first block those that differ are spoilt.
        one, two = (table[source].slice(0, 1000).to_pylist() for table in (sound, spoilt))
        differ = sum(a != b for a, b in zip(one, two, strict=True))
        assert differ / 1000 == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("name", NAMES)
def test_bursts_are_other_than_what_comes_usually(name: str) -> None:
    """All that is made of the first two seconds is in a burst, and of the next ones nothing is."""
    options = {"load": "1000/s", "malformed": 0.0}
    even = inputs(workloads.build(name, "out", burst=0, **options).graph, 4000)
    bursty = inputs(workloads.build(name, "out", burst=20, **options).graph, 4000)
    for source in even:
        one, two = (table[source].to_pylist() for table in (even, bursty))
        differ = [a != b for a, b in zip(one, two, strict=True)]
        assert sum(differ[:2000]) / 2000 > 0.1
        assert not any(differ[2000:])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_share_and_no_time_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="share of 2 malformed"):
        workloads.build(name, "out", malformed=2)
    with pytest.raises(InvalidInput, match="bursts -1 seconds apart"):
        workloads.build(name, "out", burst=-1)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_is_known_for_any_part_of_the_input(name: str) -> None:
    graph = workloads.build(name, "out").graph
    given = inputs(graph, 600)
    for size in (0, 600):
        part = {source: table.slice(0, size) for source, table in given.items()}
        for expectation in graph.expectations:
            rows = list(expectation.oracle(part))
            assert size or not rows
            columns = {len(row) for row in rows}
            assert len(columns) <= 1


def test_the_check_of_exactness_takes_every_expectation() -> None:
    """An expectation that fails says so; here no sink holds anything of an empty input."""
    for name in NAMES:
        graph = workloads.build(name, "out").graph
        totals = {source.name: 0 for source in graph.sources}
        verdict = exactness.verify(graph, totals, lambda sink: iter(()))
        assert verdict.exact is True, (name, verdict)


def test_modules_are_imported_when_they_are_asked_for() -> None:
    code = (
        "import sys; from penstock import workloads; workloads.names(); "
        "loaded = [m for m in sys.modules if m.startswith('penstock.workloads.')]; "
        "print(loaded, 'numpy' in sys.modules, 'pyarrow' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip().startswith("[]")


@pytest.mark.parametrize("name", ["twitter-analysis", "twitter-sentiment"])
def test_a_missing_library_is_named_with_the_remedy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "find_spec", lambda package: None)
    with pytest.raises(
        InvalidInput, match=r"needs .*vaderSentiment: pip install 'penstock-lab\[apps\]'"
    ):
        workloads.build(name, "out")


def test_options_make_two_workloads_of_one_module() -> None:
    assert workloads.describe("chain-2").options["operators"] == 2
    assert workloads.describe("chain-4").options["operators"] == 4
    five = workloads.build("region-5", "out").graph
    assert [o.name for o in five.operators if o.name.startswith("multiply")] == [
        f"multiply-{i}" for i in range(1, 6)
    ]


def test_the_graphs_have_the_shape_of_the_seeds() -> None:
    graph = workloads.build("twitter-analysis", "out").graph
    depth: dict[str, int] = {}
    for name in graph.topological:
        depth[name] = 1 + max((depth[i] for i in graph[name].inputs), default=0)
    assert len(graph.operators) == 11
    assert max(depth.values()) == 8

    def kinds(name: str) -> list[tuple[str, int]]:
        graph = workloads.build(name, "out").graph
        return [(r.kind, len(r.operators)) for r in regions(graph) if r.kind == "parallel"]

    assert kinds("region-4") == [("parallel", 4)]
    assert kinds("region-5") == [("parallel", 5)]
    assert kinds("selectivity") == [("parallel", 7)]
    assert kinds("chain-2") == [("parallel", 1)] * 2
    assert kinds("chain-4") == [("parallel", 2)] * 2
    assert kinds("tree") == [("parallel", 1)] * 3
    assert kinds("reverse-tree") == [("parallel", 1), ("parallel", 1), ("parallel", 2)]
    assert kinds("break-ins") == [("parallel", 3)]
    assert kinds("finance") == [("parallel", 2), ("parallel", 2)]


def test_two_constraints_are_those_of_the_seed() -> None:
    graph = workloads.build("twitter-sentiment", "out").graph
    assert [c.name for c in graph.constraints] == ["hot-topics->filter", "filter->sentiment"]
    scalable = [graph[name].bounds.most for name in ("filter", "sentiment", "hot-topics")]
    assert scalable == [16, 100, 16], "tweets are dealt to 16 shards before the first and third"


def test_lists_of_popular_topics_go_to_the_filters_and_nothing_is_joined() -> None:
    graph = workloads.build("twitter-sentiment", "out").graph
    assert twitter_sentiment.WINDOW == 200, "milliseconds, as in the paper"
    assert not [o for o in graph.operators if isinstance(o.body, Join)]
    assert graph["merge"].inputs == ("hot-topics",)
    assert graph["filter"].inputs == ("copies",)
    assert set(graph["copies"].inputs) == {"deal", "merge"}
