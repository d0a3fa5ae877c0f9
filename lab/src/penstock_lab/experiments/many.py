"""Runs simulated cases in parallel, each in its own process, one per core."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path

from pyspark import cloudpickle

from penstock_lab.experiments.experiment import Case, Record, Setting

_LOOK = 0.2
"""Seconds between two checks of the progress of the cases."""


def cores() -> int:
    """Number of processes that can run at a time on this machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def carried_out(
    cases: Sequence[Case], seed: int, jobs: int, tell: Callable[[str, float], None]
) -> Generator[tuple[Case, list[Record]]]:
    """The cases in their order with their records; tell: as in `runner.carry_out`.

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
