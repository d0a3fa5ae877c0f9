"""The README says what the command really understands and prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from penstock import policies
from penstock.cli.main import parser
from penstock.dataflow.flow import Dataflow
from penstock.metrics.vocabulary import VOCABULARY
from penstock.models.load import parse
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock.report.chronicle import HEAD
from penstock.report.prometheus import family

from ..report import statuses

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = sorted(
    {
        *re.findall(r"`(penstock [a-z]+[^`]*)`", README),
        *re.findall(r"^    (penstock [^#\n]*)", README, re.MULTILINE),
    }
)


def subcommands() -> dict[str, Any]:
    found: dict[str, Any] = parser()._subparsers._group_actions[0].choices  # type: ignore
    return found


def test_every_option_of_run_is_explained() -> None:
    options = {o for a in subcommands()["run"]._actions for o in a.option_strings}
    assert {o for o in options if o not in ("-h", "--help") and f"`{o}" not in README} == set()


def test_every_policy_is_in_it() -> None:
    part = README.split("## Choosing a policy")[1].split("\n## ")[0]
    assert {name for name in policies.names() if f"`{name}`" not in part} == set()


def test_every_command_is_explained() -> None:
    assert {c for c in subcommands() if f"| `penstock {c}" not in README} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_line_in_it_is_understood(command: str) -> None:
    parser().parse_args(shlex.split(command)[1:])


def test_every_name_of_the_json_is_explained() -> None:
    data = statuses.summary().to_json()
    names = {*data, *data["throughput"], *data["latency"]["parse->count"]}
    assert {n for n in names if f"`{n}`" not in README} == set()


def test_every_load_in_it_can_be_read() -> None:
    row = next(line for line in README.splitlines() if line.startswith("| `--load"))
    table = README.split("| load | meaning |\n|---|---|\n")[1].split("\n\n")[0]
    shown = [line.split("`")[1] for line in table.splitlines()]
    loads = [*re.findall(r"`([^`]+)`", row)[1:], *shown, "300/m", "5k/s"]
    assert len(loads) == 17
    for load in loads:
        if not load.startswith("trace:"):
            parse(load)


def test_every_source_and_sink_is_in_it() -> None:
    sources = ("Generator", "Files", "Kafka", "Spark")
    sinks = ("Parquet", "Json", "Csv", "ForeachBatch", "Kafka", "Spark", "Memory", "Console")
    assert {n for n in (*sources, *sinks, "Discard") if f"`{n}(" not in README} == set()


def test_the_head_of_the_history_is_the_one_in_it() -> None:
    assert f"    {HEAD}\n" in README


def test_every_metric_in_it_is_served() -> None:
    served = {found[0].name for one in VOCABULARY if (found := family(one)) is not None}
    shown = set(re.findall(r"^    (penstock_[a-z_]+)\{", README, re.MULTILINE))
    assert len(shown) == 3
    assert shown <= served


@pytest.mark.parametrize("code", BLOCKS)
def test_what_is_written_in_it_can_be_built(code: str) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)
    flow = names["flow"]
    assert isinstance(flow, Dataflow)
    flow.validate()
    for plan in (value for value in names.values() if isinstance(value, Plan)):
        fusion.check(plan, flow.graph)
    assert len(code.strip().splitlines()) <= 40


def test_the_words_of_the_first_flow_go_through_one_pipeline() -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(BLOCKS[0], "README.md", "exec"), names)
    (pipeline,) = fusion.default_plan(names["flow"].graph, 1).pipelines
    assert pipeline.operators == ("lines", "parse", "split", "long", "count", "counts")


def test_every_target_of_make_in_it_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^    )make ([a-z-]+)", README, re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/decisions/README.md"])
def test_every_link_in_it_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / page).read_text())
    assert links
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    assert [f.name for f in folder.glob("[0-9]*.md") if f"({f.name})" not in index] == []


@pytest.mark.parametrize("folder", ["engines/spark", "engines/simulator", "models", "policies"])
def test_every_module_of_a_large_folder_is_in_the_architecture(folder: str) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    modules = (ROOT / "src" / "penstock" / folder).glob("[a-z]*.py")
    assert [m.stem for m in modules if f"`{m.stem}`" not in page] == []
