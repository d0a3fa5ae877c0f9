"""Joins of two streams, running aggregates over all types, time zones, and the top of a window."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import functions as F

from penstock import Dataflow, Files, Generator, Memory
from tests.differential.jobs.job import Frames, Job, Tables
from tests.differential.tables import END, FLUSH, Table, at, parts_of

# --- joins ------------------------------------------------------------------------------------

IMPRESSIONS = "adId string, impressionTime timestamp, Cost decimal(8,3)"
CLICKS = "adId string, clickTime timestamp, User struct<userName:string,Age:int>"
SOON = "r.clickTime BETWEEN l.impressionTime AND l.impressionTime + INTERVAL 20 SECONDS"


def _two_streams(choose: random.Random) -> Tables:
    shown: list[tuple[float, dict[str, Any]]] = []
    clicked: list[tuple[float, dict[str, Any]]] = []
    for number in range(160):
        ad = choose.choice((None, *(f"ad{n}" for n in range(12))))
        cost = choose.choice((None, Decimal(choose.randint(0, 9999)) / 1000))
        row = {"adId": ad, "impressionTime": at(number), "Cost": cost}
        shown.append((number + choose.uniform(0, 9), row))
        if choose.random() < 0.6:
            later = number + choose.randint(0, 30)
            user = choose.choice((None, {"userName": "Zoë", "Age": None}))
            ad = choose.choice((ad, "unknown"))
            click = {"adId": ad, "clickTime": at(later), "User": user}
            clicked.append((later + choose.uniform(0, 9), click))
    flushes = (
        {"adId": FLUSH, "impressionTime": END},
        {"adId": FLUSH, "clickTime": END},
    )
    return {
        name: Table(schema, parts_of(_arriving(rows), 4), flush)
        for name, schema, rows, flush in (
            ("impressions", IMPRESSIONS, shown, flushes[0]),
            ("clicks", CLICKS, clicked, flushes[1]),
        )
    }


def _arriving(rows: list[tuple[float, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _joined(how: str) -> Callable[[Frames], Any]:
    def reference(frames: Frames) -> Any:
        left, right = frames["impressions"].alias("l"), frames["clicks"].alias("r")
        both = left.join(right, F.expr(f"l.adId = r.adId AND {SOON}"), how)
        ad = F.coalesce("l.adId", "r.adId").alias("adId")
        return both.select(ad, "impressionTime", "Cost", "clickTime", "User")

    return reference


def _joined_flow(how: str) -> Callable[[Tables, Path], Dataflow]:
    def build(tables: Tables, folder: Path) -> Dataflow:
        flow = Dataflow("ads")
        shown = flow.source("impressions", Files(str(folder / "impressions"), IMPRESSIONS))
        clicks = flow.source("clicks", Files(str(folder / "clicks"), CLICKS))
        both = shown.key_by("adId").join(
            "both",
            clicks.key_by("adId"),
            how=how,
            condition=SOON,
            left_watermark=("impressionTime", "10s"),
            right_watermark=("clickTime", "10s"),
        )
        both.sink("out", Memory())
        return flow

    return build


JOINS = tuple(
    Job(f"{how} join", _two_streams, _joined(how), _joined_flow(how))
    for how in ("inner", "left_outer", "right_outer", "full_outer")
)


# --- running aggregates -----------------------------------------------------------------------

SALES = (
    "Region string, Amount decimal(18,4), Ratio double, Items array<struct<sku:string,Qty:int>>, "
    "Attributes map<string,bigint>, soldOn date, Flag boolean"
)
SUMS = (
    "count(*) AS n",
    "sum(Amount) AS Total",
    "CAST(avg(Amount) AS DECIMAL(24, 8)) AS meanAmount",
    "max(Amount) AS Highest",
    "count_if(Flag) AS flags",
    "min(soldOn) AS firstSold",
    "sort_array(collect_set(element_at(Attributes, 'größe'))) AS sizes",
    "max(struct(size(Items) AS itemCount, Items)) AS mostItems",
)


def _sales(choose: random.Random) -> Tables:
    rows = []
    for _ in range(300):
        items = [
            {"sku": choose.choice(("a", "B", None)), "Qty": choose.randint(0, 3)}
            for _ in range(choose.randint(0, 3))
        ]
        attributes = {"größe": choose.choice((1, 2, None)), "x": choose.randint(0, 9)}
        rows.append(
            {
                "Region": choose.choice(("EU", "eu", "", "日本", None)),
                "Amount": choose.choice((None, Decimal(choose.randint(-(10**9), 10**9)) / 10**4)),
                "Ratio": choose.choice((None, 0.0, 1.5)),
                "Items": choose.choice((None, items, items)),
                "Attributes": choose.choice((None, attributes, attributes)),
                "soldOn": at(86_400 * choose.randint(0, 30)).date(),
                "Flag": choose.choice((True, False, None)),
            }
        )
    return {"sales": Table(SALES, parts_of(rows, 4), format="parquet")}


def _sums(frames: Frames) -> Any:
    return frames["sales"].groupBy("Region", "Ratio").agg(*map(F.expr, SUMS))


def _sums_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("sales")
    sales = flow.source("sales", Files(str(folder / "sales"), SALES, "parquet"))
    same = sales.filter("all", lambda r: True)
    same.key_by("Region", "Ratio").aggregate("sums", *SUMS).sink("out", Memory())
    return flow


SALES_SUMS = Job("running aggregates", _sales, _sums, _sums_flow, keys=("Region", "Ratio"))


# --- a time zone that is not UTC --------------------------------------------------------------

LOGINS = "userName string, loginAt timestamp"


def _logins(choose: random.Random) -> Tables:
    """Local times without a zone, around the night in which the clocks change."""
    rows = [
        {
            "userName": choose.choice(("ann", "Bob")),
            "loginAt": at(choose.uniform(-86_400, 86_400)).replace(tzinfo=None, microsecond=0),
        }
        for _ in range(240)
    ]
    return {"logins": Table(LOGINS, parts_of(rows, 4))}


def _local(df: Any) -> Any:
    return df.select(
        "userName",
        F.date_format("loginAt", "yyyy-MM-dd").alias("day"),
        F.hour("loginAt").alias("Hour"),
        F.date_trunc("DAY", "loginAt").alias("midnight"),
    )


def _by_hour(frames: Frames) -> Any:
    keys = ("day", "Hour", "midnight")
    return _local(frames["logins"]).groupBy(*keys).agg(F.count("*").alias("logins"))


def _by_hour_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("logins")
    logins = flow.source("logins", Files(str(folder / "logins"), LOGINS))
    counts = (
        logins.frame("local", _local)
        .key_by("day", "Hour", "midnight")
        .aggregate("counts", logins="count(*)")
    )
    counts.sink("out", Memory())
    return flow


ZONES = tuple(
    Job(
        f"hours in {zone}",
        _logins,
        _by_hour,
        _by_hour_flow,
        keys=("day", "Hour", "midnight"),
        zone=zone,
    )
    for zone in ("Europe/Berlin", "Asia/Kolkata")
)


# --- the top of every window, from a generator ------------------------------------------------

PAGES = "Page string, viewedAt timestamp, Weight bigint"
VIEWS = 1200


def views(rng: Any, index: Any, due: Any) -> Mapping[str, Any]:
    """Views of pages; everything follows from the number of the record. The last one flushes."""
    seconds = index * 0.25 - (index * 7 % 11)  # at most 10 s behind
    last = index >= VIEWS - 1
    start, end = at(0).timestamp(), END.timestamp()
    return {
        "Page": [FLUSH if i >= VIEWS - 1 else f"/p{(i * i) % 13}" for i in index.tolist()],
        "viewedAt": np.where(last, end, start + seconds),
        "Weight": index % 5 + 1,
    }


TOP = "slice(array_sort(collect_list(struct(-weight AS less, Page))), 1, 3)"


def _views(choose: random.Random) -> Tables:
    made = views(None, np.arange(VIEWS), None)
    rows = [
        {
            "Page": page,
            "viewedAt": datetime.fromtimestamp(when, UTC),
            "Weight": int(weight),
        }
        for page, when, weight in zip(*made.values(), strict=True)
    ]
    return {"views": Table(PAGES, (tuple(rows[:-1]),), format="parquet", generated=True)}


def _top(frames: Frames) -> Any:
    weights = (
        frames["views"]
        .groupBy(F.window("viewedAt", "30 seconds"), "Page")
        .agg(F.sum("Weight").alias("weight"))
    )
    return weights.groupBy("window").agg(F.expr(TOP).alias("top")).select("window.start", "top")


def _top_flow(tables: Tables, folder: Path) -> Dataflow:
    flow = Dataflow("top-pages")
    pages = flow.source("views", Generator(views, PAGES, "800/s", limit=VIEWS, block=100))
    ones = pages.flat_map("ones", lambda r: [{**r, "Weight": 1}] * r["Weight"], schema=PAGES)
    windows = ones.key_by("Page").window("30s", on="viewedAt", watermark="10s")
    weights = windows.aggregate("weights", weight="sum(Weight)", emit="final")
    timed = weights.frame(
        "start", lambda df: df.select("*", "window.start", F.lit(1).alias("all")).drop("window")
    )
    top = timed.key_by("all").window("30s", on="start").aggregate("top", top=TOP, emit="final")
    top.frame("columns", lambda df: df.select("window.start", "top")).sink("out", Memory())
    return flow


TOP_PAGES = Job("top pages", _views, _top, _top_flow)
