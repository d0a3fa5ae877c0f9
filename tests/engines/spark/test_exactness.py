"""Whatever the dataflow and whatever is changed while it runs, the sinks hold what they must."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock import Dataflow, Memory, Plan, Stream
from penstock.dataflow.graph import Graph
from penstock.engines.spark.engine import SparkEngine
from penstock.plan import fusion
from tests.engines.spark.flows import record, source, until

pytestmark = pytest.mark.spark

N = 1500
Rows = list[dict[str, Any]]
Final = Callable[[list[Any]], Any]


class Story:
    """A random dataflow together with what a plain computation makes of the same records."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.flow = Dataflow("story")
        self.expected: dict[str, Any] = {}
        self.read: dict[str, Final] = {}
        records = [record(i) for i in range(N)]
        streams = [(source(self.flow, "left", limit=N, load="800/s"), records)]
        if choose.random() < 0.5:
            streams.append((source(self.flow, "right", limit=N, load="800/s"), records))
        self.open = [(s.frame(f"in{i}", _plain), rows) for i, (s, rows) in enumerate(streams)]
        self.count = 0
        for _ in range(choose.randint(1, 3)):
            self._step()
        for stream, rows in self.open:
            self._end(stream, rows)

    def _name(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def _step(self) -> None:
        """Put a stateless operator on some open end, or branch it, or bring two together."""
        at = self.choose.randrange(len(self.open))
        stream, rows = self.open.pop(at)
        kind = self.choose.choice(["frame", "map", "flat_map", "filter", "branch", "union"])
        if kind == "union" and self.open:
            other, more = self.open.pop(self.choose.randrange(len(self.open)))
            self.open.append((stream.union(self._name("union"), other), rows + more))
        elif kind == "branch":
            keep = self.choose.randint(2, 4)
            self.open.append((stream, rows))
            self.open.append(_filtered(stream, self._name("branch"), rows, keep))
        elif kind == "map":
            mapped = stream.map(self._name("map"), _more, schema=SHAPE)
            self.open.append((mapped, [_more(r) for r in rows]))
        elif kind == "flat_map":
            twice = stream.flat_map(self._name("flat"), _twice, schema=SHAPE)
            self.open.append((twice, [x for r in rows for x in _twice(r)]))
        elif kind == "frame":
            native = stream.frame(self._name("frame"), _native)
            self.open.append((native, [_more(r) for r in rows]))
        else:
            self.open.append(_filtered(stream, self._name("filter"), rows, 3))

    def _end(self, stream: Stream, rows: Rows) -> None:
        """End in a sink, behind a stateful operator or none."""
        sink = self._name("sink")
        kind = self.choose.choice(["plain", "sums", "windows", "distinct", "join"])
        if kind == "sums":
            sums = stream.key_by("key").aggregate(self._name("sums"), t="sum(amount)", n="count(*)")
            sums.sink(sink, Memory())
            totals: Counter[str] = Counter()
            counts: Counter[str] = Counter()
            for r in rows:
                totals[r["key"]] += r["amount"]
                counts[r["key"]] += 1
            self.expected[sink] = {k: (totals[k], counts[k]) for k in counts}
            self.read[sink] = lambda found: {r.key: (r.t, r.n) for r in found}
        elif kind == "windows":
            timed = stream.frame(self._name("timed"), _timed)
            windows = timed.key_by("key").window("20s", on="ts", watermark="1h")
            windows.aggregate(self._name("windows"), n="count(*)").sink(sink, Memory())
            self.expected[sink] = Counter((r["id"] // 20, r["key"]) for r in rows)
            self.read[sink] = lambda found: {
                (int(r.window.start.timestamp()) // 20, r.key): r.n for r in found
            }
        elif kind == "distinct":
            stream.key_by("id", "key").deduplicate(self._name("distinct")).sink(sink, Memory())
            self.expected[sink] = sorted({(r["id"], r["key"]) for r in rows})
            self.read[sink] = lambda found: sorted((r.id, r.key) for r in found)
        elif kind == "join":
            odd = stream.frame(self._name("odd"), _odd)
            even = stream.frame(self._name("even"), _even)
            joined = odd.key_by("id").join(self._name("join"), even.key_by("id"))
            joined.frame(self._name("ids"), _ids).sink(sink, Memory())
            odds = Counter(r["id"] for r in rows if r["id"] % 3 != 0)
            evens = Counter(r["id"] for r in rows if r["id"] % 2 == 0)
            self.expected[sink] = sorted(
                i for i in odds.keys() & evens.keys() for _ in range(odds[i] * evens[i])
            )
            self.read[sink] = lambda found: sorted(r.id for r in found)
        else:
            stream.sink(sink, Memory())
            self.expected[sink] = sorted((r["id"], r["key"], r["amount"]) for r in rows)
            self.read[sink] = lambda found: sorted((r.id, r.key, r.amount) for r in found)


SHAPE = "id bigint, key string, amount bigint"


def _plain(df: Any) -> Any:
    return df.select("id", "key", "amount")


def _native(df: Any) -> Any:
    return df.selectExpr("id", "key", "amount + 1 AS amount")


def _timed(df: Any) -> Any:
    return df.selectExpr("id", "key", "amount", "timestamp_seconds(id) AS ts")


def _odd(df: Any) -> Any:
    return df.where("id % 3 <> 0").select("id")


def _even(df: Any) -> Any:
    return df.where("id % 2 = 0").select("id", "key")


def _ids(df: Any) -> Any:
    return df.select("id")


def _more(r: dict[str, Any]) -> dict[str, Any]:
    return {"id": r["id"], "key": r["key"], "amount": r["amount"] + 1}


def _twice(r: dict[str, Any]) -> Rows:
    return [r, {**r, "amount": 0}] if r["id"] % 5 == 0 else [r]


def _filtered(stream: Stream, name: str, rows: Rows, keep: int) -> tuple[Stream, Rows]:
    kept = stream.filter(name, lambda r: r["id"] % keep != 0)
    return kept, [r for r in rows if r["id"] % keep != 0]


def any_plan(graph: Graph, choose: random.Random) -> Plan:
    """Any valid plan: some edges fused, some not, and every knob somewhere."""
    plan = fusion.fuse(graph, lambda upstream, name: choose.random() < 0.6)
    pipelines = []
    for pipeline in plan.pipelines:
        stateful = any(graph[name].keys for name in pipeline.operators)
        parallelism = choose.randint(1, 3)
        pipelines.append(
            replace(
                pipeline,
                parallelism=parallelism,
                admission=choose.choice([None, None, 200]),
                cadence=choose.choice([0.0, 0.0, 0.3]),
                ceiling=choose.randint(parallelism, 4) if stateful else None,
            )
        )
    return replace(plan, pipelines=tuple(pipelines))


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 10**9))
def test_any_changes_of_any_dataflow_leave_the_result_exact(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    tell_the_story(spark, tmp_path_factory.mktemp("story"), seed)


def tell_the_story(spark: Any, folder: Path, seed: int) -> None:
    choose = random.Random(seed)
    story = Story(choose)
    graph = story.flow.graph
    engine = SparkEngine(spark=spark, channel_rows=5000)
    engine.start(graph, any_plan(graph, choose), folder / "run")
    try:
        for number in range(3):
            goal = (number + 1) * N // 4
            until(lambda g=goal: engine.observe().rows_ingested >= g, f"{goal} rows", 120)
            engine.apply(any_plan(graph, choose))
        total = N * len(graph.sources)
        until(lambda: engine.observe().rows_ingested >= total, "all rows", 120)
    finally:
        engine.stop()
    assert engine.failure is None
    for sink, expected in story.expected.items():
        assert story.read[sink](engine.rows(sink)) == expected, (seed, sink)
