"""What the server answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.dashboard.access import Access
from penstock.dashboard.run_reader import RunReader
from penstock.dashboard.server import PAGE, _written, application
from penstock.store.history import transitions
from penstock.testing import MemoryEngine
from tests.control.doubles import running

TOKEN = "a-token-of-the-tests"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


def client(run_dir: Path, *, rounds: int = 1) -> TestClient:
    """A client whose streams end after some rounds."""
    left = iter(range(rounds * 2 - 1))
    app = application(RunReader(run_dir), Access(True, TOKEN), lambda: next(left, None) is None)
    return TestClient(app, base_url="http://127.0.0.1:8765")


@pytest.fixture
def page(past: Path) -> Iterator[TestClient]:
    with client(past) as found:
        yield found


def test_the_page_and_all_it_names_are_there_and_come_from_here(page: TestClient) -> None:
    text = page.get("/").text
    named = re.findall(r'(?:href|src)="(/page/[^"]+)"', text)
    assert "/page/main.js" in named
    for path in (*named, *(f"/page/{file.name}" for file in PAGE.iterdir())):
        assert page.get(path).status_code == 200, path
    for file in PAGE.iterdir():
        assert "//" not in re.sub(r"(^|\s)//.*|http://www.w3.org/2000/svg", "", file.read_text())


def test_scripts_import_nothing_that_is_not_there() -> None:
    for file in PAGE.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', file.read_text()):
            assert (PAGE / name).is_file(), f"{file.name} imports {name}"


def test_no_script_makes_markup_of_text() -> None:
    for file in PAGE.glob("*.js"):
        found = re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", file.read_text()
        )
        assert found is None, f"{file.name}: {found}"


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/moment", "/nowhere"])
def test_every_answer_keeps_foreign_code_out(page: TestClient, path: str) -> None:
    headers = page.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_files_outside_the_page_are_not_served(page: TestClient) -> None:
    for path in ("/page/../server.py", "/page/%2e%2e/server.py", "/page//etc/passwd"):
        assert page.get(path).status_code == 404


def test_the_run_its_history_and_a_moment(page: TestClient, past: Path) -> None:
    head = page.get("/api/run").json()
    assert head["dataflow"]["name"] == "wordcount"
    assert head["layout"]["layers"] == 5
    assert head["status"]["phase"] == "over"
    news = page.get("/api/history").json()
    changed = [one["turn"] for one in news["entries"] if one["kind"] == "changed"]
    assert changed == [one.turn for one in transitions(past)]
    middle = news["points"][len(news["points"]) // 2]["turn"]
    assert page.get(f"/api/moment?turn={middle}").json()["turn"] == middle
    assert page.get("/api/history", params={"since": news["turn"]}).json()["points"] == []


@pytest.mark.parametrize("turn", ["x", "-1", "1e3", "9" * 30, "²"])
def test_a_turn_that_is_none_is_told(page: TestClient, turn: str) -> None:
    answer = page.get("/api/moment", params={"turn": turn})
    assert answer.status_code == 400
    assert "must be a number, not" in answer.json()["error"]


def test_a_turn_that_is_gone_is_told(page: TestClient) -> None:
    answer = page.get("/api/moment?turn=0")
    assert answer.status_code == 500
    assert answer.json() == {"error": "turn 0 is no longer in the history"}


def test_numbers_that_are_none_are_not_measured() -> None:
    assert _written({"mean": 1.5, "p95": None}) == '{"mean": 1.5, "p95": null}'
    assert json.loads(_written({"mean": [math.nan, math.inf, 2]})) == {"mean": [None, None, 2]}


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    return [(name, json.loads(data)) for name, data in found]


def test_a_stream_tells_what_came_and_its_end(past: Path) -> None:
    with client(past) as page:
        told = events(page.get("/api/stream?since=5").text)
    assert [name for name, _ in told] == ["news", "end"]
    news = told[0][1]
    assert news["points"][0]["turn"] == 6
    assert news["moment"]["turn"] == news["turn"]
    assert news["status"]["phase"] == "over"


def test_a_stream_says_nothing_twice(past: Path) -> None:
    with client(past, rounds=7) as page:
        told = events(page.get("/api/stream").text)
    assert [name for name, _ in told] == ["news", "news", "end"]
    assert told[1][1]["points"] == []
    assert "moment" not in told[1][1]


# --- asking -------------------------------------------------------------------------------------


def ask(page: TestClient, request: str, **headers: str) -> tuple[int, str]:
    found = page.post("/api/ask", json={"request": request}, headers={**KNOWN, **headers})
    told = found.json()
    return found.status_code, told.get("message") or told["error"]


def test_what_is_asked_is_done_by_the_running_flow(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with running(tmp_path, engine), client(tmp_path) as page:
        assert ask(page, "double=4")[0] == 200
        assert engine.plan.pipeline_of("double").parallelism == 4
        assert ask(page, "split double")[0] == 200
        assert len(engine.plan.pipelines) == 2
        assert ask(page, "fuse numbers double")[0] == 200
        assert len(engine.plan.pipelines) == 1
        assert ask(page, "pause")[0] == 200
        assert engine.plan.pipeline_of("numbers").admission == 0
        assert ask(page, "resume")[0] == 200
        assert ask(page, "policy advise") == (200, "the policy of this run is now: advise")
        code, words = ask(page, "nobody=2")
        assert code == 409
        assert "'nobody' is no operator" in words
        code, words = ask(page, "make it fast")
        assert code == 400
        assert "cannot read the request" in words


def test_without_the_token_nothing_is_asked(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with running(tmp_path, engine), client(tmp_path) as page:
        found = page.post("/api/ask", json={"request": "double=4"})
        assert found.status_code == 401
        assert "open the address printed when the dashboard started" in found.json()["error"]
        foreign = {**KNOWN, "Origin": "http://evil.example"}
        assert (
            page.post("/api/ask", json={"request": "double=4"}, headers=foreign).status_code == 403
        )
        assert engine.plan.pipeline_of("double").parallelism == 1


def test_a_run_that_is_over_takes_no_requests(page: TestClient) -> None:
    code, words = ask(page, "count=2")
    assert code == 409
    assert "nothing is running in" in words


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            b'{"request": "pause"}',
            "text/plain",
            "must be application/json, not 'text/plain'",
        ),
        (
            b"request=pause",
            "application/x-www-form-urlencoded",
            "a request must be application/json",
        ),
        (b"{", "application/json", "a request is written as"),
        (b"[]", "application/json", "a request is written as"),
        (b'{"request": 4}', "application/json", "a request is written as"),
        (b'{"request": "count=4\\n"}', "application/json", "a request is written as"),
        (b'{"request": "\\ud800=4"}', "application/json", "a request is written as"),
        (b"[" * 4000, "application/json", "a request is written as"),
        (b" " * 5000, "application/json", "may have at most 4096 bytes"),
    ],
)
def test_what_is_no_request_is_told(page: TestClient, body: bytes, kind: str, words: str) -> None:
    found = page.post("/api/ask", content=body, headers={**KNOWN, "Content-Type": kind})
    assert found.status_code == 400
    assert words in found.json()["error"]


def test_looking_changes_nothing(page: TestClient) -> None:
    assert page.get("/api/ask", headers=KNOWN).status_code == 405
