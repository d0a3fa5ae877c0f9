"""Page load and processing, by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from penstock_lab.workloads import page_load, processing
from penstock_lab.workloads.views import region, section


def view(number: int, **changed: object) -> str:
    fields = {"user": 1, "page": 0, "ms": 100, "status": 200, "at": 1_700_000_000_000, **changed}
    agent = fields.pop("agent", "app")
    texts = ",".join(f'"{name}":{value}' for name, value in fields.items())
    return f'{{"view":{number},{texts},"agent":"{agent}"}}'


def lines(*given: str) -> dict[str, pa.Table]:
    return {"views": pa.table({"value": list(given)})}


def test_pages_and_users_have_their_place() -> None:
    assert section(0) == "news"
    assert {section(page) for page in range(1000)} == {
        "news", "sport", "weather", "mail", "finance", "games", "internal",
    }  # fmt: skip
    assert region(0) == "north"
    assert {region(user) for user in range(100)} == {"north", "east", "south", "west"}


def test_loads_of_a_section_and_window() -> None:
    internal = next(page for page in range(1000) if section(page) == "internal")
    given = lines(
        view(1),
        view(2, ms=300, at=1_700_000_009_999),
        view(3, ms=50, at=1_700_000_010_000),
        view(4, status=404),
        view(5, agent="bot"),
        view(6, page=internal),
        view(7).replace('"page"', '"pag"'),
        view(8)[:-4],
    )
    start = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert list(page_load.expected(given)) == [
        ("news", start, 2, 400, 300),
        ("news", start.replace(second=30), 1, 50, 50),
    ]


def test_an_operator_joins_a_view_with_its_section() -> None:
    at = datetime(2023, 11, 14, tzinfo=UTC)
    assert page_load.in_section({"page": 0, "ms": 7, "at": at}) == ("news", 7, at)
    assert page_load.is_public({"section": "news"})
    assert not page_load.is_public({"section": "internal"})


def test_failures_go_one_way_and_times_the_other() -> None:
    given = lines(view(1, status=500, ms=271, user=0), view(2, ms=90, user=0), "nonsense")
    assert list(processing.failures(given)) == [(1, "news", 500)]
    assert list(processing.times(given)) == [(1, "north", 150), (2, "north", 50)]
    assert processing.normalised({"view": 1, "region": "north", "ms": 271}) == (1, "north", 150)
