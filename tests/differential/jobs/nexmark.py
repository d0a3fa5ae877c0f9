"""Nexmark: people, auctions and bids in one stream, nested and in mixed case."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from penstock import Dataflow, Files, Memory, Stream
from tests.differential.jobs.job import Frames, Job, Tables
from tests.differential.tables import END, FLUSH, Table, at, parts_of

EVENTS = (
    "person struct<id:bigint,name:string,emailAddress:string,state:string,dateTime:timestamp>, "
    "auction struct<id:bigint,itemName:string,initialBid:decimal(12,2),seller:bigint,"
    "category:int,dateTime:timestamp,Extra:map<string,string>>, "
    "bid struct<auction:bigint,bidder:bigint,price:decimal(12,2),channel:string,"
    "dateTime:timestamp,urlParts:array<string>>"
)
DELAY = "15s"


def _events(choose: random.Random) -> Tables:
    """Mostly bids; times go up, each at most 14 s behind the newest; some events come twice."""
    rows: list[dict[str, Any]] = []
    clock, people, auctions = 0.0, 0, 0
    for number in range(420):
        clock += choose.expovariate(1.5)
        when = at(round(clock - choose.uniform(0, 14), 3))
        kind = choose.random()
        if kind < 0.12 or number < 5:
            people += 1
            rows.append({"person": _person(choose, people, when)})
        elif kind < 0.3 or number < 10:
            auctions += 1
            rows.append({"auction": _auction(choose, auctions, people, when)})
        else:
            rows.append({"bid": _bid(choose, auctions, people, when)})
        if choose.random() < 0.03:
            rows.append(rows[-1])
    last = random.Random(0)
    flush = {
        "person": {**_person(last, -1, END), "name": FLUSH},
        "auction": {**_auction(last, -1, 1, END), "itemName": FLUSH, "seller": -1},
        "bid": {**_bid(last, 1, 1, END), "channel": FLUSH, "auction": -1},
    }
    return {"events": Table(EVENTS, parts_of(rows, 4), flush)}


def _person(choose: random.Random, number: int, when: Any) -> dict[str, Any]:
    name = choose.choice(("Zoë", "Ann", "孫", "O'Neil"))
    mail = choose.choice((None, f"{number}@example.org"))
    state = choose.choice(("OR", "ID", "CA", "NY", None))
    return {"id": number, "name": name, "emailAddress": mail, "state": state, "dateTime": when}


def _auction(choose: random.Random, number: int, people: int, when: Any) -> dict[str, Any]:
    return {
        "id": number,
        "itemName": f"item {number}",
        "initialBid": Decimal(choose.randint(0, 9999)) / 100,
        "seller": choose.randint(1, people),
        "category": choose.choice((10, 10, 11, 12)),
        "dateTime": when,
        "Extra": choose.choice((None, {}, {"Colour": "red", "größe": "L"})),
    }


def _bid(choose: random.Random, auctions: int, people: int, when: Any) -> dict[str, Any]:
    return {
        "auction": choose.randint(1, auctions),
        "bidder": choose.randint(1, people),
        "price": choose.choice((None, Decimal(choose.randint(1, 99999)) / 100)),
        "channel": choose.choice(("apple", "Google", "baidu", None)),
        "dateTime": when,
        "urlParts": choose.choice((None, [], ["a", "B"])),
    }


def _only(kind: str) -> Callable[[Any], Any]:
    """The events of one kind, flat."""
    return lambda df: df.where(f"{kind} IS NOT NULL").select(f"{kind}.*")


def _read(name: str, folder: Path) -> tuple[Dataflow, Stream]:
    flow = Dataflow(name)
    return flow, flow.source("events", Files(str(folder / "events"), EVENTS))


# --- q0 to q2: one record at a time -----------------------------------------------------------


def _q0_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q0", folder)
    events.frame("bids", _only("bid")).sink("out", Memory())
    return flow


Q0 = Job("nexmark q0", _events, lambda f: _only("bid")(f["events"]), _q0_flow)


def _in_euro(df: Any) -> Any:
    return df.withColumn("price", F.expr("CAST(price * 0.908 AS DECIMAL(20, 5))"))


def _q1_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q1", folder)
    events.frame("bids", _only("bid")).frame("euro", _in_euro).sink("out", Memory())
    return flow


Q1 = Job("nexmark q1", _events, lambda f: _in_euro(_only("bid")(f["events"])), _q1_flow)


def _q2(frames: Frames) -> Any:
    return _only("bid")(frames["events"]).where("auction % 7 = 0").select("auction", "price")


def _q2_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q2", folder)
    some = events.frame("bids", _only("bid")).filter("some", lambda r: r["auction"] % 7 == 0)
    some.frame("columns", lambda df: df.select("auction", "price")).sink("out", Memory())
    return flow


Q2 = Job("nexmark q2", _events, _q2, _q2_flow)


# --- q3: who sells in certain states ----------------------------------------------------------


def _q3_people(df: Any) -> Any:
    return (
        _only("person")(df).where("state IN ('OR', 'ID', 'CA')").withColumnRenamed("id", "seller")
    )


def _q3_auctions(df: Any) -> Any:
    return _only("auction")(df).where("category = 10").select("id", "seller", "Extra")


def _q3(frames: Frames) -> Any:
    people, auctions = _q3_people(frames["events"]), _q3_auctions(frames["events"])
    return auctions.join(people, "seller").select("name", "emailAddress", "state", "id", "Extra")


def _q3_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q3", folder)
    people = events.frame("people", _q3_people)
    both = (
        events.frame("auctions", _q3_auctions)
        .key_by("seller")
        .join("both", people.key_by("seller"))
    )
    columns = both.frame(
        "columns", lambda df: df.select("name", "emailAddress", "state", "id", "Extra")
    )
    columns.sink("out", Memory())
    return flow


Q3 = Job("nexmark q3", _events, _q3, _q3_flow)


# --- q4 and q5: an aggregation over an aggregation --------------------------------------------

MEAN = "CAST(avg(highest) AS DECIMAL(20, 4))"


def _bid_categories(df: Any) -> Any:
    """Bids that have a price, with a category that the auction decides."""
    return (
        _only("bid")(df)
        .where("price IS NOT NULL OR channel = '~~~~'")
        .selectExpr("auction", "price", "dateTime", "auction % 3 AS category")
    )


def _q4(frames: Frames) -> Any:
    bids = _bid_categories(frames["events"])
    closed = bids.groupBy(F.window("dateTime", "20 seconds"), "auction", "category").agg(
        F.max("price").alias("highest")
    )
    return (
        closed.groupBy(F.window("window.start", "1 minute"), "category")
        .agg(F.expr(MEAN).alias("mean"), F.count("*").alias("auctions"))
        .select("window", "category", "mean", "auctions")
    )


def _q4_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q4", folder)
    bids = events.frame("bids", _bid_categories)
    windows = bids.key_by("auction", "category").window("20s", on="dateTime", watermark=DELAY)
    closed = windows.aggregate("closing", highest="max(price)", emit="final")
    timed = closed.frame("start", lambda df: df.select("*", "window.start").drop("window"))
    minutes = timed.key_by("category").window("1m", on="start")
    means = minutes.aggregate("means", mean=MEAN, auctions="count(*)", emit="final")
    means.sink("out", Memory())
    return flow


Q4 = Job("nexmark q4", _events, _q4, _q4_flow)


HOTTEST = "slice(array_sort(collect_list(struct(-bids AS fewer, auction))), 1, 3)"
"""The auctions with most bids first; equal ones by number."""


def _q5(frames: Frames) -> Any:
    bids = _only("bid")(frames["events"])
    counts = bids.groupBy(F.window("dateTime", "30 seconds", "10 seconds"), "auction").agg(
        F.count("*").alias("bids")
    )
    return counts.groupBy(F.col("window.start").alias("start")).agg(
        F.expr(HOTTEST).alias("Hottest")
    )


def _q5_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q5", folder)
    bids = events.frame("bids", _only("bid"))
    windows = bids.key_by("auction").window("30s", slide="10s", on="dateTime", watermark=DELAY)
    counts = windows.aggregate("counts", bids="count(*)", emit="final")
    timed = counts.frame(
        "start", lambda df: df.select("*", "window.start", F.lit(1).alias("all")).drop("window")
    )
    starts = timed.key_by("all").window("10s", on="start")  # one window for each start
    top = starts.aggregate("top", Hottest=HOTTEST, emit="final")
    top.frame("columns", lambda df: df.select("window.start", "Hottest")).sink("out", Memory())
    return flow


Q5 = Job("nexmark q5", _events, _q5, _q5_flow)


# --- q7 and q8: the highest bid of a window, and new sellers ----------------------------------

HIGHEST = "max(struct(price, auction, bidder, channel))"


def _q7(frames: Frames) -> Any:
    bids = _only("bid")(frames["events"])
    return bids.groupBy(F.window("dateTime", "10 seconds"), F.lit(1).alias("all")).agg(
        F.expr(HIGHEST).alias("highestBid")
    )


def _q7_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q7", folder)
    bids = events.frame("bids", lambda df: _only("bid")(df).withColumn("all", F.lit(1)))
    windows = bids.key_by("all").window("10s", on="dateTime", watermark=DELAY)
    windows.aggregate("highest", highestBid=HIGHEST, emit="final").sink("out", Memory())
    return flow


Q7 = Job("nexmark q7", _events, _q7, _q7_flow)


def _q8_people(df: Any) -> Any:
    start = F.window("dateTime", "30 seconds").start
    return _only("person")(df).select(
        "id", "name", F.col("dateTime").alias("personTime"), start.alias("slot")
    )


def _q8_auctions(df: Any) -> Any:
    start = F.window("dateTime", "30 seconds").start
    return _only("auction")(df).select(
        F.col("seller").alias("id"),
        "itemName",
        F.col("dateTime").alias("auctionTime"),
        start.alias("slot"),
    )


def _q8(frames: Frames) -> Any:
    people, auctions = _q8_people(frames["events"]), _q8_auctions(frames["events"])
    return people.join(auctions, ["id", "slot"])


def _q8_flow(tables: Tables, folder: Path) -> Dataflow:
    flow, events = _read("q8", folder)
    auctions = events.frame("auctions", _q8_auctions).key_by("id", "slot")
    people = events.frame("people", _q8_people).key_by("id", "slot")
    sellers = people.join(
        "sellers",
        auctions,
        left_watermark=("personTime", DELAY),
        right_watermark=("auctionTime", DELAY),
        condition="auctionTime BETWEEN personTime - INTERVAL 30 SECONDS "
        "AND personTime + INTERVAL 30 SECONDS",
    )
    sellers.sink("out", Memory())
    return flow


Q8 = Job("nexmark q8", _events, _q8, _q8_flow)
