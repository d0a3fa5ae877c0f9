from __future__ import annotations

from hypothesis import given

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import State
from penstock.dataflow.regions import Region, regions
from penstock.dataflow.schema import Schema
from penstock.dataflow.validation import known_schemas
from tests.strategies import dataflows, few, nothing


def source(flow: Dataflow, schema: str = "key string, x int", name: str = "in") -> Stream:
    return flow.source(name, Generator(nothing, schema))


def test_word_count_has_a_stateless_and_a_parallel_region() -> None:
    flow = Dataflow("wordcount")
    words = source(flow, "text string").frame("parse", nothing, schema="text string")
    words = words.frame("split", nothing, schema="word string")
    words.key_by("word").aggregate("count", n="count(*)").sink("out", Memory())
    assert regions(flow.graph) == (
        Region(("in",), "source"),
        Region(("parse", "split"), "pipeline"),
        Region(("count",), "parallel", ("word",)),
        Region(("out",), "pipeline"),
    )


def test_network_monitoring_keeps_the_stateless_followers_in_the_parallel_region() -> None:
    flow = Dataflow("ssh")
    failures = source(flow, "line string").filter("failures", nothing)
    parsed = failures.frame("parse", nothing, schema="host string, at timestamp")
    window = parsed.key_by("host").aggregate("window", n="count(*)", schema="host string, n int")
    cut = window.frame("cut-off", nothing, schema="host string, n int")
    cut.frame("diff", nothing, schema="host string, n int").sink("out", Memory())
    assert regions(flow.graph) == (
        Region(("in",), "source"),
        Region(("failures", "parse"), "pipeline"),
        Region(("window", "cut-off", "diff"), "parallel", ("host",)),
        Region(("out",), "pipeline"),
    )


def test_finance_has_two_sources_and_a_parallel_region_before_and_at_the_join() -> None:
    flow = Dataflow("finance")
    trades, quotes = source(flow, name="trades"), source(flow, name="quotes")
    sums = trades.key_by("key").aggregate("sums", n="sum(x)", schema="key string, n int")
    prices = sums.frame("prices", nothing, schema="key string, price int")
    prices.key_by("key").join("bargains", quotes.key_by("key")).sink("out", Memory())
    assert regions(flow.graph) == (
        Region(("trades",), "source"),
        Region(("quotes",), "source"),
        Region(("sums", "prices"), "parallel", ("key",)),
        Region(("bargains",), "parallel", ("key",)),
        Region(("out",), "pipeline"),
    )


def test_a_stateless_operator_before_the_keyed_one_joins_it_if_its_input_has_the_key() -> None:
    flow = Dataflow("before")
    clean = source(flow).filter("clean", nothing)
    clean.key_by("KEY").deduplicate("distinct").sink("out", Memory())
    assert regions(flow.graph)[1] == Region(("clean", "distinct"), "parallel", ("KEY",))


def test_the_key_is_that_of_the_first_keyed_operator_and_later_keys_contain_it() -> None:
    flow = Dataflow("keys")
    first = source(flow).key_by("key").deduplicate("first")
    second = first.key_by("key", "x").deduplicate("second")
    second.key_by("x").deduplicate("third").sink("out", Memory())
    assert regions(flow.graph) == (
        Region(("in",), "source"),
        Region(("first", "second"), "parallel", ("key",)),
        Region(("third",), "parallel", ("x",)),
        Region(("out",), "pipeline"),
    )


def test_a_narrower_key_downstream_ends_the_region() -> None:
    flow = Dataflow("narrow")
    wide = source(flow).key_by("key", "x").deduplicate("wide")
    wide.key_by("key").deduplicate("narrow").sink("out", Memory())
    assert [r.operators for r in regions(flow.graph)] == [("in",), ("wide",), ("narrow",), ("out",)]


