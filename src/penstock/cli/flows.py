"""From what the user wrote as FLOW to a dataflow."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
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
        """Build the dataflow. A file may make Spark columns, so it needs a session by now.

        `out` is the directory for a workload's output; a file says itself where its output
        goes. Whatever goes wrong in the user's file is an `InvalidInput` with file and line.
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
    """Do it; what the user's code raises becomes one line with the place in their file."""
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
