"""From what a user writes as FLOW to a dataflow, its session and its run directory."""

from __future__ import annotations

import importlib.util
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock import workloads
from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Reference:
    """A built-in workload (no file), or a name in a file."""

    name: str
    file: Path | None = None

    @classmethod
    def read(cls, written: str) -> Reference:
        """`wordcount`, `path/to/file.py`, or `path/to/file.py:name`; the default name is flow.

        Raises `InvalidInput` for a workload or a file that is not there.
        """
        path, colon, name = written.rpartition(":")
        if not colon:
            path, name = written, "flow"
        if not colon and not written.endswith(".py") and "/" not in written:
            return cls._workload(written)
        file = Path(path).expanduser()
        if not file.exists():
            raise InvalidInput(f"there is no file '{path}' (from '{written}')")
        if file.suffix != ".py" or not file.is_file():
            raise InvalidInput(f"'{path}' is not a Python file; write path/to/file.py:name")
        return cls(name or "flow", file)

    @classmethod
    def _workload(cls, name: str) -> Reference:
        try:
            return cls(workloads.describe(name).name)
        except InvalidInput as error:
            raise InvalidInput(
                f"{error}; a flow of your own is written path/to/file.py:name"
            ) from None

    def load(self, out: str | Path) -> Dataflow:
        """Build the dataflow. A file that uses Spark columns needs a session.

        out: directory for the output of a workload; a file says itself where its output goes.
        Raises `InvalidInput` with file and line for an error in the user's file.
        """
        if self.file is None:
            return workloads.build(self.name, out=out)
        return self._from(self.file)

    def _from(self, file: Path) -> Dataflow:
        module: ModuleType = _guarded(file, lambda: _imported(file))
        found = getattr(module, self.name, None)
        if callable(found) and not isinstance(found, Dataflow):
            returned = _guarded(file, found)
            if not isinstance(returned, Dataflow):
                raise InvalidInput(
                    f"'{self.name}' in {file} returned {type(returned).__name__}, not a Dataflow"
                )
            return returned
        if isinstance(found, Dataflow):
            return found
        flows = sorted(k for k, v in vars(module).items() if isinstance(v, Dataflow))
        what = f"nothing named '{self.name}'" if found is None else f"no Dataflow '{self.name}'"
        there = f"its dataflows are: {', '.join(flows)}" if flows else "it defines no Dataflow"
        raise InvalidInput(f"there is {what} in {file}; {there}")


def _imported(file: Path) -> ModuleType:
    name = file.stem if file.stem.isidentifier() else "penstock_flow"
    if name in sys.modules:  # a flow in json.py must not take the place of Python's own
        name = f"penstock_flow_{name}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert spec is not None and spec.loader is not None  # any .py file has both  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    home = str(file.resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)
    before = set(sys.modules)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _ship_by_value(module, home, before)
    return module


def _ship_by_value(module: ModuleType, home: str, before: set[str]) -> None:
    """Send the user's functions to the workers as code: the file may exist only here.

    The same goes for modules beside the file that it imports.
    """
    from pyspark import cloudpickle

    for name in {module.__name__, *(set(sys.modules) - before)}:
        file = getattr(sys.modules[name], "__file__", None)
        beside = file is not None and str(Path(file).resolve().parent).startswith(home)
        if beside and "site-packages" not in str(file):
            cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def _guarded(file: Path, work: Callable[[], Any]) -> Any:
    """Call `work`. Raises `InvalidInput` in one line, with file and line, if user code fails."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        raise InvalidInput(_explained(file, error)) from error


def _explained(file: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename or file}:{error.lineno}: SyntaxError: {error.msg}"
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.filename in (str(file), str(file.resolve()))]
    return f"{file}:{inside[-1].lineno}: {what}" if inside else f"{file}: {what}"


# --- starting -----------------------------------------------------------------------------------


def loaded(reference: Reference, master: str | None, conf: Mapping[str, str], out: Any) -> Dataflow:
    """Build a dataflow for a run on Spark. A file may start the session itself.

    A file that uses Spark columns without a session is loaded again after one is started.
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
    """True if pyspark raised this error and the process has no session."""
    import pyspark

    from penstock.engines.spark.session.flow_session import running

    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    package = Path(pyspark.__file__).parent
    inside = [Path(frame.filename).is_relative_to(package) for frame in frames]
    return inside[-1:] == [True] and running() is None


def loaded_lightly(reference: Reference, out: Any = "out") -> Dataflow:
    """Build a dataflow, with a session of Spark only if the file uses Spark columns."""
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
    """Disconnect from a cluster at the end; a local session ends with the process."""
    try:
        yield
    finally:
        if master is not None and not master.startswith("local["):
            from penstock.engines.spark.session.flow_session import end

            end()


@contextmanager
def run_directory(reference: Reference, run_dir: str | Path | None) -> Iterator[str | Path | None]:
    """The run directory, chosen before the flow is built, since a workload writes into it."""
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
