"""How another terminal talks to a running flow: small files in its run directory.

requests/lock            held by the process that answers, from its first turn until it drains
requests/ID.json         {"request": "count=4"}; taken in the order of the names
requests/ID.taken        the same while it is carried out
requests/ID.answer.json  {"done": true, "message": "...", "transition": {...}}
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from penstock.clock import Clock
from penstock.control.loop import Tick
from penstock.control.requests import Asked
from penstock.errors import InvalidInput, PenstockError, Refused, RunDirectoryError
from penstock.plan.request import parse
from penstock.store.run_directory import local

_POLL = 0.05
_ANSWER = ".answer.json"


@dataclass(frozen=True)
class Answer:
    """What became of a request. `transition` is None if there was nothing to change."""

    done: bool
    message: str
    transition: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"done": self.done, "message": self.message, "transition": self.transition}

    @classmethod
    def of(cls, tick: Tick) -> Answer:
        """The answer to what was asked in a turn of the loop."""
        if tick.refused is not None:
            return cls(False, tick.refused)
        mode = None if tick.asked is None else tick.asked.mode
        if tick.transition is None and mode is not None:
            return cls(True, f"the policy of this run is now: {mode.value}")
        if tick.transition is None:
            return cls(True, "nothing to change: it is so already")
        done = tick.transition
        cost = f"{done.duration:.2f} s, interrupted {1000 * done.interruption:.0f} ms"
        return cls(True, f"{'; '.join(done.changes)} ({cost})", done.to_json())


class Mailbox:
    """The side that answers. One request a turn; the others wait for theirs.

    Whoever comes while a change is under way is refused. That is told without clocks: those who
    were there when the turn began keep their place, those found when its change is over came
    in between.
    """

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / "requests"
        self._current: str | None = None
        self._there: frozenset[str] = frozenset()
        try:
            self._folder.mkdir(exist_ok=True)
            for file in (*self._folder.glob(f"*{_ANSWER}"), *self._folder.glob("*.taken")):
                file.unlink(missing_ok=True)
            self.refuse("it was asked before this run began; ask again")
            self._lock = _locked(self._folder / "lock")  # last: from now on there is an answer
        except OSError as error:
            raise RunDirectoryError(f"cannot write to {self._folder}: {error.strerror}") from None

    def waiting(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting())

    def take(self) -> Asked | None:
        """The oldest request that can be read; `settle` answers it."""
        self._there = frozenset(self._waiting())
        for name in sorted(self._there):
            try:
                request = parse(self._opened(name))
            except OSError:
                continue  # withdrawn meanwhile
            except InvalidInput as error:
                self._answer(name, Answer(False, str(error)))
            else:
                self._current = name
                return Asked("asked", request)
        return None

    def settle(self, tick: Tick) -> None:
        """Answer what was taken in a turn, and refuse what came while its change was under way."""
        if tick.transition is not None or tick.refused is not None:
            why = "another change was under way; nothing was changed, ask again"
            self.refuse(why, but=self._there)
        if self._current is not None:  # last: who has the answer may ask for more at once
            self._answer(self._current, Answer.of(tick))
            self._current = None

    def refuse(self, why: str, but: frozenset[str] = frozenset()) -> None:
        """Send everybody away."""
        for name in sorted(self._waiting() - but):
            self._answer(name, Answer(False, why))

    def close(self) -> None:
        """Nobody answers any more; harmless when done twice."""
        if self._current is not None:
            ended = "the flow ended before it was done; the change may or may not be in force"
            self._answer(self._current, Answer(False, ended))
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

    def _opened(self, name: str) -> str:
        """Take a request, so that it cannot be withdrawn any more, and read it."""
        taken = (self._folder / f"{name}.json").replace(self._folder / f"{name}.taken")
        try:
            return str(json.loads(taken.read_text())["request"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidInput('a request is written as {"request": "count=4"}') from None

    def _answer(self, name: str, answer: Answer) -> None:
        with suppress(OSError):  # who cannot be told must not stop the flow
            _write(self._folder / f"{name}{_ANSWER}", answer.to_json())
            for suffix in (".json", ".taken"):
                (self._folder / f"{name}{suffix}").unlink(missing_ok=True)


def ask(
    run_dir: str | Path, request: str, timeout: float = 60.0, clock: Clock | None = None
) -> Answer:
    """Ask the flow that runs in a directory to change, and wait for its answer.

    Raises `InvalidInput` for what cannot be read, `Refused` if it is not done (then nothing has
    changed), and `PenstockError` if that cannot be known.
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
    question, answer = folder / f"{name}.json", folder / f"{name}{_ANSWER}"
    try:
        _write(question, {"request": request})
    except OSError as error:
        raise RunDirectoryError(f"cannot write to {folder}: {error.strerror}") from None
    until = clock.now() + timeout
    try:
        while True:
            alive = is_running(home)  # asked first: the last answer is written before the end
            if (found := _read(answer)) is not None:
                break
            if not alive:
                raise _gone(question, f"{nobody} any more")
            if clock.now() >= until:
                raise _gone(question, f"no answer from {run_dir} within {timeout:g} s")
            clock.sleep(_POLL)
    finally:
        question.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
    if not found.done:
        raise Refused(found.message)
    return found


def _gone(question: Path, what: str) -> PenstockError:
    """Withdraw a request; the error says whether it was taken before."""
    try:
        question.unlink()
    except FileNotFoundError:
        return PenstockError(
            f"{what}; the change had begun, `penstock history {question.parent.parent}` "
            "will tell if it was made"
        )
    return Refused(f"{what}; nothing was changed")


def _read(path: Path) -> Answer | None:
    try:
        return Answer(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """Written beside and moved into place, so that a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps(value))
    draft.replace(path)


def is_running(run_dir: Path) -> bool:
    """Whether a flow runs here that takes requests: the system lets its lock go when it dies."""
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


def _locked(path: Path) -> IO[str]:
    """The lock of the side that answers. One that looks whether it is held has it for a moment."""
    lock = path.open("a")
    for _ in range(20):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_POLL)
        else:
            return lock
    lock.close()
    raise RunDirectoryError(f"another process answers requests in {path.parent.parent}")
