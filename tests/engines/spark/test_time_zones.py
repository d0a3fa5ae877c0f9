"""Datetimes without a zone, in columns of instants."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.engines.spark.session.time_zones import collected, in_zone

NOON = datetime(2024, 7, 1, 12)
PARIS = ZoneInfo("Europe/Paris")


def schema(zone: str) -> pa.Schema:
    stamp = pa.timestamp("us", zone)
    return pa.schema(
        [
            ("n", pa.int64()),
            ("at", stamp),
            ("plain", pa.timestamp("us")),
            ("many", pa.list_(stamp)),
            ("named", pa.map_(pa.string(), stamp)),
            ("inside", pa.struct([("at", stamp), ("n", pa.int64())])),
        ]
    )


ROW = {
    "n": 1,
    "at": NOON,
    "plain": NOON,
    "many": [NOON, None],
    "named": {"a": NOON},
    "inside": {"at": NOON, "n": 2},
}


def made(rows: object, zone: str) -> dict[str, object]:
    (row,) = pa.RecordBatch.from_pylist([*rows], schema=schema(zone)).to_pylist()  # type: ignore[call-overload]
    return dict(row)


def test_wall_clock_time_is_that_of_the_column_s_zone() -> None:
    noon = NOON.replace(tzinfo=PARIS)
    assert made(in_zone([ROW], schema("Europe/Paris")), "Europe/Paris") == {
        "n": 1,
        "at": noon,
        "plain": NOON,
        "many": [noon, None],
        "named": [("a", noon)],
        "inside": {"at": noon, "n": 2},
    }


def test_a_zone_of_its_own_is_kept() -> None:
    ten = NOON.replace(hour=10, tzinfo=UTC)
    found = made(in_zone([{"at": ten}], schema("Europe/Paris")), "Europe/Paris")
    assert found["at"] == ten
    assert found["many"] is None


def test_a_fixed_offset_is_a_zone() -> None:
    found = made(in_zone([ROW], schema("+05:30")), "+05:30")
    assert found["at"] == NOON.replace(hour=6, minute=30, tzinfo=UTC)


def test_rows_in_utc_are_passed_on() -> None:
    rows = [ROW]
    assert in_zone(rows, schema("UTC")) is rows


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "UTC"])
def test_what_was_collected_is_wall_clock_time_of_this_process(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        found = made(collected([ROW], schema("UTC")), "UTC")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found["at"] == NOON.replace(tzinfo=ZoneInfo(zone))
    assert found["plain"] == NOON
