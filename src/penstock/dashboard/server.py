"""The dashboard's answers: the page, what it shows, news as they come, and what is asked for.

GET  /                  the page, and its files under /page/
GET  /api/run           the dataflow, where it is drawn, and how the run is
GET  /api/history       all points and decisions, thinned where there are very many
GET  /api/moment        the flow at the newest turn, or at ?turn=N
GET  /api/stream        server-sent events: what came since ?since=N, then each second
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
from penstock.dashboard.recording import Recording
from penstock.errors import InvalidInput, PenstockError, Refused
from penstock.store import mailbox
from penstock.store.serialization import plain

PAGE = Path(__file__).parent / "page"
_TURN = 1.0
_SLICE = 0.1  # how long a stream may go on after the end
_PATIENCE = 120.0  # seconds for an answer: a change may have to move state
_ASKERS = 4  # who waits for an answer must not keep others from looking
_LONGEST = 4096  # bytes of a request


def application(
    recording: Recording, access: Access, ending: Callable[[], bool] = lambda: False
) -> ASGIApp:
    """The dashboard of a run; `ending` says when streams are to end."""
    answers = _Answers(recording, ending)
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
    """One method a route."""

    def __init__(self, recording: Recording, ending: Callable[[], bool]) -> None:
        self._recording = recording
        self._ending = ending
        self._askers = anyio.CapacityLimiter(_ASKERS)

    async def page(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def run(self, request: Request) -> Response:
        head = await run_sync(self._recording.head)
        return _answer({**head, "status": await run_sync(self._recording.status)})

    async def history(self, request: Request) -> Response:
        news = await run_sync(self._recording.since, _number(request, "since") or 0)
        return _answer(asdict(news))

    async def moment(self, request: Request) -> Response:
        turn = _number(request, "turn")
        return _answer(await run_sync(self._recording.moment, turn))

    async def stream(self, request: Request) -> Response:
        since = _number(request, "since") or 0
        return StreamingResponse(self._events(since), media_type="text/event-stream")

    async def _events(self, turn: int) -> AsyncIterator[str]:
        """Each second what is new, or only how the run is, so that a lost connection is noticed."""
        shown = -1
        while True:
            news = await run_sync(self._recording.since, turn)
            turn = max(turn, news.turn)
            told: dict[str, Any] = asdict(news)
            told["status"] = await run_sync(self._recording.status)
            if news.turn != shown:
                shown, told["moment"] = news.turn, await run_sync(self._recording.moment)
            yield _event("news", told)
            with anyio.move_on_after(_TURN):
                while not self._ending():
                    await anyio.sleep(_SLICE)
            if self._ending():
                yield _event("end", {"status": await run_sync(self._recording.status)})
                return

    async def ask(self, request: Request) -> Response:
        wanted = await _wanted(request)
        run_dir = self._recording.run_dir
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
    """What is asked for. A form of another site cannot send JSON without asking first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise InvalidInput(f"a request is JSON, found '{kind}'")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST:
            raise InvalidInput(f"a request has {_LONGEST} bytes at most")
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
        raise InvalidInput(f"'{name}' is a number of a turn, found '{text}'")
    return int(text)


def _event(name: str, value: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {_written(value)}\n\n"


def _answer(value: Any) -> Response:
    return Response(_written(value), media_type="application/json")


def _written(value: Any) -> str:
    """As JSON that browsers read: a number that is none was not measured."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(plain(value), allow_nan=False)
