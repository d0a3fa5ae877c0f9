"""The public surface: a change here is a change for users and needs a line in the changelog."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import testing
from penstock.testing import contract

PAGE = (Path(__file__).parent.parent / "docs" / "stability.md").read_text()

NAMES = """
    Change ChannelMetrics Console Context Csv Dataflow Decision Discard Engine Estimate
    ExecutorMetrics Files FlowFailed ForeachBatch Generator Graph Guard InstanceMetrics
    InvalidDataflow InvalidInput InvalidPlan Json Kafka KeyedStream LatencyMetrics Limits Memory
    OperatorMetrics Parquet PenstockError Pipeline PipelineMetrics Plan Policy Profiled Quiet
    Refused RunDirectoryError SimulatorEngine Snapshot Spark SparkEngine Stream Summary Transition
    __version__ ask each profile run
"""

PARAMETERS = {
    "run": "flow policy plan master conf engine load seconds changes backup limits guard advise "
    "run_dir view metrics dashboard verify drain dead_letters_at_most until clock",
    "profile": "flow policy load executors limits master conf engine seconds run_dir view clock",
    "ask": "run_dir request timeout clock",
    "Generator": "make schema load seed limit block",
    "Files": "path schema format options",
    "Kafka": "options more",
    "Spark": "format options schema more",
    "Parquet": "path options",
    "Pipeline": "operators parallelism admission cadence ceiling",
    "Plan": "pipelines executors leaving",
    "Limits": "slots executors executor_slots",
    "Guard": "cooldown settle undo horizon quiet",
    "Decision": "plan reason numbers",
    "Change": "before after",
    "Context": "graph plan snapshots now limits",
    "Dataflow.source": "self name source properties",
    "Dataflow.constrain": "self first last latency window",
    "Dataflow.run": "self options",
    "Stream.map": "self name function schema properties",
    "Stream.frame": "self name function reject properties",
    "Stream.arrow": "self name function schema properties",
    "Stream.key_by": "self columns",
    "Stream.sink": "self name sink properties",
    "KeyedStream.window": "self size on slide watermark",
    "KeyedStream.aggregate": "self name columns emit schema named",
    "KeyedStream.process": "self name processor schema time_mode properties",
    "KeyedStream.join": "self name other how condition left_watermark right_watermark properties",
    "Policy.decide": "self context memory",
    "Engine.start": "self graph plan run_dir",
    "Engine.apply": "self plan reason",
    "Engine.observe": "self",
    "Engine.stop": "self drain",
}


def test_the_public_names_are_exactly_these() -> None:
    assert penstock.__all__ == NAMES.split()
    assert testing.__all__ == ["MemoryEngine", "fake_clock"]


@pytest.mark.parametrize("name", penstock.__all__)
def test_a_public_name_is_there_and_explained(name: str) -> None:
    found = getattr(penstock, name)
    assert name in dir(penstock)
    assert isinstance(found, str) or inspect.getdoc(found)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_parameters_are_exactly_these(name: str) -> None:
    found: Any = penstock
    for part in name.split("."):
        found = getattr(found, part)
    assert " ".join(inspect.signature(found).parameters) == PARAMETERS[name]


def test_what_type_checkers_see_is_what_there_is() -> None:
    """The lists in `penstock/__init__.py` agree, and every class knows its public place."""
    source = inspect.getsource(penstock)
    block = source[source.index("if TYPE_CHECKING:") : source.index("__version__ =")]
    declared = set()
    for module, many, one in re.findall(r"from penstock\.(\S+) import (?:\(([^)]*)\)|(.+))", block):
        names = {name.strip() for name in (many or one).split(",")} - {""}
        assert {n for n in names if penstock._MODULE_OF[n] != module} == set()
        declared |= names
    assert declared == set(penstock._MODULE_OF) == set(penstock.__all__) - {"__version__"}


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'Flow'"):
        _ = penstock.Flow


def test_the_version_is_that_of_the_distribution() -> None:
    assert penstock.__version__ == version("penstock")


def test_the_contract_of_engines_can_be_subclassed() -> None:
    assert inspect.isabstract(contract.Harness)
    assert len([n for n in vars(contract.EngineContract) if n.startswith("test_")]) >= 17


def test_the_provisional_modules_exist() -> None:
    from importlib.util import find_spec

    rows = [row for row in PAGE.splitlines() if row.startswith("| `penstock.")]
    for row in rows:
        first, *others = re.findall(r"`([a-z_.]+)`", row.split("|")[1])
        package = first.rpartition(".")[0]
        for name in (first, *(package + o if o.startswith(".") else o for o in others)):
            assert find_spec(name) is not None, name
    assert len(rows) >= 4
