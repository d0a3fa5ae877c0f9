"""The dashboard beside a run: a process of its own that ends with the run.

A process, not a thread: what it reads and writes as JSON each second must not take time from the
control loop and Spark's driver, and nothing that goes wrong in it can touch the flow. The address
is taken before anything starts, so that one that is in use is told at once; the process gets the
open socket. It ends when the pipe from this process is closed, so also if this process is killed.
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
    """A dashboard of the run that it is shown, as a view is; its address is `url` at once."""

    def __init__(self, port: int | None = None) -> None:
        """Port None is the usual one, or any if that is taken. Raises `InvalidInput`."""
        check_installed()
        self._socket = listen(port, LOOPBACK)
        self._token = secrets.token_urlsafe(24)
        self.url = address(self._socket, self._token)
        self._process: subprocess.Popen[str] | None = None

    def show(self, status: Status) -> None:
        """The run as it is now: the first time tells where it is kept."""
        if self._process is None:
            self._process = self._started(status.run_dir)
            self._socket.close()  # it is the other process's now, and is gone when that is

    def close(self) -> None:
        """The run is over: the page is told, and the process ends; harmless when done twice."""
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
            start_new_session=True,  # a Ctrl-C is for the run, which then drains
            text=True,
        )
        assert process.stdin is not None
        # The token goes through the pipe: others can read the words of a command.
        told = {"run_dir": str(run_dir.absolute()), "socket": number, "token": self._token}
        with suppress(OSError):
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()
        return process
