"""Who may look, and who may ask."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from penstock.dashboard.access import Access, is_local
from penstock.errors import InvalidInput

TOKEN = "a-token-of-the-tests"
HERE = {"host": "127.0.0.1:8765"}
KNOWN = {"authorization": f"Bearer {TOKEN}"}
LOCAL, OPEN = Access(True, TOKEN), Access(False, TOKEN)


def status(access: Access, method: str, path: str, **headers: str) -> int | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    found = access.refusal(method, path, Headers(named))
    return None if found is None else int(found[0])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1", "[::1]"]
)
def test_these_addresses_are_of_this_machine(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "", "127.0.0.1.nip.io"]
)
def test_these_are_not(host: str) -> None:
    assert not is_local(host)


def test_on_this_machine_anybody_may_look_and_nobody_may_ask_without_the_token() -> None:
    assert status(LOCAL, "GET", "/", **HERE) is None
    assert status(LOCAL, "GET", "/api/moment", **HERE) is None
    assert status(LOCAL, "POST", "/api/ask", **HERE) == 401
    assert status(LOCAL, "POST", "/api/ask", **HERE, authorization="Bearer wrong") == 401
    assert status(LOCAL, "POST", "/api/ask", **HERE, authorization="") == 401
    assert status(LOCAL, "POST", "/api/ask", **HERE, **KNOWN) is None


def test_elsewhere_nobody_may_look_without_the_token() -> None:
    host = {"host": "cluster.example:8765"}
    assert status(OPEN, "GET", "/", **host) is None  # the page holds nothing of the run
    assert status(OPEN, "GET", "/page/main.js", **host) is None
    for path in ("/api/run", "/api/history", "/api/moment", "/api/stream"):
        assert status(OPEN, "GET", path, **host) == 401
        assert status(OPEN, "GET", path, **host, **KNOWN) is None
    assert status(OPEN, "POST", "/api/ask", **host) == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "[", "[::1"]
)
def test_a_foreign_name_that_points_to_this_machine_is_turned_away(host: str) -> None:
    assert status(LOCAL, "GET", "/api/moment", host=host) == 421
    assert status(LOCAL, "POST", "/api/ask", host=host, **KNOWN) == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9000", "[::1]:8765", "localhost"])
def test_a_tunnel_may_have_another_port(host: str) -> None:
    assert status(LOCAL, "GET", "/api/moment", host=host) is None


@pytest.mark.parametrize(
    "said",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_another_site_may_not_ask_even_with_the_token(said: dict[str, str]) -> None:
    assert status(LOCAL, "POST", "/api/ask", **HERE, **KNOWN, **said) == 403


def test_the_page_itself_may_ask() -> None:
    said = {"origin": "http://127.0.0.1:8765", "sec_fetch_site": "same-origin"}
    assert status(LOCAL, "POST", "/api/ask", **HERE, **KNOWN, **said) is None


@pytest.mark.parametrize("token", ["", "short", "fifteen-letters", "ä" * 20, "with\na line of its"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="a token needs at least 16 printable ASCII characters"):
        Access(True, token)


def test_tokens_are_new_each_time_and_not_shown() -> None:
    one = Access()
    assert one.token != Access().token
    assert len(one.token) >= 32
    assert one.token not in repr(one)
