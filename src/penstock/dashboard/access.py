"""Access control of the dashboard: who may view, and who may send requests.

On loopback anybody may view; on any other address viewing needs the token. Changing the run always
needs it. The printed URL has the token in its fragment, which browsers do not send; the page keeps
it for its tab and sends it in a header. There are no cookies, so no other site can act in the
user's name (CSRF). Requests for other host names (DNS rebinding) are rejected.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import InvalidInput

LEAST = 16  # minimum length of a token
_WHERE = "open the address printed when the dashboard started: it contains the token"

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_local(host: str) -> bool:
    """True if an address can be reached only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """Checks requests. local: the page is served on loopback only."""

    local: bool = True
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def __post_init__(self) -> None:
        if len(self.token) < LEAST or not self.token.isascii() or not self.token.isprintable():
            raise InvalidInput(f"a token needs at least {LEAST} printable ASCII characters")

    def refusal(self, method: str, path: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """Status and reason if a request is rejected, else None."""
        host = headers.get("host", "")
        if self.local and not is_local(_split(f"//{host}").hostname or ""):
            return HTTPStatus.MISDIRECTED_REQUEST, f"this page is not served as '{host}'"
        changing = method not in ("GET", "HEAD")
        if changing and _foreign(headers, host):
            return HTTPStatus.FORBIDDEN, "this request came from another site"
        closed = path.startswith("/api/") and (changing or not self.local)
        if closed and not self._known(headers):
            return HTTPStatus.UNAUTHORIZED, _WHERE
        return None

    def _known(self, headers: Headers) -> bool:
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return secrets.compare_digest(given.encode(), self.token.encode())


def _foreign(headers: Headers, host: str) -> bool:
    """True if the browser reports that another site sent the request."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and _split(origin).netloc != host


def _split(address: str) -> SplitResult:
    """Parts of a URL; empty if it is malformed."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


class Guarded:
    """ASGI middleware that enforces `Access` and adds security headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._access.refusal(scope["method"], scope["path"], Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, sending)
        else:
            status, why = refused
            await JSONResponse({"error": why}, status)(scope, receive, sending)
