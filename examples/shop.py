"""A shop: clicks and orders are joined, counted by the minute, and watched for a spree.

    penstock run examples/shop.py:flow --for 60s

One branch, one join, one window, one `StatefulProcessor`, two sources and three sinks.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from penstock import Dataflow, Generator, Parquet

USERS, ITEMS, START = 100, 40, 1_700_000_000


def clicks(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    """Click i is for visit i, which is how an order finds it again."""
    return {
        "visit": index,
        "user": rng.integers(0, USERS, len(index)),
        "item": rng.integers(0, ITEMS, len(index)),
        "clicked": START + index / 100,
    }


def orders(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    """Every fourth visit ends in an order, half a second after its click."""
    return {
        "visit": 4 * index,
        "price": rng.integers(1, 100, len(index)),
        "ordered": START + 4 * index / 100 + 0.5,
    }


class Spree(StatefulProcessor):
    """Tells when a user has spent another hundred."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.spent = handle.getValueState("spent", StructType([StructField("sum", LongType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        spent = self.spent.get()[0] if self.spent.exists() else 0
        for row in rows:
            before, spent = spent, spent + row.price
            if spent // 100 > before // 100:
                yield Row(user=key[0], hundreds=spent // 100)
        self.spent.update((spent,))

    def close(self) -> None:
        pass


def build(out: str = "out", load: str = "400/s", limit: int | None = None) -> Dataflow:
    flow = Dataflow("shop")
    clicked = flow.source(
        "clicks",
        Generator(
            clicks,
            "visit bigint, user bigint, item bigint, clicked timestamp",
            load=load,
            seed=1,
            limit=limit,
        ),
    )
    ordered = flow.source(
        "orders",
        Generator(
            orders,
            "visit bigint, price bigint, ordered timestamp",
            load=f"0.25*{load}",
            seed=2,
            limit=None if limit is None else limit // 4,
        ),
    )
    sales = clicked.key_by("visit").join(
        "sales",
        ordered.key_by("visit"),
        condition="r.ordered BETWEEN l.clicked AND l.clicked + INTERVAL 10 SECONDS",
        left_watermark=("clicked", "20s"),
        right_watermark=("ordered", "20s"),
    )
    priced = sales.frame("priced", lambda df: df.select("user", "item", "price", "ordered"))
    (
        priced.key_by("item")
        .window("60s", on="ordered", watermark="20s")
        .aggregate("revenue", F.sum("price").alias("sum"), n="count(*)")
        .frame("flat", lambda df: df.selectExpr("item", "window.start AS minute", "sum", "n"))
        .sink("minutes", Parquet(f"{out}/minutes"))
    )
    (
        priced.key_by("user")
        .process("spree", Spree, schema="user bigint, hundreds bigint")
        .sink("sprees", Parquet(f"{out}/sprees"))
    )
    priced.filter("dear", lambda r: r["price"] >= 90).sink("dear-ones", Parquet(f"{out}/dear"))

    flow.constrain("sales", "revenue", latency="5s")
    flow.expect("minutes", per_minute, keys=("item", "minute"))
    flow.expect("sprees", sprees)
    return flow


def _sales(inputs: Any) -> Iterator[dict[str, Any]]:
    """The join, plainly: clicks and orders in the order in which they are made."""
    found = inputs["clicks"].to_pylist()
    for order in inputs["orders"].to_pylist():
        if order["visit"] < len(found):
            yield {**found[order["visit"]], **order}


def per_minute(inputs: Any) -> Iterator[tuple[Any, ...]]:
    sums: Counter[Any] = Counter()
    counts: Counter[Any] = Counter()
    for sale in _sales(inputs):
        key = sale["item"], sale["ordered"].replace(second=0, microsecond=0)
        sums[key] += sale["price"]
        counts[key] += 1
    return ((*key, sums[key], counts[key]) for key in counts)


def sprees(inputs: Any) -> Iterator[tuple[Any, ...]]:
    """The orders of a user come in the order in which they were made."""
    spent: Counter[int] = Counter()
    for sale in _sales(inputs):
        before = spent[sale["user"]]
        spent[sale["user"]] += sale["price"]
        if spent[sale["user"]] // 100 > before // 100:
            yield sale["user"], spent[sale["user"]] // 100


flow = build()
