"""A word count for engines that never touch a record, and plans for it."""

from __future__ import annotations

from penstock.dataflow.connectors import Generator, Memory
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.plan.plan import Pipeline, Plan
from penstock.testing.contract import Harness
from tests.strategies import nothing


def word_count(name: str = "wordcount") -> Graph:
    flow = Dataflow(name)
    words = flow.source("tweets", Generator(nothing, "value string")).frame("split", nothing)
    words.key_by("word").aggregate("count", n="count(*)").sink("counts", Memory())
    return flow.graph


class WordCountHarness(Harness):
    """All that does not depend on the engine; `split` makes 2.5 words of a tweet."""

    def graph(self) -> Graph:
        return word_count()

    def other_graph(self) -> Graph:
        return word_count("another")

    def merged_plan(self) -> Plan:
        return Plan((Pipeline(("tweets", "split", "count", "counts")),))

    def split_plan(self) -> Plan:
        return Plan((Pipeline(("tweets", "split")), Pipeline(("count", "counts"))))

    def rescaled_plan(self) -> Plan:
        return self.merged_plan().with_pipeline("count", parallelism=3)

    def expected_delivered(self, ingested: int) -> int:
        return ingested * 5 // 2
