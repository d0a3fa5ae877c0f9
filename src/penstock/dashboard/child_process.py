"""Serves the dashboard of a running flow from a process that ends with the run.

A process, not a thread: JSON encoding must not slow the control loop and Spark's driver, and a
failure of the dashboard cannot affect the flow. The port is bound before the run starts, so that a
taken port fails early; the process inherits the socket. It ends when its stdin closes, so it never
outlives the run.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from penstock.control.status import Status
from penstock.dashboard.serving import LOOPBACK, address, check_installed, listen


class Beside:
    """A view that starts a dashboard of its run; `url` is known at once."""

    def __init__(self, port: int | None = None) -> None:
        """port: None for the default port or, if taken, any. Raises `InvalidInput`."""
        check_installed()
        self._socket = listen(port, LOOPBACK)
        self._token = secrets.token_urlsafe(24)
        self.url = address(self._socket, self._token)
        self._process: subprocess.Popen[str] | None = None

    def show(self, status: Status) -> None:
        """Start the dashboard at the first call, which provides the run directory."""
        if self._process is None:
            self._process = self._started(status.run_dir)
            self._socket.close()  # the child process has inherited it

    def close(self) -> None:
        """End the process, which notifies open pages; idempotent."""
        self._socket.close()
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _started(self, run_dir: Path) -> subprocess.Popen[str]:
        number = self._socket.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.dashboard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[number],
            start_new_session=True,  # Ctrl-C must reach only the run, which then drains
            text=True,
        )
        assert process.stdin is not None
        # The token goes through the pipe, because other users can read command lines.
        told = {"run_dir": str(run_dir.absolute()), "socket": number, "token": self._token}
        with suppress(OSError):
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()
        return process
