"""What commands that run something on Spark have in common."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.cli.flows import Reference
    from penstock.dataflow.flow import Dataflow


def settings(given: Sequence[str]) -> dict[str, str]:
    """Settings of Spark, by name."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise InvalidInput(f"cannot read the setting '{name}': write --conf name=value")
    return {name: value for name, _, value in pairs}


def loaded(reference: Reference, master: str | None, conf: Mapping[str, str], out: Any) -> Dataflow:
    """The dataflow. A file may start the session itself, and then that is the session.

    A file that makes Spark columns without one is loaded again when there is one.
    """
    if reference.file is None:
        return reference.load(out)
    from penstock.engines.spark.session.flow_session import offered, session

    try:
        with offered(master, conf):
            return reference.load(out)
    except InvalidInput as error:
        if not _wants_session(error.__cause__):
            raise
    session(master, conf)
    return reference.load(out)


def _wants_session(error: BaseException | None) -> bool:
    """True if pyspark raised the error, in a process that has no session."""
    import pyspark

    from penstock.engines.spark.session.flow_session import running

    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    package = Path(pyspark.__file__).parent
    inside = [Path(frame.filename).is_relative_to(package) for frame in frames]
    return inside[-1:] == [True] and running() is None


def loaded_lightly(reference: Reference, out: Any = "out") -> Dataflow:
    """The dataflow. Only a file that makes Spark columns needs a session of Spark's for that."""
    try:
        return reference.load(out)
    except InvalidInput as error:
        if reference.file is None or not _wants_session(error.__cause__):
            raise
    from penstock.engines.spark.session.flow_session import session

    session(None, {})
    return reference.load(out)


@contextmanager
def session(master: str | None) -> Iterator[None]:
    """Tell a cluster when we are done with it; a session of this machine ends with the process."""
    try:
        yield
    finally:
        if master is not None and not master.startswith("local["):
            from penstock.engines.spark.session.flow_session import end

            end()


@contextmanager
def home(reference: Reference, run_dir: str | Path | None) -> Iterator[str | Path | None]:
    """The run directory. A workload writes into it, so it is chosen before the flow is built."""
    from penstock.store import run_directory
    from penstock.store.run_directory import local

    if reference.file is not None or run_dir is not None:
        yield None if run_dir is None else local(run_dir)
        return
    chosen = run_directory.choose(reference.name, None, time.time())
    try:
        yield chosen
    finally:
        with suppress(OSError):
            chosen.rmdir()  # it never started: leave no empty directory behind
