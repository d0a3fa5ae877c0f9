"""The dashboard on the command line: what is wrong is one line, and what is right is an address."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from penstock.control.status import Status
from penstock.dashboard.child_process import Beside
from penstock.dashboard.serving import PORT, address, listen
from penstock.errors import InvalidInput
from penstock.testing import MemoryEngine

from ..control.doubles import flow, running
from ..dashboard.runs import ticks, write
from .conftest import Run, play

pytestmark = pytest.mark.usefixtures("here")
GRAPH = flow().graph


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    write(tmp_path / "run", GRAPH, ticks(GRAPH, tmp_path / "engine", 3))
    return tmp_path / "run"


def got(url: str, path: str) -> Any:
    with urlopen(url.partition("#")[0] + path, timeout=10) as answer:
        return json.load(answer)


def gone(url: str) -> bool:
    for _ in range(100):
        try:
            got(url, "api/run")
        except (URLError, OSError):
            return True
        time.sleep(0.05)
    return False


# --- what is wrong ------------------------------------------------------------------------------


def failed(outcome: tuple[int, str, str]) -> str:
    """The one line that says what is wrong."""
    code, out, err = outcome
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    return err.strip()


def test_a_directory_that_is_not_there(penstock: Run) -> None:
    words = failed(penstock("dashboard", "nowhere"))
    assert words == "penstock: there is no run directory 'nowhere'"


def test_a_directory_without_a_run(penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no run that can be read" in failed(penstock("dashboard", "empty"))


def test_a_directory_of_an_older_version(penstock: Run, run_dir: Path) -> None:
    head = {"version": 0, "flow": "f", "fingerprint": "", "engine": "spark", "run": "r"}
    (run_dir / "run.json").write_text(json.dumps({**head, "created": 0.0}))
    words = failed(penstock("dashboard", str(run_dir)))
    assert "was written in layout 0, this is layout 1" in words


def test_a_port_in_use(penstock: Run, run_dir: Path) -> None:
    with listen(0) as taken:
        port = taken.getsockname()[1]
        expected = (
            f"penstock: port {port} of 127.0.0.1 is in use; choose another, or 0 for any free port"
        )
        assert failed(penstock("dashboard", str(run_dir), "--port", str(port))) == expected
        assert failed(penstock("run", "wordcount", f"--dashboard={port}")) == expected


@pytest.mark.parametrize("port", ["many", "-1", "65536", "²"])
def test_a_port_that_is_none(penstock: Run, port: str) -> None:
    for words in (
        ("dashboard", "x", f"--port={port}"),
        ("run", "wordcount", f"--dashboard={port}"),
    ):
        assert f"'{port}' is no port: write a number up to 65535" in failed(penstock(*words))


def test_an_address_that_is_not_ours(
    penstock: Run, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = failed(penstock("dashboard", str(run_dir), "--host", "203.0.113.7"))
    assert words.startswith("penstock: cannot serve at 203.0.113.7, port 8765: Cannot assign")

    def unknown(*given: Any, **more: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    words = failed(penstock("dashboard", str(run_dir), "--host", "nobody"))
    assert words == "penstock: host 'nobody' cannot be resolved"


def test_a_token_that_can_be_guessed(penstock: Run, run_dir: Path) -> None:
    words = failed(penstock("dashboard", str(run_dir), "--token", "secret"))
    assert "a token needs at least 16 printable ASCII characters" in words


def test_what_it_needs_is_not_installed(
    penstock: Run, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.dashboard.serving.find_spec", lambda name: None)
    expected = (
        "penstock: the dashboard needs Starlette and uvicorn: pip install 'penstock[dashboard]'"
    )
    assert failed(penstock("dashboard", str(run_dir))) == expected
    assert failed(penstock("run", "wordcount", "--dashboard")) == expected


def test_a_run_without_a_dashboard_needs_nothing_of_it() -> None:
    probe = "import sys, penstock.app; sys.exit('starlette' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe]).returncode == 0


# --- where it is --------------------------------------------------------------------------------


def test_the_usual_port_is_left_where_it_is_taken() -> None:
    try:
        first = listen(PORT)
    except InvalidInput:  # somebody else has it, which is as good
        first = socket.socket()
    with first, listen(None) as other:
        assert other.getsockname()[1] not in (0, PORT)


def test_an_address_holds_the_token_where_no_server_sees_it() -> None:
    with listen(0) as one:
        port = one.getsockname()[1]
        assert address(one, "a/b c") == f"http://127.0.0.1:{port}/#token=a/b%20c"


# --- processes ----------------------------------------------------------------------------------


def started(run_dir: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "penstock", "dashboard", str(run_dir), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    return process, re.sub(r".* at ", "", said).strip()


def test_the_command_serves_until_ctrl_c(run_dir: Path) -> None:
    process, url = started(run_dir)
    with process:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{32}", url)
        assert got(url, "api/run")["dataflow"]["name"] == "numbers"
        stream = urlopen(url.partition("#")[0] + "api/stream", timeout=10)
        with closing(stream):
            assert stream.readline() == b"event: news\n"
            process.send_signal(signal.SIGINT)
            assert b"event: end\n" in stream.read()
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")


def test_a_dashboard_beside_a_run_lives_as_long_as_the_run(tmp_path: Path) -> None:
    with closing(Beside(0)) as beside:
        with running(tmp_path, MemoryEngine()):
            beside.show(Status(GRAPH, "memory", "static", "starting", 0.0, None, tmp_path))
            assert got(beside.url, "api/run")["status"]["running"]
            token = beside.url.partition("#token=")[2]
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            where = beside.url.partition("#")[0] + "api/ask"
            asked = Request(where, b'{"request": "double=3"}', headers)
            with urlopen(asked, timeout=20) as answer:
                assert json.load(answer)["done"]
        beside.close()
        assert gone(beside.url)


def test_it_goes_when_the_run_is_killed(tmp_path: Path) -> None:
    write(tmp_path / "run", GRAPH, ticks(GRAPH, tmp_path / "engine", 3))
    program = """if True:
        import sys, time
        from pathlib import Path
        from types import SimpleNamespace
        from penstock.dashboard.child_process import Beside
        beside = Beside(0)
        beside.show(SimpleNamespace(run_dir=Path(sys.argv[1])))
        print(beside.url, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert got(url, "api/run")["dataflow"]["name"] == "numbers"
        os.kill(process.pid, signal.SIGKILL)
    assert gone(url)


def test_a_run_says_where_its_dashboard_is(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, MemoryEngine())
    code, _, err = penstock("run", "wordcount", "--for", "3s", "--dashboard=0", "--no-view")
    assert code == 0
    first, *rest = err.splitlines()
    assert re.fullmatch(r"penstock: dashboard at http://127\.0\.0\.1:\d+/#token=[\w-]{32}", first)
    assert rest == []
