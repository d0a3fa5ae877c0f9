"""The run directory: the dataflow it belongs to, its lock, and the wiring in force.

run.json            dataflow, engine, time of creation, version of this layout
lock                held by the running process; released by the system when it dies
wirings/000003.json the plan in force and, for every pipeline, its checkpoint and first rows
control/  sources/  valves and generators, for the sources' processes
channels/ checkpoints/ dead/
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from penstock import files
from penstock.dataflow.connectors import FileSink
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Write
from penstock.errors import RunDirectoryError
from penstock.plan.plan import Plan

VERSION = 1

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?:/|$)")


def local(given: str | Path) -> Path:
    """The path of a run directory as a user writes it.

    `~` and `file:///path` are understood. Raises `RunDirectoryError` for a place that is not on
    this machine, such as `s3a://bucket/run`.
    """
    text = str(given)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text).expanduser()
    parts = urlsplit(text)
    if scheme[1].lower() != "file" or parts.netloc not in ("", "localhost"):
        raise RunDirectoryError(
            f"the run directory '{text}' is not on this machine; it has to be a directory of this "
            "machine, or one that is mounted here, such as /data/runs/mine"
        )
    return Path(unquote(parts.path))


def choose(flow: str, given: str | Path | None, wall: float) -> Path:
    """The directory given, made if missing, or a new one, `runs/<flow>-<date>-<time>`.

    One that exists is not changed: the engine finds out whether its run can be resumed.
    """
    try:
        if given is None:
            return _new_directory(
                Path("runs"), f"{flow}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(wall))}"
            )
        path = local(given)
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise RunDirectoryError(f"the run directory '{given}' is a file, not a directory") from None
    except OSError as error:
        where = "runs" if given is None else given
        raise RunDirectoryError(
            f"cannot make the run directory '{where}': {error.strerror}"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise RunDirectoryError(f"the run directory '{given}' cannot be written to")
    return path


def _new_directory(parent: Path, name: str) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


@dataclass(frozen=True)
class Wired:
    """How a pipeline is connected.

    checkpoint: its directory; epoch: the wiring since which it is so; first: the row from which
    it reads, by input; partitions: number of its state partitions.
    """

    checkpoint: str
    epoch: int
    first: Mapping[str, int]
    partitions: int


@dataclass(frozen=True)
class Wiring:
    """A plan in force, and what is needed to resume its pipelines exactly where they were."""

    number: int
    plan: Plan
    pipelines: Mapping[str, Wired]

    def to_json(self) -> dict[str, Any]:
        pipelines = {name: asdict(wired) for name, wired in self.pipelines.items()}
        return {"number": self.number, "plan": self.plan.to_json(), "pipelines": pipelines}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Wiring:
        pipelines = {name: Wired(**wired) for name, wired in data["pipelines"].items()}
        return cls(data["number"], Plan.from_json(data["plan"]), pipelines)


class RunDirectory:
    """An open run directory. Exactly one process holds it at a time."""

    def __init__(self, path: Path, lock: IO[str], run: Mapping[str, Any]) -> None:
        self.path = path
        self._lock = lock
        self.run_id: str = run["run"]
        self.created: float = run["created"]

    @classmethod
    def open(
        cls, path: Path, graph: Graph, engine: str, **settings: int | float | str
    ) -> RunDirectory:
        """Open and lock a new or existing directory. Raises `RunDirectoryError`.

        settings: of the engine as it runs now, stored for those who read the directory.
        """
        path = local(path).absolute()
        head = path / "run.json"
        if path.exists() and not path.is_dir():
            raise RunDirectoryError(f"the run directory {path} is a file")
        known = _read(head) if head.exists() else None
        if known is None and path.exists() and not _only_begun(path):
            raise RunDirectoryError(
                f"{path} is not empty and not a run directory; choose another with --run-dir"
            )
        if known is not None:
            _check(path, known, graph, engine)
            _check_sinks(path, known, graph)
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = (path / "lock").open("a+")
        except OSError as error:
            raise RunDirectoryError(f"cannot write to {path}: {error.strerror}") from None
        try:
            _take(lock)
        except OSError:
            lock.close()
            raise RunDirectoryError(
                f"{path} is in use by another process; wait for it or choose another directory"
            ) from None
        if known is None and head.exists():  # another process took it in between
            lock.close()
            return cls.open(path, graph, engine, **settings)
        if known is None:
            now = time.time()
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
            known = {
                "version": VERSION,
                "flow": graph.name,
                "fingerprint": graph.fingerprint,
                "engine": engine,
                "run": f"{stamp}-{secrets.token_hex(2)}",
                "created": now,
                "sinks": _sinks(path, graph),
                "settings": settings,
            }
            files.write_json(head, known, durable=True)
        elif known["settings"] != settings:
            files.write_json(head, {**known, "settings": settings}, durable=True)
        for name in ("wirings", "control", "sources", "channels", "checkpoints", "dead"):
            (path / name).mkdir(exist_ok=True)
        return cls(path, lock, known)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def wiring(self) -> Wiring | None:
        """The wiring in force; None in a new directory."""
        files = sorted((self.path / "wirings").glob("[0-9]*.json"))
        return Wiring.from_json(json.loads(files[-1].read_text())) if files else None

    def commit(self, wiring: Wiring) -> None:
        """Put a wiring in force. A change has happened as soon as this one file exists."""
        file = self.path / "wirings" / f"{wiring.number:06d}.json"
        files.write_json(file, wiring.to_json(), durable=True)

    def close(self) -> None:
        self._lock.close()


def _only_begun(path: Path) -> bool:
    """True if a directory holds only what a process leaves that dies before run.json exists."""
    return all(file.name in ("lock", ".run.json.draft") for file in path.iterdir())


def _read(head: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(head.read_text())
        needed = ("version", "flow", "fingerprint", "engine", "run", "created")
        known = {key: data[key] for key in needed}
        return {**known, **{key: dict(data.get(key, {})) for key in ("sinks", "settings")}}
    except (OSError, ValueError, KeyError, TypeError):
        raise RunDirectoryError(f"{head} cannot be read; it is not a run directory") from None


def _take(lock: IO[str]) -> None:
    """Lock a directory. `is_held` takes the lock for an instant, so retry."""
    for patience in (0.05, 0.1, 0.2, None):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if patience is None:
                raise
            time.sleep(patience)


def is_held(path: Path) -> bool:
    """True if a process has the directory open; its lock is released when it dies."""
    try:
        with (path / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def settings(path: Path) -> Mapping[str, Any]:
    """The settings of the engine that ran there last; empty in older directories."""
    return dict(_read(path / "run.json")["settings"]) if (path / "run.json").exists() else {}


def check_version(path: Path) -> None:
    """Raise `RunDirectoryError` if a directory has another layout; without run.json it passes."""
    if (path / "run.json").exists():
        _check_version(path, _read(path / "run.json"))


def _check_version(path: Path, known: Mapping[str, Any]) -> None:
    if known["version"] != VERSION:
        raise RunDirectoryError(
            f"{path} was written in layout {known['version']}, this is layout {VERSION}; "
            "finish that run with its own version, or choose another directory"
        )


def _check(path: Path, known: Mapping[str, Any], graph: Graph, engine: str) -> None:
    _check_version(path, known)
    if known["flow"] != graph.name:
        raise RunDirectoryError(
            f"{path} belongs to dataflow '{known['flow']}', not '{graph.name}'; "
            "choose another directory with --run-dir"
        )
    if known["fingerprint"] != graph.fingerprint:
        raise RunDirectoryError(
            f"{path} belongs to another shape of dataflow '{graph.name}' (operators, keys or "
            "schemas differ); its state would not fit, choose another directory"
        )
    if known["engine"] != engine:
        raise RunDirectoryError(f"{path} was written by the {known['engine']} engine, not {engine}")


def _sinks(path: Path, graph: Graph) -> dict[str, str]:
    """The output paths of file sinks, relative if they are inside the run directory."""
    found = {}
    for operator in graph.sinks:
        sink = operator.body.sink if isinstance(operator.body, Write) else None
        if isinstance(sink, FileSink):
            place = Path(sink.path).absolute()
            inside = "://" not in sink.path and place.is_relative_to(path)
            found[operator.name] = str(place.relative_to(path) if inside else sink.path)
    return found


def _check_sinks(path: Path, known: Mapping[str, Any], graph: Graph) -> None:
    for name, place in _sinks(path, graph).items():
        before = known["sinks"].get(name, place)
        if Path(before).absolute() != Path(place).absolute():
            raise RunDirectoryError(
                f"sink '{name}' of the run in {path} writes to {before}, now it is to write to "
                f"{place}: its output would be in two places; choose another directory with "
                "--run-dir, or the output that it had"
            )
