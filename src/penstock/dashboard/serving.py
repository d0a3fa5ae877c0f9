"""Serves the dashboard at an address until told to end."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from penstock.errors import InvalidInput

LOOPBACK = "127.0.0.1"
PORT = 8765
"""Default port of the dashboard; if it is taken, any free port is used."""


def check_installed() -> None:
    """Raise `InvalidInput` if the packages that the dashboard needs are missing."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise InvalidInput(
            "the dashboard needs Starlette and uvicorn: pip install 'penstock[dashboard]'"
        )


def listen(port: int | None, host: str = LOOPBACK) -> socket.socket:
    """Return a listening socket.

    port: None for the default port or, if taken, any free one; 0 for any. Raises `InvalidInput`.
    """
    if port is not None and not 0 <= port <= 65535:
        raise InvalidInput(f"{port} is not a valid port for the dashboard: use 1 to 65535")
    try:
        return _bound(PORT if port is None else port, host)
    except socket.gaierror:
        why = f"host '{host}' cannot be resolved"
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            why = f"cannot serve at {host}, port {port or PORT}: {os.strerror(error.errno or 0)}"
        elif port is None:
            return _bound(0, host)
        else:
            why = f"port {port} of {host} is in use; choose another, or 0 for any free port"
    raise InvalidInput(why)


def _bound(port: int, host: str) -> socket.socket:
    family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(where[:2], family=family, backlog=64)


def address(listening: socket.socket, token: str) -> str:
    """URL of the dashboard; the fragment with the token never leaves the browser."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/#token={quote(token)}"


def serve(
    run_dir: Path,
    listening: socket.socket,
    token: str,
    until: Callable[[], object] | None = None,
) -> None:
    """Serve until Ctrl-C, or until `until` returns, which runs in its own thread."""
    import uvicorn

    from penstock.dashboard.access import Access, is_local
    from penstock.dashboard.run_reader import RunReader
    from penstock.dashboard.server import application

    ending = threading.Event()
    access = Access(is_local(listening.getsockname()[0]), token)

    def over() -> bool:
        return ending.is_set() or server.should_exit

    app = application(RunReader(run_dir), access, over)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
    )
    if until is not None:

        def wait() -> None:
            until()
            ending.set()
            server.should_exit = True

        threading.Thread(target=wait, name="penstock-dashboard-end", daemon=True).start()
    with listening:
        server.run(sockets=[listening])
