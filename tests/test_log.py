from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import log
from penstock.app import run
from penstock.errors import FlowFailed
from penstock.testing import MemoryEngine, fake_clock
from tests.control.doubles import FailingEngine, flow

LOGGER = logging.getLogger("penstock.example")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    package = logging.getLogger("penstock")
    before = (package.level, package.propagate, [*package.handlers])
    yield
    assert (package.level, package.propagate, package.handlers) == before


def test_the_library_is_silent() -> None:
    code = "import logging, penstock; logging.getLogger('penstock.x').error('heard')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_records_go_to_stderr_from_a_level_on() -> None:
    out = io.StringIO()
    handler = log.to_stderr(logging.INFO, out)
    LOGGER.debug("too fine")
    LOGGER.info("as it is")
    logging.getLogger("py4j").error("somebody else's")
    log.remove(handler)
    LOGGER.error("too late")
    assert out.getvalue() == "penstock: INFO: penstock.example: as it is\n"


def test_records_go_to_a_file_which_is_rotated(tmp_path: Path) -> None:
    handler = log.to_file(tmp_path / "penstock.log")
    for _ in range(60):
        LOGGER.info("x" * 100_000)
    log.remove(handler)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4
    assert all(file.stat().st_size <= 1_000_000 for file in files)


def test_handlers_of_the_application_get_what_they_would_have_got(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    handler = log.to_file(tmp_path / "penstock.log")
    LOGGER.info("for the file only")
    LOGGER.warning("for both")
    log.remove(handler)
    LOGGER.warning("for the application")
    assert caplog.messages == ["for both", "for the application"]
    assert len((tmp_path / "penstock.log").read_text().splitlines()) == 2


def test_a_run_logs_to_its_directory(tmp_path: Path) -> None:
    engine = MemoryEngine()
    run(
        flow(),
        engine=engine,
        seconds=4,
        changes=["2s:double=3"],
        clock=fake_clock(engine),
        run_dir=tmp_path,
    )
    text = (tmp_path / "penstock.log").read_text()
    for part in ("start: memory, policy static", "parallelism 1 -> 3", "stop: drained"):
        assert part in text


def test_a_run_that_fails_logs_why(tmp_path: Path) -> None:
    engine = FailingEngine()
    with pytest.raises(FlowFailed):
        run(flow(), engine=engine, seconds=9, clock=fake_clock(engine), run_dir=tmp_path)
    assert "ERROR" in (tmp_path / "penstock.log").read_text()


def test_a_directory_that_is_refused_is_not_written_to(tmp_path: Path) -> None:
    class Refusing(MemoryEngine):
        def start(self, *arguments: object) -> None:  # type: ignore[override]
            LOGGER.info("looking at it")
            raise FlowFailed("not mine")

    engine = Refusing()
    with pytest.raises(FlowFailed):
        run(flow(), engine=engine, seconds=1, clock=fake_clock(engine), run_dir=tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_what_is_logged_before_the_directory_is_accepted_is_in_the_file(tmp_path: Path) -> None:
    with log.buffered() as buffer:
        LOGGER.info("before")
        buffer.open(tmp_path / "penstock.log")
        LOGGER.info("after")
    lines = (tmp_path / "penstock.log").read_text().splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["before", "after"]
