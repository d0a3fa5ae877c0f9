"""The README and the documentation say what the command really understands and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock import policies
from penstock.cli.main import commands
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.load_profile import parse
from penstock.metrics.catalog import CATALOG
from penstock.plan import fusion
from penstock.store.timeline import HEAD
from penstock.views.prometheus import family

from ..docs.blocks import blocks
from ..views import statuses

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
COMMANDS, DATAFLOWS, LOOKING, OPERATIONS, CHANGING = (
    (DOCS / f"{page}.md").read_text()
    for page in ("commands", "dataflows", "looking", "operations", "changing")
)


def test_every_option_of_run_is_explained() -> None:
    options = {o for p in dict(commands())["run"].params for o in p.opts if o.startswith("-")}
    assert {o for o in options if o not in ("-h", "--help") and f"`{o}" not in COMMANDS} == set()


def test_every_policy_is_in_it() -> None:
    ours = [name for name in policies.names() if f"`{name}`" not in README]
    assert ours == []
    pages = "".join(page.read_text() for page in (DOCS / "policies").glob("*.md"))
    described = re.findall(r"^<!-- generated: parameters (\S+) -->$", pages, re.MULTILINE)
    assert sorted(described) == sorted(policies.names())


def test_every_command_is_explained() -> None:
    assert {c for c, _ in commands() if f"| `penstock {c}" not in COMMANDS} == set()


def test_every_name_of_the_json_is_explained() -> None:
    data = statuses.summary().to_json()
    names = {*data, *data["throughput"], *data["latency"]["parse->count"]}
    assert {n for n in names if f"`{n}`" not in LOOKING} == set()


def test_every_load_in_it_can_be_read() -> None:
    row = next(line for line in COMMANDS.splitlines() if line.startswith("| `--load"))
    table = DATAFLOWS.split("| load | meaning |\n|---|---|\n")[1].split("\n\n")[0]
    shown = [line.split("`")[1] for line in table.splitlines()]
    loads = [*re.findall(r"`([^`]+)`", row)[1:], *shown, "300/m", "5k/s"]
    assert len(loads) == 17
    for load in loads:
        if not load.startswith("trace:"):
            parse(load)


def test_every_source_and_sink_is_in_it() -> None:
    sources = ("Generator", "Files", "Kafka", "Spark")
    sinks = ("Parquet", "Json", "Csv", "ForeachBatch", "Kafka", "Spark", "Memory", "Console")
    assert {n for n in (*sources, *sinks, "Discard") if f"`{n}(" not in DATAFLOWS} == set()


def test_the_head_of_the_history_is_the_one_in_it() -> None:
    assert f"\n{HEAD}\n" in LOOKING


def test_every_metric_in_it_is_served() -> None:
    served = {found[0].name for one in CATALOG if (found := family(one)) is not None}
    shown = set(re.findall(r"^(penstock_[a-z_]+)\{", OPERATIONS, re.MULTILINE))
    assert len(shown) == 3
    assert shown <= served


def test_every_rule_of_the_guard_is_explained() -> None:
    code = (ROOT / "src/penstock/control/guard.py").read_text()
    rules = {*re.findall(r'Veto\("([a-z-]+)"|^ {12}"([a-z-]+)": ', code, re.MULTILINE)}
    rules = {"".join(found) for found in rules}
    assert len(rules) == 8
    assert {rule for rule in rules if f"| `{rule}` |" not in CHANGING} == set()


def test_the_first_flow_is_short_and_goes_through_one_pipeline() -> None:
    code = next(b.text for b in blocks(ROOT / "README.md") if b.language == "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)
    flow = names["flow"]
    assert isinstance(flow, Dataflow)
    flow.validate()
    (pipeline,) = fusion.default_plan(flow.graph, 1).pipelines
    assert pipeline.operators == ("lines", "parse", "split", "long", "count", "counts")


def test_every_target_of_make_in_it_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", README, re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/decisions/README.md"])
def test_every_link_in_it_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / page).read_text())
    assert links
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    assert [f.name for f in folder.glob("[0-9]*.md") if f"({f.name})" not in index] == []
