"""Visits are looked up in a service that takes 5 ms to answer, and counted by country.

    penstock run examples/lookup.py --for 90s --policy latency

How many instances wait for the service at a time follows from the load and from the latency
that is asked for.
"""

import time
from typing import Any

from penstock import Dataflow, Discard, Generator

COUNTRIES = ("at", "be", "ch", "de", "es", "fr", "it", "nl", "pl", "pt")


def visits(rng: Any, index: Any, at: Any) -> dict[str, Any]:
    return {"visit": index, "address": rng.integers(0, 2**31, len(index))}


def look_up(visit: dict[str, Any]) -> tuple[int, str]:
    """The service: it answers after 5 ms, however many ask at a time."""
    time.sleep(0.005)
    return visit["visit"], COUNTRIES[visit["address"] % len(COUNTRIES)]


flow = Dataflow("lookup")
arrived = flow.source(
    "visits", Generator(visits, "visit bigint, address bigint", load="steps:60,240,60@30s")
)
found = arrived.map("look-up", look_up, schema="visit bigint, country string")
counts = found.key_by("country").aggregate("count", n="count(*)")
counts.sink("counts", Discard())
flow.constrain("look-up", "count", latency="3s")
