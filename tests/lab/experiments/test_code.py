"""What makes a stored result stale, and what does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock_lab import experiments
from penstock_lab.experiments import code, provenance
from penstock_lab.experiments.code import Reach, Source

FIRST = """
from penstock.other import helper, LIMIT
from penstock import tools

def cases(step: float) -> list:
    "Makes the cases."
    return [helper(step), tools.make(FACTOR)]

FACTOR = 2  # what it is

def picture(data):
    return "drawn"
"""
OTHER = """
LIMIT = 3

def helper(step):
    from penstock.late import inner
    return inner(step)
"""
FILES = {
    "penstock.first": FIRST,
    "penstock.other": OTHER,
    "penstock.tools": "def make(n):\n    return n + 1\n",
    "penstock.late": """
def inner(n):
    if n is None:
        raise ValueError("no number")
    return n
""",
}


@pytest.fixture
def digest(monkeypatch: pytest.MonkeyPatch) -> object:
    def of(files: dict[str, str], module: str = "penstock.first") -> str:
        def read(name: str) -> Source:
            return code.parsed(name, files.get(name, ""))

        monkeypatch.setattr(code, "read", read)
        code.defined.cache_clear()
        reach = Reach()
        reach.add((module, "cases"))
        code.defined.cache_clear()
        return reach.digest()

    return of


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("penstock.first", "FACTOR = 2", "FACTOR = 3"),
        ("penstock.first", "helper(step)", "helper(2 * step)"),
        ("penstock.tools", "n + 1", "n + 2"),
        ("penstock.late", "return n", "return -n"),
    ],
)
def test_a_change_of_what_cases_reach_is_noticed(
    module: str, old: str, new: str, digest: object
) -> None:
    assert callable(digest)
    changed = FILES[module].replace(old, new)
    assert changed != FILES[module]
    assert digest({**FILES, module: changed}) != digest(FILES)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("penstock.first", "Makes the cases.", "Returns the cases."),
        ("penstock.first", "# what it is", "# another word"),
        ("penstock.first", "step: float", "step: int"),
        ("penstock.first", '"drawn"', '"drawn anew"'),  # pictures are made again
        ("penstock.other", "LIMIT = 3", "LIMIT = 4"),  # imported and not used
        ("penstock.late", '"no number"', '"a number is missing"'),  # what an error says
    ],
)
def test_words_and_what_is_made_of_records_do_not_count(
    module: str, old: str, new: str, digest: object
) -> None:
    assert callable(digest)
    changed = FILES[module].replace(old, new)
    assert changed != FILES[module]
    assert digest({**FILES, module: changed}) == digest(FILES)


def test_where_a_definition_stands_does_not_count(digest: object) -> None:
    assert callable(digest)
    moved = {
        "penstock.deep.beginning": FIRST.replace("penstock.other", "penstock.deep.rest"),
        "penstock.deep.rest": OTHER.replace("penstock.late", "penstock.deep.late"),
        "penstock.tools": FILES["penstock.tools"],
        "penstock.deep.late": FILES["penstock.late"],
    }
    assert digest(moved, "penstock.deep.beginning") == digest(FILES)


def test_the_name_of_code_that_is_not_covered_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def text(files: dict[str, str]) -> str:
        monkeypatch.setattr(code, "read", lambda name: code.parsed(name, files.get(name, "")))
        code.defined.cache_clear()
        found = code.defined("penstock.first", "cases", ("penstock.first",))[0]
        code.defined.cache_clear()
        return found

    renamed = FIRST.replace("helper", "assistant")
    assert text({"penstock.first": renamed}) == text({"penstock.first": FIRST})
    other = FIRST.replace("return [helper(step), ", "return [helper(step), LIMIT, ")
    assert text({"penstock.first": other}) != text({"penstock.first": FIRST})


def test_the_simulator_policies_and_workloads_are_covered_and_words_for_users_are_not() -> None:
    reach = Reach()
    reach.add(code.place(experiments.get("joker-18").cases))
    found = {module for module, _ in reach.found}
    assert {
        "penstock.engines.simulator.queues",
        "penstock.policies.joker.policy",
        "penstock.policies.joker.bottleneck_actions",
        "penstock_lab.workloads.wordcount",
        "penstock_lab.experiments.joker.common",
    } <= found
    assert not [m for m in found if m.startswith(("penstock.report", "penstock.engines.spark"))]
    assert ("penstock_lab.experiments.joker.figure_18", "picture") not in reach.found


def test_a_policy_that_is_named_in_a_text_is_covered() -> None:
    reach = Reach()
    reach.add(code.place(experiments.get("nephele-hours").cases))
    assert ("penstock.policies.nephele.policy", "LatencyPolicy") in reach.found


def test_on_spark_the_code_is_that_of_the_experiment() -> None:
    reach = Reach((code.OWN,))
    reach.add(code.place(experiments.get("nephele-6").spark))
    found = {module for module, _ in reach.found}
    assert all(module.startswith("penstock_lab.experiments.") for module in found)
    assert ("penstock_lab.experiments.nephele.prime_tester_spark", "swing") in reach.found


def test_a_commit_says_whether_the_sources_are_those_of_it(tmp_path: Path) -> None:
    assert provenance.commit(tmp_path) is None

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, "-C", str(tmp_path), *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    first = provenance.commit(tmp_path)
    assert first is not None
    assert len(first) == 12
    (tmp_path / "a").write_text("2")
    assert provenance.commit(tmp_path) == f"{first}+changes"
