"""Every command of the README and the documentation is run.

Those that would start Spark run on engines that need none, in simulated time and for a minute of it
at most (`stand.py`); those marked `spark` run there (`test_spark.py`) as well.
"""

from __future__ import annotations

import re
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.cli.main import commands

from . import stand
from .blocks import ALL, PAGES, ROOT, RUN_LANGUAGES, SHOWN_LANGUAGES, Block, inline_commands, titled
from .scripts import script

ASKING = {"scale", "fuse", "split", "pause", "resume", "scale-out", "scale-in", "policy"}
KNOWN = {name for name, _ in commands()}
SHELL = [block for block in ALL if block.language == "sh"]
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("page", sorted({b.page for b in SHELL if not b.parsed_only}))
def test_every_command_of_a_page_does_what_is_said(
    page: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = [b for b in SHELL if b.page == page and not b.parsed_only]
    commands = [words for block in found for words in block.commands()]
    with ExitStack() as stack:
        url = ""
        if any(words[0] == "curl" or words[1] in ASKING for words in commands):
            url = stack.enter_context(stand.live(place / "runs" / "asked")).url
        stand.stand_in(monkeypatch)
        for words in commands:
            asks = words[1] in ASKING
            told = [re.sub(r"^runs/\w+$", "runs/asked", w) if asks else w for w in words]
            _carry_out(told, url, capfd)


def _carry_out(words: list[str], metrics: str, capfd: pytest.CaptureFixture[str]) -> None:
    match words:
        case ["penstock", *rest]:
            given = stand.shortened([w if w != "9108" else "0" for w in rest])
            code = stand.penstock(*given)
            said = capfd.readouterr()
            allowed = (0, 1) if rest[0] == "doctor" else (0,)
            if rest[0] in ("scale-out", "scale-in") and "penstock: no scale-" in said.err:
                return  # by what the run on this page has measured: that is an answer, too
            assert code in allowed, f"{' '.join(words)}: {said.err}{said.out}"
            assert said.out or rest[0] in ("history", "policy")
        case ["make", target]:
            assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
        case ["pip", "install", package]:
            assert (ROOT / package / "pyproject.toml").exists()
        case ["curl", _]:
            with urllib.request.urlopen(metrics) as answer:
                assert "penstock_operator_rows_per_second{" in answer.read().decode()
        case _:
            raise AssertionError(f"nobody knows how to run {words}")


def test_the_case_that_is_written_by_hand_is_decided_on(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "case.json").write_text(titled("case.json").text)
    for policy in ("threshold", "ds2:activation=1", "stela:automatic=true", "es-stream", "drs"):
        code = stand.penstock("advise", "--snapshot", "case.json", "--policy", policy)
        assert code == 0, capfd.readouterr().err
        said = capfd.readouterr().out
        assert "not measured" not in said, said
        assert "count: parallelism 2 -> 3" in said or policy != "threshold", said


def test_what_make_demo_runs_can_be_run() -> None:
    recipe = re.search(r"^demo:.*\n\t\$\(BIN\)/(penstock .*)$", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    stand.understood(recipe[1].split()[1:])


@pytest.mark.parametrize("block", [b for b in SHELL if b.parsed_only], ids=str)
def test_what_is_not_run_is_at_least_understood(block: Block) -> None:
    for words in block.commands():
        stand.understood(words[1:])


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    marked = [block for block in ALL if block.test not in ("", "spark")]
    assert [block for block in marked if not block.parsed_only] == []
    assert all(len(block.test) > len("parsed: ") + 20 for block in marked)
    assert len(marked) <= 4


def test_every_block_is_in_a_language_that_is_run_or_only_shown() -> None:
    known = (*RUN_LANGUAGES, *SHOWN_LANGUAGES)
    assert [str(block) for block in ALL if block.language not in known] == []


def test_no_code_stands_outside_a_fence() -> None:
    for page in PAGES:
        outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert (
            re.findall(r"^    (?:penstock|make|pip|import|from) .*$", outside, re.MULTILINE) == []
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_within_sentences_are_understood(page: Path) -> None:
    for command in inline_commands(page.read_text()):
        words = command.replace("...", "x").split()
        assert words[1] in KNOWN
        if len(words) > 2:
            stand.understood(words[1:])


def test_the_reference_has_every_command_with_its_options_and_an_example() -> None:
    page = script("generated").on_page_markdown((ROOT / "docs" / "commands.md").read_text())
    parts = page.split("\n### penstock ")[1:]
    assert [part.partition("\n")[0] for part in parts] == [name for name, _ in commands()]
    for part, (name, command) in zip(parts, commands(), strict=True):
        words = {word for one in command.params if one.expose_value for word in one.opts}
        assert {w for w in words if w.startswith("-") and f"`{w}" not in part} == set()
        assert f"\npenstock {name}" in part
        stand.understood(part.split("```sh\npenstock ")[1].split("\n")[0].split())
