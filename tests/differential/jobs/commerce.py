"""The Yahoo streaming benchmark, upserts, a quarantine, and de-duplication."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from penstock import Dataflow, Files, ForeachBatch, Memory, Parquet
from tests.differential.jobs.job import Frames, Job, Tables
from tests.differential.runner import Outcome
from tests.differential.tables import END, FLUSH, Table, at, parts_of

# --- Yahoo ------------------------------------------------------------------------------------

ADS = (
    "user_id string, page_id string, ad_id string, ad_type string, event_type string, "
    "event_time timestamp, ip_address string"
)
CAMPAIGNS = {f"ad{number}": f"campaign {number // 3}" for number in range(12)} | {FLUSH: FLUSH}


def _ads(choose: random.Random) -> Tables:
    rows = []
    clock = 0.0
    for _ in range(500):
        clock += choose.expovariate(5)
        rows.append(
            {
                "user_id": f"u{choose.randint(0, 40)}",
                "page_id": None,
                "ad_id": f"ad{choose.randint(0, 14)}",  # three ads belong to no campaign
                "ad_type": choose.choice(("banner", "modal", "Mail")),
                "event_type": choose.choice(("view", "click", "purchase")),
                "event_time": at(round(clock - choose.uniform(0, 9), 3)),
                "ip_address": "1.2.3.4",
            }
        )
    flush = {"ad_id": FLUSH, "event_type": "view", "event_time": END}
    return {"ads": Table(ADS, parts_of(rows, 4), flush, format="parquet")}


def _views(df: Any) -> Any:
    campaigns = df.sparkSession.createDataFrame(
        list(CAMPAIGNS.items()), "ad_id string, campaignId string"
    )
    views = df.where("event_type = 'view'").select("ad_id", "event_time")
    return views.join(F.broadcast(campaigns), "ad_id").select("campaignId", "event_time")


def _campaigns(frames: Frames) -> Any:
    windows = F.window("event_time", "10 seconds")
    return _views(frames["ads"]).groupBy(windows, "campaignId").agg(F.count("*").alias("views"))


def _campaigns_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("yahoo")
    ads = flow.source("ads", Files(str(folder / "ads"), ADS, "parquet"))
    windows = (
        ads.frame("views", _views)
        .key_by("campaignId")
        .window("10s", on="event_time", watermark="10s")
    )
    counts = windows.aggregate("counts", views="count(*)", emit="final")
    counts.sink("out", Parquet(str(folder / "out"), partitionBy="campaignId"))
    return flow


def _partitions(outcome: Outcome, folder: Path, spark: Any) -> list[Any]:
    """The rows of the sink; the column of the directories is in their names."""
    assert all("campaignId=" in str(file) for file in (folder / "out").rglob("*.parquet"))
    return list(
        spark.read.parquet(str(folder / "out")).select("window", "campaignId", "views").collect()
    )


YAHOO = Job("yahoo", _ads, _campaigns, _campaigns_flow, result=_partitions)


# --- upserts ----------------------------------------------------------------------------------

CHANGES = (
    "customerId bigint, Version bigint, Profile struct<displayName:string,"
    "creditLimit:decimal(18,4),Tags:array<string>>, deleted boolean"
)


def _changes(choose: random.Random) -> Tables:
    rows = []
    for version in range(300):
        profile = {
            "displayName": choose.choice(("Ann", "ÄNN", None)),
            "creditLimit": choose.choice((None, Decimal(choose.randint(-(10**9), 10**9)) / 10**4)),
            "Tags": choose.choice((None, [], ["new", None, "VIP"])),
        }
        rows.append(
            {
                "customerId": choose.choice((None, *range(20))),
                "Version": version,
                "Profile": choose.choice((None, profile, profile)),
                "deleted": choose.choice((True, False, None)),
            }
        )
    choose.shuffle(rows)
    return {"changes": Table(CHANGES, parts_of(rows, 4))}


def _latest(frames: Frames) -> Any:
    newest = Window.partitionBy("customerId").orderBy(F.desc("Version"))
    numbered = frames["changes"].withColumn("rank", F.row_number().over(newest))
    return numbered.where("rank = 1").drop("rank")


STORE: dict[Any, Any] = {}
"""The table that is upserted to; one run at a time uses it."""


def _upsert(frame: Any, batch: int) -> None:
    STORE.update({row.customerId: row for row in frame.collect()})


def _latest_flow(tables: Tables, folder: Path) -> Dataflow:
    STORE.clear()
    flow = Dataflow("upserts")
    changes = flow.source("changes", Files(str(folder / "changes"), CHANGES))
    latest = changes.key_by("customerId").aggregate(
        "latest", last="max_by(struct(Version, Profile, deleted), Version)"
    )
    rows = latest.frame("columns", lambda df: df.select("customerId", "last.*"))
    rows.sink("table", ForeachBatch(_upsert))
    return flow


UPSERTS = Job("upserts", _changes, _latest, _latest_flow, result=lambda *_: list(STORE.values()))


# --- quarantine -------------------------------------------------------------------------------

RAW = "value string"
ORDER = "orderId bigint, Amount decimal(10,2), shipTo struct<zipCode:string>"


def _raw(choose: random.Random) -> Tables:
    lines = []
    for number in range(300):
        order = {"orderId": number, "Amount": number / 4, "shipTo": {"zipCode": f"{number:05d}"}}
        good = json.dumps(order)
        bad = (good[:-4], "[1", "", "no JSON", '{"orderId": "twelve"}')
        lines.append({"value": choose.choice((good, good, good, *bad))})
    return {"raw": Table(RAW, parts_of(lines, 4), format="text")}


def _parsed(df: Any) -> Any:
    """Malformed lines become a null order."""
    order = F.from_json("value", f"{ORDER}, bad string", {"columnNameOfCorruptRecord": "bad"})
    return df.select("value", order.alias("order"))


BAD = "order IS NULL OR order.bad IS NOT NULL OR order.orderId IS NULL"


def _orders(frames: Frames) -> Any:
    good = _parsed(frames["raw"]).where(f"NOT ({BAD})")
    return good.select("order.orderId", "order.Amount", "order.shipTo")


def _orders_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("quarantine")
    raw = flow.source("raw", Files(str(folder / "raw"), RAW, "text"))
    orders = raw.frame("parse", _parsed, reject=BAD).frame(
        "columns", lambda df: df.select("order.orderId", "order.Amount", "order.shipTo")
    )
    orders.sink("out", Memory())
    return flow


QUARANTINE = Job(
    "quarantine",
    _raw,
    _orders,
    _orders_flow,
    dead=lambda frames: _parsed(frames["raw"]).where(BAD).count(),
)


def _loaded(record: dict[str, Any]) -> dict[str, Any]:
    """Raises for a line that is no order, so that the line becomes a dead letter."""
    order = json.loads(record["value"])
    number, amount = order["orderId"], Decimal(str(order["Amount"]))
    if not isinstance(number, int):
        raise TypeError(f"{number!r} is no number of an order")
    return {"orderId": number, "Amount": amount, "shipTo": order["shipTo"]}


def _python_orders_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("quarantine-python")
    raw = flow.source("raw", Files(str(folder / "raw"), RAW, "text"))
    raw.map("parse", _loaded, schema=ORDER).sink("out", Memory())
    return flow


PYTHON_QUARANTINE = Job(
    "quarantine in Python",
    _raw,
    _orders,
    _python_orders_flow,
    dead=lambda frames: _parsed(frames["raw"]).where(BAD).count(),
)


# --- de-duplication ---------------------------------------------------------------------------

CLICKS = "clickId string, Url string, clickTime timestamp, Props map<string,double>"


def _clicks(choose: random.Random) -> Tables:
    """Each click up to three times, the last time at most 20 s late."""
    rows: list[tuple[float, dict[str, Any]]] = []
    for number in range(150):
        click = {
            "clickId": f"c{number}",
            "Url": choose.choice((None, "/a", "/Ü")),
            "clickTime": at(number),
            "Props": choose.choice((None, {}, {"x": 0.1, "Y": None})),
        }
        for _ in range(choose.randint(1, 3)):
            rows.append((number + choose.uniform(0, 19), click))
    arriving = [click for _, click in sorted(rows, key=lambda pair: pair[0])]
    flush = {"clickId": FLUSH, "clickTime": END}
    return {"clicks": Table(CLICKS, parts_of(arriving, 5), flush)}


def _distinct_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("deduplication")
    clicks = flow.source("clicks", Files(str(folder / "clicks"), CLICKS))
    once = clicks.key_by("clickId").deduplicate("once", on="clickTime", watermark="20s")
    once.sink("out", Memory())
    return flow


DEDUPLICATION = Job(
    "de-duplication",
    _clicks,
    lambda frames: frames["clicks"].dropDuplicates(["clickId"]),
    _distinct_flow,
)
