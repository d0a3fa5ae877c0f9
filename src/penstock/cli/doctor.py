"""`penstock doctor`: check what Penstock needs of this machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import text
from penstock.cli import base, options
from penstock.cli.standard_output import Streams

if TYPE_CHECKING:
    from rich.text import Text

GIB = 1024**3
_INSTALL_JAVA = (
    "install Java 17 or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17)"
)


class Level(Enum):
    """Severity of a finding: none, a warning, or one that keeps Penstock from running."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One check: what was found, and what to do about it."""

    name: str
    level: Level
    found: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        return {
            "name": self.name,
            "level": self.level.value,
            "found": self.found,
            "advice": self.advice,
        }


@base.command("doctor")
@options.as_json
def command(streams: Streams) -> int:
    """Check this machine and say what to install or change.

    Checks Python, Java, packages, memory, disk and network.

    Example: penstock doctor
    """
    checks = examine()
    failed = any(c.level is Level.FAIL for c in checks)
    shown = {"ok": not failed, "checks": [c.to_json() for c in checks]}
    streams.render(shown, _lines(checks, failed))
    return int(failed)


def _lines(checks: Iterable[Check], failed: bool) -> Iterator[Text]:
    from rich.text import Text

    style = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}
    for check in checks:
        line = Text.assemble((f" {check.level.value:<5}", style[check.level]), f"{check.name}: ")
        yield line.append(check.found)
        if check.advice:
            yield Text(f"       → {check.advice}")
    words = "something here keeps Penstock from running" if failed else "ready to run"
    yield Text(f"\n {words}", "bold red" if failed else "bold green")


def examine() -> tuple[Check, ...]:
    """Run all checks, in the order in which to solve problems."""
    return tuple(check for group in _GROUPS for check in group())


def _python() -> Iterator[Check]:
    found = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", Level.OK, found)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        other = os.environ.get(name)
        if other and Path(shutil.which(other) or other).resolve() != Path(sys.executable).resolve():
            yield Check(
                name,
                Level.WARN,
                other,
                "workers will use this Python, not the one you run; unset it unless you mean that",
            )


def _java() -> Iterator[Check]:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            yield Check(
                "JAVA_HOME",
                Level.FAIL,
                f"{home} has no bin/java",
                "Spark looks there first: point it to a Java 17 or later, or unset it",
            )
            return
        yield java_check(str(java), _java_says(str(java)))
        return
    found = shutil.which("java")
    if found is None:
        yield Check("java", Level.FAIL, "not found on PATH, JAVA_HOME is not set", _INSTALL_JAVA)
    else:
        yield java_check(found, _java_says(found))


def _java_says(java: str) -> str:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr + done.stdout


def java_check(java: str, says: str) -> Check:
    """The check of a Java with this output of `java -version`."""
    number = java_major(says)
    if number is None:
        first = (says.strip().splitlines() or ["nothing"])[0]
        return Check("java", Level.FAIL, f"{java} says: {first}", _INSTALL_JAVA)
    if number < 17:
        return Check("java", Level.FAIL, f"version {number} ({java})", _INSTALL_JAVA)
    return Check("java", Level.OK, f"version {number} ({java})")


def java_major(says: str) -> int | None:
    """The feature version in the output of `java -version`: 8 for 1.8.0, 17 for 17.0.15."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', says)
    if match is None:
        return None
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


_PACKAGES: Mapping[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "pyspark": ((4, 3), (4, 4)),
    "pyarrow": ((18,), None),
    "pandas": ((2, 2), (3,)),
    "numpy": ((1, 26), None),
}


def _packages() -> Iterator[Check]:
    for name, (least, below) in _PACKAGES.items():
        wanted = f">={_dotted(least)}" + (f",<{_dotted(below)}" if below else "")
        advice = f"pip install '{name}{wanted}'"
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Check(name, Level.FAIL, "not installed", advice)
            continue
        numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:3])
        right = numbers >= least and (below is None or numbers < below)
        yield Check(name, Level.OK if right else Level.FAIL, found, "" if right else advice)
    home = os.environ.get("SPARK_HOME")
    if home:
        yield Check(
            "SPARK_HOME",
            Level.WARN,
            home,
            "this Spark is used, not the one pip installed; unset it unless both are 4.3",
        )


def _machine() -> Iterator[Check]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    few = (cores or 1) < 2
    yield Check(
        "cores",
        Level.WARN if few else Level.OK,
        str(cores),
        "with one core the generator and the flow take turns; expect low rates" if few else "",
    )
    memory = available_memory()
    if memory is not None:
        level = Level.FAIL if memory < 1 * GIB else Level.WARN if memory < 3 * GIB else Level.OK
        advice = "Spark's driver takes up to 2 GiB and Python workers come on top: free some memory"
        yield Check("memory", level, f"{text.size(memory)} available", advice * (level != Level.OK))


def available_memory() -> int | None:
    """Available memory in bytes, within the limit of the container; None if unknown."""
    found: list[int] = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        match = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
        if match:
            found.append(1024 * int(match[1]))
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists():
        most = limit.read_text().strip()
        if most.isdigit():
            found.append(max(0, int(most) - int(used.read_text())))
    return min(found) if found else None


def _disk() -> Iterator[Check]:
    for name, path in (("disk here", Path.cwd()), ("disk for temporary files", _temporary())):
        free = shutil.disk_usage(path).free
        level = Level.FAIL if free < GIB // 4 else Level.WARN if free < 2 * GIB else Level.OK
        advice = "channels, checkpoints and state live on disk: free some, or run elsewhere"
        yield Check(name, level, f"{text.size(free)} free in {path}", advice * (level != Level.OK))
    for name, path in (("run directory", Path.cwd()), ("temporary files", _temporary())):
        try:
            with tempfile.NamedTemporaryFile(dir=path, prefix=".penstock-"):
                pass
        except OSError as error:
            advice = "change to a directory you may write to, or give one with --run-dir"
            if name == "temporary files":
                advice = "set TMPDIR to a directory you may write to"
            yield Check(name, Level.FAIL, f"cannot write in {path}: {error.strerror}", advice)
        else:
            yield Check(name, Level.OK, f"can write in {path}")


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


def _network() -> Iterator[Check]:
    try:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            one.listen()
    except OSError as error:
        yield Check(
            "ports",
            Level.FAIL,
            f"cannot listen on 127.0.0.1: {error.strerror}",
            "Spark and Python talk over local ports: allow them (sandbox, firewall, loopback down)",
        )
    else:
        yield Check("ports", Level.OK, "can listen on 127.0.0.1")
    host = socket.gethostname()
    try:
        address = socket.gethostbyname(host)
    except OSError:
        yield Check(
            "host name",
            Level.WARN,
            f"'{host}' does not resolve",
            f"local runs do not mind; for a cluster add '{host}' to /etc/hosts "
            "or set SPARK_LOCAL_IP",
        )
    else:
        yield Check("host name", Level.OK, f"{host} is {address}")


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


_GROUPS: tuple[Callable[[], Iterator[Check]], ...] = (
    _python,
    _java,
    _packages,
    _machine,
    _disk,
    _network,
)