def test_a_stateless_operator_whose_input_lost_the_key_ends_the_region() -> None:
    flow = Dataflow("lost")
    distinct = source(flow).key_by("key").deduplicate("distinct")
    bare = distinct.frame("bare", nothing, schema="x int")
    bare.frame("after", nothing, schema="x int").sink("out", Memory())
    assert regions(flow.graph)[1:] == (
        Region(("distinct", "bare"), "parallel", ("key",)),
        Region(("after", "out"), "pipeline"),
    )


def test_a_branch_ends_a_region_and_each_reader_starts_its_own() -> None:
    flow = Dataflow("branch")
    distinct = source(flow).key_by("key").deduplicate("distinct")
    for side in ("left", "right"):
        kept = distinct.filter(side, nothing)
        kept.key_by("key").deduplicate(f"{side}-distinct").sink(f"{side}-out", Memory())
    assert [r.operators for r in regions(flow.graph)] == [
        ("in",),
        ("distinct",),
        ("left", "left-distinct"),
        ("right", "right-distinct"),
        ("left-out",),
        ("right-out",),
    ]


def test_a_confluence_starts_a_region() -> None:
    flow = Dataflow("confluence")
    left = source(flow, name="a").filter("left", nothing)
    right = source(flow, name="b").filter("right", nothing)
    left.union("both", right).key_by("key").deduplicate("distinct").sink("out", Memory())
    assert [(r.operators, r.kind) for r in regions(flow.graph)] == [
        (("a",), "source"),
        (("b",), "source"),
        (("left",), "pipeline"),
        (("right",), "pipeline"),
        (("both", "distinct"), "parallel"),
        (("out",), "pipeline"),
    ]


def test_a_global_operator_is_pipeline_only_and_joined_with_its_stateless_neighbours() -> None:
    flow = Dataflow("global")
    ranked = source(flow).filter("before", nothing).process_all("rank", nothing, schema="x int")
    ranked.filter("after", nothing).sink("out", Memory())
    assert regions(flow.graph)[1:] == (Region(("before", "rank", "after", "out"), "pipeline"),)


def test_an_unknown_schema_does_not_contain_the_key_until_it_is_told() -> None:
    flow = Dataflow("unknown")
    parsed = source(flow, "text string").frame("parse", nothing).frame("clean", nothing)
    parsed.key_by("word").deduplicate("distinct").sink("out", Memory())
    told = {"parse": Schema.of("word string"), "clean": Schema.of("word string")}
    assert [r.operators for r in regions(flow.graph)[1:3]] == [("parse", "clean"), ("distinct",)]
    assert [r.operators for r in regions(flow.graph, told)[1:3]] == [
        ("parse",),
        ("clean", "distinct"),
    ]


@few
@given(dataflows())
def test_regions_follow_the_rules_on_any_dataflow(graph: Graph) -> None:
    found = regions(graph)
    known = known_schemas(graph)
    assert sorted(n for r in found for n in r.operators) == sorted(graph.topological)
    place = {name: at for at, name in enumerate(graph.topological)}
    firsts = [place[r.operators[0]] for r in found]
    assert firsts == sorted(firsts)
    for region in found:
        states = [graph[name].state for name in region.operators]
        for upstream, name in zip(region.operators, region.operators[1:], strict=False):
            assert graph.successors[upstream] == (name,)
            assert set(graph[name].inputs) == {upstream}
        if region.kind == "source":
            assert states == [State.SOURCE]
        elif region.kind == "pipeline":
            assert State.KEYED not in states
            assert State.SOURCE not in states
            assert region.key == ()
        else:
            assert set(states) <= {State.STATELESS, State.KEYED}
            keyed = [graph[n] for n in region.operators if graph[n].state is State.KEYED]
            assert keyed[0].keys == region.key
            assert all(set(region.key) <= set(o.keys) for o in keyed)
            for name in region.operators:
                if graph[name].state is State.STATELESS:
                    inputs = [known[i] for i in graph[name].inputs]
                    assert all(s is not None and set(region.key) <= set(s.names) for s in inputs)
