"""HTTP routes of the dashboard: the page, its data, updates, and requests.

GET  /                  the page, and its files under /page/
GET  /api/run           the dataflow, its layout, and the state of the run
GET  /api/history       all points, decisions and events; very many points are thinned
GET  /api/moment        the flow at the newest turn, or at ?turn=N
GET  /api/stream        server-sent events: what is new since turn ?since=N and event ?event=N
POST /api/ask           {"request": "count=4"}, as on the command line
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from penstock.dashboard.access import Access, Guarded
from penstock.dashboard.run_reader import RunReader
from penstock.errors import InvalidInput, PenstockError, Refused
from penstock.store import mailbox
from penstock.store.serialization import plain

PAGE = Path(__file__).parent / "page"
_TURN = 1.0
_SLICE = 0.1  # seconds that a stream may outlive the server's end
_PATIENCE = 120.0  # seconds to wait for an answer: a change may have to move state
_ASKERS = 4  # maximum number of requests that wait for the run, so that they do not block readers
_LONGEST = 4096  # maximum bytes of a request


def application(
    reader: RunReader, access: Access, ending: Callable[[], bool] = lambda: False
) -> ASGIApp:
    """ASGI application of the dashboard; streams end when `ending` returns True."""
    answers = _Answers(reader, ending)
    return Guarded(
        Starlette(
            routes=[
                Route("/", answers.page),
                Route("/api/run", answers.run),
                Route("/api/history", answers.history),
                Route("/api/moment", answers.moment),
                Route("/api/stream", answers.stream),
                Route("/api/ask", answers.ask, methods=["POST"]),
                Mount("/page", StaticFiles(directory=PAGE)),
            ],
            exception_handlers={PenstockError: _failed},
        ),
        access,
    )


class _Answers:
    """Handlers, one method per route."""

    def __init__(self, reader: RunReader, ending: Callable[[], bool]) -> None:
        self._reader = reader
        self._ending = ending
        self._askers = anyio.CapacityLimiter(_ASKERS)

    async def page(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def run(self, request: Request) -> Response:
        head = await run_sync(self._reader.head)
        return _answer({**head, "status": await run_sync(self._reader.status)})

    async def history(self, request: Request) -> Response:
        update = await run_sync(self._reader.since, _number(request, "since") or 0)
        return _answer(asdict(update))

    async def moment(self, request: Request) -> Response:
        turn = _number(request, "turn")
        return _answer(await run_sync(self._reader.moment, turn))

    async def stream(self, request: Request) -> Response:
        since = _number(request, "since") or 0
        updates = self._updates(since, _number(request, "event") or 0)
        return StreamingResponse(updates, media_type="text/event-stream")

    async def _updates(self, turn: int, event: int) -> AsyncIterator[str]:
        """Yield what is new every second, always with the status, as a heartbeat."""
        shown = -1
        while True:
            update = await run_sync(self._reader.since, turn, event)
            turn = max(turn, update.turn)
            event = max((event, *(one["number"] for one in update.events)))
            told: dict[str, Any] = asdict(update)
            told["status"] = await run_sync(self._reader.status)
            if update.turn != shown:
                shown, told["moment"] = update.turn, await run_sync(self._reader.moment)
            yield _event("news", told)
            with anyio.move_on_after(_TURN):
                while not self._ending():
                    await anyio.sleep(_SLICE)
            if self._ending():
                yield _event("end", {"status": await run_sync(self._reader.status)})
                return

    async def ask(self, request: Request) -> Response:
        wanted = await _wanted(request)
        run_dir = self._reader.run_dir
        asking = partial(mailbox.ask, run_dir, wanted, timeout=_PATIENCE)
        answer = await run_sync(asking, abandon_on_cancel=True, limiter=self._askers)
        return _answer(answer.to_json())


async def _failed(request: Request, error: Exception) -> Response:
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(error, InvalidInput):
        status = HTTPStatus.BAD_REQUEST
    elif isinstance(error, Refused):
        status = HTTPStatus.CONFLICT
    return JSONResponse({"error": str(error)}, status)


async def _wanted(request: Request) -> str:
    """Request text from a JSON body.

    Only JSON is accepted: forms of other sites cannot send it without a CORS preflight.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise InvalidInput(f"a request must be application/json, not '{kind}'")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST:
            raise InvalidInput(f"a request may have at most {_LONGEST} bytes")
    try:
        wanted = json.loads(body)["request"]
    except (ValueError, KeyError, TypeError, RecursionError):
        wanted = None
    if not isinstance(wanted, str) or not wanted.isprintable():
        raise InvalidInput('a request is written as {"request": "count=4"}')
    return wanted


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise InvalidInput(f"'{name}' must be a number, not '{text}'")
    return int(text)


def _event(name: str, value: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {_written(value)}\n\n"


def _answer(value: Any) -> Response:
    return Response(_written(value), media_type="application/json")


def _written(value: Any) -> str:
    """JSON for browsers: NaN and infinity become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(plain(value), allow_nan=False)
