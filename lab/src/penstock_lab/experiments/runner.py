"""Runs an experiment: its cases, then its table and picture."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pyspark import cloudpickle

from penstock import text
from penstock.errors import InvalidInput, Refused
from penstock_lab.experiments import times
from penstock_lab.experiments.experiment import Case, EngineName, Experiment, Record, Setting
from penstock_lab.experiments.store import Store
from penstock_lab.experiments.table import Row
from penstock_lab.experiments.verdict import ROUNDS


@dataclass(frozen=True)
class Order:
    """How to run experiments.

    out: each experiment gets a directory of its name in it; quick: a smaller size, on the simulator
    only; jobs: simulated cases at a time; rounds: how often all cases run on Spark. A simulated
    case is deterministic, so it runs once.
    """

    out: Path
    seed: int = 1
    quick: bool = False
    engine: EngineName = "simulator"
    pictures: bool = True
    jobs: int = 1
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InvalidInput(f"--seed {self.seed}: must not be negative")
        if self.quick and self.engine == "spark":
            raise InvalidInput("--quick is for the simulator; Spark has one size only")
        if self.rounds < 1:
            raise InvalidInput(f"--rounds {self.rounds}: must be at least 1")

    def command(self, name: str) -> str:
        """The command that repeats this run."""
        words = ["penstock", "experiment", name, "--seed", str(self.seed)]
        words += ["--quick"] if self.quick else []
        if self.engine == "spark":
            words += ["--engine", "spark", "--rounds", str(self.rounds)]
        return " ".join([*words, "--out", str(self.out)])


def carry_out(
    experiment: Experiment, order: Order, tell: Callable[[str, float], None] = lambda *_: None
) -> tuple[Row, ...]:
    """Run all cases, keep their records, make the table and the picture.

    tell: is called with the current case and the share of the experiment that is done. After a
    Ctrl-C, the directory `unfinished` has the finished cases and their table; an earlier complete
    result stays.
    """
    parameters = experiment.parameters(order.engine, order.quick)
    cases = experiment.made(order.engine, parameters)
    if not cases:
        raise Refused(f"{experiment.name} does not run on Spark: {experiment.no_spark}")
    store = Store(order.out / experiment.name)
    with store.held():
        _run(experiment, order, store, cases, parameters, tell)
        try:
            return store.make(experiment, order.pictures)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped; {store.home} has all cases, but not all pictures"
            ) from None


def _run(
    experiment: Experiment,
    order: Order,
    store: Store,
    cases: Sequence[Case],
    parameters: Mapping[str, Any],
    tell: Callable[[str, float], None],
) -> None:
    """Run all cases and keep their records."""
    engine, began = order.engine, time.monotonic()
    command, rounds = order.command(experiment.name), order.rounds if engine == "spark" else 1
    planned = rounds * len(cases)
    draft = store.begin(experiment, engine, order.seed, parameters, command, planned)
    try:
        if engine == "spark":
            _on_spark(experiment, order, draft, cases, tell)
        else:
            alone = order.jobs == 1 or len(cases) == 1
            carried = (
                _in_turn(cases, order.seed, tell)
                if alone
                else in_parallel(cases, order.seed, order.jobs, tell)
            )
            with contextlib.closing(carried):
                for case, records in carried:
                    draft.add(experiment, engine, case.name, records)
    except KeyboardInterrupt:
        draft.make(experiment, pictures=False)
        raise KeyboardInterrupt(f"stopped; the finished cases are in {draft.home}") from None
    store.end(experiment, engine, time.monotonic() - began)


def _on_spark(
    experiment: Experiment,
    order: Order,
    draft: Store,
    cases: Sequence[Case],
    tell: Callable[[str, float], None],
) -> None:
    """Run all cases round by round, after a warm-up run of the first case.

    A new JVM is slow, which would count against the first case. So the very first run is dropped,
    and each round begins with another case.
    """
    runs = [(None, cases[0]), *rotated(cases, order.rounds)]
    carried = _in_turn([case for _, case in runs], order.seed, tell)
    with contextlib.closing(carried):
        for (number, _), (case, records) in zip(runs, carried, strict=True):
            if number is not None:
                draft.add(experiment, "spark", case.name, records, number)


def rotated(cases: Sequence[Case], rounds: int) -> list[tuple[int, Case]]:
    """All cases for each round; each round begins with the next case."""
    found = []
    for number in range(rounds):
        first = number % len(cases)
        found += [(number, case) for case in (*cases[first:], *cases[:first])]
    return found


def _in_turn(
    cases: Sequence[Case], seed: int, tell: Callable[[str, float], None]
) -> Generator[tuple[Case, list[Record]]]:
    """Run cases one after the other in this process."""
    for number, case in enumerate(cases):

        def told(share: float, number: int = number, name: str = case.name) -> None:
            tell(name, (number + share) / len(cases))

        told(0.0)
        with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
            yield case, [*case.job(Setting(seed, Path(scratch), told))]


class Progress:
    """A line with the progress of all experiments and an estimate of the remaining time.

    weights: the experiments in their order, and the share of the work of each. The estimate starts
    after a quarter of the work, or after whole experiments with a twentieth of it, since the cases
    of one experiment may differ. A terminal shows one line that is overwritten; other outputs get
    a new line every `every` seconds.
    """

    def __init__(self, out: TextIO, weights: Mapping[str, float], every: float = 15.0) -> None:
        self._out, self._weights = out, dict(weights)
        self._live = out.isatty()
        self._every = 0.2 if self._live else every
        self._began = time.monotonic()
        self._written = -float("inf")

    def of(self, name: str) -> Callable[[str, float], None]:
        """The callback for the progress of one experiment."""
        names, total = list(self._weights), sum(self._weights.values())
        at = names.index(name)
        before = sum(self._weights[one] for one in names[:at]) / total

        def tell(case: str, share: float) -> None:
            now = time.monotonic()
            if now - self._written < self._every:
                return
            self._written = now
            done, left = before + share * self._weights[name] / total, ""
            if before >= 0.05 or done >= 0.25:
                rest = (now - self._began) * (1 - done) / done
                left = f", about {times.about(rest)} left"
            which = f"{at + 1}/{len(names)} " if len(names) > 1 else ""
            self._write(f"{which}{name}: {case}, {text.share(done)}{left}")

        return tell

    def say(self, line: str) -> None:
        """Print a line that is not overwritten."""
        self._write(line)
        if self._live:
            print(file=self._out, flush=True)

    def _write(self, line: str) -> None:
        if self._live:
            print(f"\r{text.cut(line, 78):<78}", end="", file=self._out, flush=True)
        else:
            print(line, file=self._out, flush=True)


_LOOK = 0.2
"""Seconds between two checks of the progress of the cases."""


def cores() -> int:
    """Number of processes that can run at a time on this machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(
    cases: Sequence[Case], seed: int, jobs: int, tell: Callable[[str, float], None]
) -> Generator[tuple[Case, list[Record]]]:
    """The cases in their order with their records; tell: as in `carry_out`.

    A case depends on its random seed alone, so the records are those of a sequential run.
    """
    spawn = multiprocessing.get_context("spawn")
    shares = spawn.Array("d", len(cases), lock=False)
    others = {*multiprocessing.active_children()}
    pool = ProcessPoolExecutor(jobs, spawn, initializer=_begin, initargs=(shares,))
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        try:
            futures = []
            for number, case in enumerate(cases):
                job = cloudpickle.dumps(case.job)  # type: ignore[no-untyped-call]
                futures.append(pool.submit(_carry_out, job, number, seed, scratch))
            for case, future in zip(cases, futures, strict=True):
                while not _done(future):
                    tell(case.name, sum(shares) / len(cases))
                yield case, future.result()
        finally:
            for process in {*multiprocessing.active_children()} - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)


def _done(future: Future[list[Record]]) -> bool:
    return future in wait([future], timeout=_LOOK).done


_shares: Sequence[float] = ()


def _begin(shares: Sequence[float]) -> None:
    """Initialise a worker: it ignores Ctrl-C and ends when its parent ends."""
    global _shares
    _shares = shares
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _carry_out(job: bytes, number: int, seed: int, scratch: str) -> list[Record]:
    def tell(share: float) -> None:
        _shares[number] = share  # type: ignore[index]

    home = Path(scratch) / str(number)
    home.mkdir()
    records = [*pickle.loads(job)(Setting(seed, home, tell))]
    tell(1.0)
    return records
