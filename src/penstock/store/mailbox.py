"""Requests to a running flow from other processes: small files in its run directory.

requests/lock            held by the process that replys, from its first turn until it drains
requests/ID.json         {"request": "count=4"}; taken in the order of the names
requests/ID.taken        the same while it is carried out
requests/ID.answer.json  {"done": true, "message": "...", "transition": {...}}
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from penstock import files
from penstock.clock import Clock
from penstock.errors import InvalidInput, PenstockError, Refused, RunDirectoryError
from penstock.plan.request import parse
from penstock.store.run_directory import local
from penstock.store.turn import Tick, UserRequest

log = logging.getLogger(__name__)

_POLL = 0.05
_ANSWER = ".answer.json"


@dataclass(frozen=True)
class Reply:
    """The outcome of a request. `transition` is None if there was nothing to change."""

    done: bool
    message: str
    transition: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"done": self.done, "message": self.message, "transition": self.transition}

    @classmethod
    def of(cls, tick: Tick) -> Reply:
        """The reply to the request that was carried out in a turn of the loop."""
        if tick.refused is not None:
            return cls(False, tick.refused)
        mode = None if tick.request is None else tick.request.mode
        if tick.transition is None and mode is not None:
            return cls(True, f"the policy of this run is now: {mode.value}")
        if tick.transition is None:
            return cls(True, "nothing to change: it is so already")
        made = tick.transition
        cost = f"{made.duration:.2f} s, interrupted {1000 * made.interruption:.0f} ms"
        return cls(True, f"{'; '.join(made.changes)} ({cost})", made.to_json())


class Mailbox:
    """The replying side. It takes one request a turn; the others wait.

    A request that arrives while a change is under way is refused. No clocks are compared for
    that: requests present when the turn began stay, those found only after its change are new.
    """

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / "requests"
        self._current: str | None = None
        self._present: frozenset[str] = frozenset()
        try:
            self._folder.mkdir(exist_ok=True)
            for file in (*self._folder.glob(f"*{_ANSWER}"), *self._folder.glob("*.taken")):
                file.unlink(missing_ok=True)
            self.refuse("it was asked before this run began; ask again")
            self._lock = _lock(self._folder / "lock")  # last: from now on requests are replyed
        except OSError as error:
            raise RunDirectoryError(f"cannot write to {self._folder}: {error.strerror}") from None

    def waiting(self) -> bool:
        """True if there is a request."""
        return bool(self._waiting())

    def take(self) -> UserRequest | None:
        """The oldest valid request, or None; `settle` replys it."""
        self._present = self._waiting()
        for name in sorted(self._present):
            try:
                request = parse(self._take_text(name))
            except OSError:
                continue  # withdrawn in the meantime
            except InvalidInput as error:
                self._reply(name, Reply(False, str(error)))
            else:
                self._current = name
                return UserRequest("asked", request)
        return None

    def settle(self, tick: Tick) -> None:
        """Answer the request of a turn, and refuse those that came during its change."""
        if tick.transition is not None or tick.refused is not None:
            why = "another change was under way; nothing was changed, ask again"
            self.refuse(why, but=self._present)
        if self._current is not None:  # last: its sender may make the next request at once
            self._reply(self._current, Reply.of(tick))
            self._current = None

    def refuse(self, why: str, but: frozenset[str] = frozenset()) -> None:
        """Refuse all requests but some."""
        for name in sorted(self._waiting() - but):
            self._reply(name, Reply(False, why))

    def close(self) -> None:
        """Refuse what is left and stop replying; harmless when called twice."""
        if self._current is not None:
            ended = "the flow ended before it was done; the change may or may not be in force"
            self._reply(self._current, Reply(False, ended))
            self._current = None
        self.refuse("the flow has ended")
        self._lock.close()

    def _waiting(self) -> frozenset[str]:
        try:
            names = [file.name for file in self._folder.iterdir()]
        except OSError:  # somebody removed the directory; the flow itself will notice
            return frozenset()
        return frozenset(
            name.removesuffix(".json")
            for name in names
            if name.endswith(".json") and not name.endswith(_ANSWER)
        )

    def _take_text(self, name: str) -> str:
        """Read a request, after taking it so that it cannot be withdrawn any more."""
        taken = (self._folder / f"{name}.json").replace(self._folder / f"{name}.taken")
        try:
            return str(json.loads(taken.read_text())["request"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidInput('a request is written as {"request": "count=4"}') from None

    def _reply(self, name: str, reply: Reply) -> None:
        log.info("request %s: %s", name, reply.message)
        with suppress(OSError):  # a reply that cannot be delivered must not stop the flow
            files.write_json(self._folder / f"{name}{_ANSWER}", reply.to_json())
            for suffix in (".json", ".taken"):
                (self._folder / f"{name}{suffix}").unlink(missing_ok=True)


def ask(
    run_dir: str | Path, request: str, timeout: float = 60.0, clock: Clock | None = None
) -> Reply:
    """Send a request to the flow that runs in a directory, and wait for its reply.

    Raises `InvalidInput` if it cannot be parsed, `Refused` if it is not carried out (then nothing
    has changed), and `PenstockError` if the outcome is unknown.
    """
    parse(request)
    clock = clock or Clock()
    home = local(run_dir)
    folder = home / "requests"
    if not home.is_dir():
        raise Refused(f"there is no run directory '{run_dir}'")
    nobody = f"nothing is running in {run_dir}"
    if not is_running(home):
        raise Refused(f"{nobody} (a flow can be asked from its first turn until it drains)")
    name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(2)}"
    question, reply = folder / f"{name}.json", folder / f"{name}{_ANSWER}"
    try:
        files.write_json(question, {"request": request})
    except OSError as error:
        raise RunDirectoryError(f"cannot write to {folder}: {error.strerror}") from None
    deadline = clock.now() + timeout
    try:
        while True:
            alive = is_running(home)  # before reading: the last reply is written before the end
            if (found := _read(reply)) is not None:
                break
            if not alive:
                raise _gone(question, f"{nobody} any more")
            if clock.now() >= deadline:
                raise _gone(question, f"no reply from {run_dir} within {timeout:g} s")
            clock.sleep(_POLL)
    finally:
        question.unlink(missing_ok=True)
        reply.unlink(missing_ok=True)
    if not found.done:
        raise Refused(found.message)
    return found


def _gone(question: Path, what: str) -> PenstockError:
    """Withdraw a request; the error says whether it had been taken."""
    try:
        question.unlink()
    except FileNotFoundError:
        return PenstockError(
            f"{what}; the change had begun, `penstock history {question.parent.parent}` "
            "will tell if it was made"
        )
    return Refused(f"{what}; nothing was changed")


def _read(path: Path) -> Reply | None:
    try:
        return Reply(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def is_running(run_dir: Path) -> bool:
    """True if a flow runs here that takes requests; its lock is released when it dies."""
    try:
        with (run_dir / "requests" / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise RunDirectoryError(f"cannot read {run_dir}: {error.strerror}") from None
    return False


def _lock(path: Path) -> IO[str]:
    """Take the lock of the replying side. `is_running` takes it for an instant, so retry."""
    lock = path.open("a")
    for _ in range(20):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_POLL)
        else:
            return lock
    lock.close()
    raise RunDirectoryError(f"another process replys requests in {path.parent.parent}")
