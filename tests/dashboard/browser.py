"""A browser, and dashboards for it to look at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.dashboard.serving import address, listen, serve

TOKEN = "a-token-of-the-tests"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The browser of this machine; `scripts/ensure-chromium.sh` sees that there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert found is not None, "there is no chromium here: run scripts/ensure-chromium.sh"
    return found


@contextmanager
def served(run_dir: Path, port: int = 0) -> Iterator[str]:
    """The address of a dashboard in a thread of this process."""
    over = threading.Event()
    listening = listen(port)
    where = address(listening, TOKEN)
    thread = threading.Thread(target=serve, args=(run_dir, listening, TOKEN, over.wait))
    thread.start()
    try:
        yield where
    finally:
        over.set()
        thread.join(20)


def dashboard(run_dir: Path, port: int) -> subprocess.Popen[str]:
    """A dashboard in a process of its own, which is there when this returns."""
    command = [sys.executable, "-m", "penstock", "dashboard", str(run_dir)]
    command += ["--port", str(port), "--token", TOKEN]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process
