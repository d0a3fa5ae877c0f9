from __future__ import annotations

import json
import logging
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from click.shell_completion import ShellComplete

from penstock.cli import base, main
from penstock.cli.standard_output import Streams

from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


def test_workloads_are_listed(penstock: Run) -> None:
    assert "wordcount" in penstock("workloads")[1]
    listed = json.loads(penstock("workloads", "--json")[1])["workloads"]
    assert {w["name"] for w in listed} >= {"wordcount", "linear", "diamond", "star"}


def test_version(penstock: Run) -> None:
    assert penstock("version")[1].startswith("penstock 0.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fly"], "no such command 'fly'"),
        (["sclae"], "no such command 'sclae', did you mean 'scale'?"),
        (["run", "wordcount", "--speed", "9"], "no such option '--speed'"),
        (["run", "wordcount", "--max-slot"], "the option '--max-slots' needs a value"),
        (["run", "wordcount", "--max-slits=3"], "did you mean '--max-slots'?"),
        (
            ["run", "wordcount", "--max-slots", "few"],
            "'few' is not a valid integer (`penstock run -",
        ),
        (["run", "wordcount", "--max", "3"], "may be --max-slots or --max-executors"),
        (["run", "--for", "--no-view"], "the option '--for' needs a value"),
        (["run"], "missing argument 'FLOW' (`penstock run --help` tells more)"),
        (["run", "wordcount", "linear"], "got unexpected extra argument (linear)"),
        ([], "missing command"),
    ],
)
def test_unknown_words_are_one_line(penstock: Run, words: list[str], said: str) -> None:
    code, out, err = penstock(*words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err
    assert "--help` tells more)" in err


def test_unknown_words_are_one_json_object_where_that_was_asked_for(penstock: Run) -> None:
    for words in (("run", "--json"), ("run", "wordcount", "--json", "--speed", "9")):
        code, out, err = penstock(*words)
        assert code == 2
        assert json.loads(out)["error"]
        assert len(err.splitlines()) == 1


def test_options_may_be_shortened_and_stand_anywhere(penstock: Run) -> None:
    code, out, _ = penstock("--help")
    assert (code, out.startswith("Usage: penstock ")) == (0, True)
    assert penstock("pol", "--json")[0] == 2
    code, out, _ = penstock("policies", "--js", "static")
    assert (code, json.loads(out)["name"]) == (0, "static")
    assert penstock("policies", "static", "--json") == (code, out, "")


def test_a_negative_number_is_a_value_and_not_an_option(penstock: Run) -> None:
    said = penstock("run", "wordcount", "--for", "-1s")[2]
    assert said == "penstock: a run must last longer than nothing, found '-1s'\n"
    assert "'-2' is no whole number of 0 or more" in penstock("scale-out", "mine", "-2")[2]


def test_every_command_has_a_line_under_a_heading_and_an_example(penstock: Run) -> None:
    code, out, _ = penstock("help")
    assert (code, out) == penstock("--help")[:2]
    for heading in (*main.SECTIONS, main.EXTENSIONS):
        assert f"\n{heading}:\n" in out or heading == main.EXTENSIONS
    for name, command in main.commands():
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {name} ")]
        assert len(line) <= 80
        assert line.endswith(".")
        code, one, _ = penstock("help", name)
        assert (code, one) == penstock(name, "--help")[:2]
        assert f"  Example: penstock {name}" in one
        assert [p.name for p in command.params if not getattr(p, "help", None)] == []


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["run", "--help"], ["sclae"]])
def test_help_comes_without_the_libraries_that_run_a_flow(words: list[str]) -> None:
    heavy = {"pyspark", "pandas", "numpy", "pyarrow", "rich"}
    program = (
        "import sys\nfrom penstock.cli.main import main\n"
        f"main({words!r})\nsys.exit(str({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "set()"


def extension(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Another distribution that brings the command `dance`, and one that would replace `run`."""
    found = [EntryPoint(name, value, main.GROUP) for name in ("dance", "run")]
    monkeypatch.setattr(main, "entry_points", lambda group: found)


@base.command("dance")
def dance(streams: Streams) -> None:
    """Dance.

    Example: penstock dance
    """
    streams.note("dancing")


def test_another_distribution_adds_a_command(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    extension(monkeypatch, f"{__name__}:dance")
    assert penstock("dance") == (0, "", "penstock: dancing\n")
    assert f"\n{main.EXTENSIONS}:\n  dance  Dance.\n" in penstock("--help")[1]
    assert "did you mean 'dance'?" in penstock("dence")[2]
    assert dict(main.commands())["run"].callback is not dance.callback


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nowhere.at.all:dance", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere"),
        (f"{__name__}:extension", "is neither a click.Command nor a module with one"),
    ],
)
def test_a_command_that_cannot_be_loaded_hides_no_others(
    penstock: Run, monkeypatch: pytest.MonkeyPatch, value: str, why: str
) -> None:
    extension(monkeypatch, value)
    code, out, err = penstock("dance")
    assert (code, out) == (2, "")
    assert err.startswith(f"penstock: the command 'dance' from '{value}' {why}")
    assert "Run a dataflow on Spark." in penstock("--help")[1]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("penstock expl", ["explain"]),
        ("penstock explain word", ["wordcount"]),
        ("penstock run wordcount --policy thre", ["threshold"]),
        ("penstock run wordcount --max-s", ["--max-slots"]),
    ],
)
def test_words_are_completed(words: str, offered: list[str]) -> None:
    *before, last = words.split()[1:]
    complete = ShellComplete(main.penstock, {}, "penstock", "_PENSTOCK_COMPLETE")
    found = [one.value for one in complete.get_completions(before, last) if one.type == "plain"]
    assert found == offered


@base.command("talk")
def talk(streams: Streams) -> None:
    """Talk.

    Example: penstock talk
    """
    logger = logging.getLogger("penstock.talk")
    logger.info("progress")
    logger.debug("a detail")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["talk"], []),
        (["-v", "talk"], ["INFO: penstock.talk: progress"]),
        (["talk", "--verbose"], ["INFO: penstock.talk: progress"]),
        (["-v", "talk", "-v"], ["INFO: penstock.talk: progress", "DEBUG: penstock.talk: a detail"]),
    ],
)
def test_log_messages_are_printed_on_request(
    penstock: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], said: list[str]
) -> None:
    found = [EntryPoint("talk", f"{__name__}:talk", main.GROUP)]
    monkeypatch.setattr(main, "entry_points", lambda group: found)
    err = "".join(f"penstock: {line}\n" for line in said)
    assert penstock(*words) == (0, "", err)
