"""The worked example of a policy in another package, found as if it were installed."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from penstock import policies
from penstock.app import run
from penstock.policies.base import registry
from penstock.testing import MemoryEngine, fake_clock
from tests.control.doubles import flow

HOME = Path(__file__).parents[3] / "examples" / "policy"


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"][policies.GROUP]
    found = [EntryPoint(name, path, policies.GROUP) for name, path in declared.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)
    monkeypatch.syspath_prepend(HOME)
    monkeypatch.chdir(tmp_path)


def test_it_is_listed_and_described() -> None:
    assert "backlog" in policies.names()
    found = policies.describe("backlog")
    assert found.summary == "One more instance for the pipeline before which rows wait longest."
    assert found.source == "examples/policy of Penstock"
    assert [(o.name, o.kind, o.default) for o in found.options] == [("above", "number", "2")]


def test_it_brings_a_flow_to_its_load() -> None:
    engine = MemoryEngine({"double": 0.004}, rate=600.0)
    clock = fake_clock(engine)
    summary = run(flow(), policy="backlog:above=1s", engine=engine, seconds=120, clock=clock)
    assert summary.policy == "backlog"
    assert summary.plan.slots == 3  # 600 rows/s at 4 ms each, and what waited is worked off
    assert summary.transitions[0].reason.startswith("rows wait ")
    assert summary.transitions[0].reason.endswith(" s > 1 s before numbers; one more instance")


def test_its_wheel_holds_its_module() -> None:
    project = tomllib.loads((HOME / "pyproject.toml").read_text())
    kept = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert [(HOME / name).is_file() for name in kept] == [True]
