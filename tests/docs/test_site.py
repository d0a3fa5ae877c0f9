"""The pages are built as `make docs` builds them: strictly, without a network, whole."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.policies.base import registry

from .blocks import ROOT
from .scripts import script

PICTURES = ROOT / "docs" / "pictures"


def test_the_site_is_built_without_a_warning_and_is_whole(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [*words, str(tmp_path)], cwd=ROOT, env=quiet, capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    pages = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*.html")}
    _nothing_comes_from_another_host(tmp_path, pages)
    _formulas_are_drawn_and_none_is_left_over(pages)
    _what_is_generated_is_there(pages)


def _nothing_comes_from_another_host(site: Path, pages: dict[str, str]) -> None:
    fetched = re.compile(r'<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)="(https?:)?//')
    assert [name for name, page in pages.items() if fetched.search(page)] == []
    assert not any('class="mermaid"' in page for page in pages.values())  # would load a script
    styles = [style.read_text() for style in site.rglob("*.css")]
    assert not any(re.search(r"url\(['\"]?(https?:)?//|@import", style) for style in styles)


def _formulas_are_drawn_and_none_is_left_over(pages: dict[str, str]) -> None:
    latency = pages["policies/latency/index.html"]
    assert latency.count("<math ") > 20
    assert "<mfrac>" in latency
    assert not any(re.search(r"FORMULA\d+ENDS|\$\$", page) for page in pages.values())


def _what_is_generated_is_there(pages: dict[str, str]) -> None:
    policies = "".join(text for page, text in pages.items() if page.startswith("policies/"))
    for name in registry.names():
        for option in registry.describe(name).options:
            assert f"<code>{option.name}</code>" in policies
    assert "<code>backlog_seconds</code>" in pages["measurement/index.html"]
    assert "penstock simulate" in pages["commands/index.html"]
    assert "Word count fused whole" in pages["results/index.html"]
    assert "penstock.Dataflow" in pages["api/index.html"]
    assert not any("<!-- generated" in page for page in pages.values())


def test_results_of_experiments_are_taken_in_with_their_pictures(tmp_path: Path) -> None:
    generated = script("generated")
    generated.ROOT = tmp_path
    assert generated.experiments().startswith("No experiments")
    home = tmp_path / "docs" / "results" / "stela-4"
    home.mkdir(parents=True)
    rows = [
        {"seed": 1.5, "said": "1.50", "simulator": {"verdict": word}}
        for word in ("agrees", "agrees", "differs")
    ]
    table = {"experiment": "stela-4", "title": "One", "rows": rows}
    ran = {"command": "penstock experiment stela-4 --quick", "complete": True, "seconds": 61.5}
    (home / "table.json").write_text(json.dumps(table))
    (home / "table.md").write_text("# One\n\nOf a paper.\n\n| a |\n")
    (home / "manifest.json").write_text(json.dumps({"engines": {"simulator": ran}}))
    (home / "picture-simulator.svg.gz").touch()
    told = generated.experiments()
    assert "| [stela-4](#stela-4) | One | 2 agrees, 1 differs | - | quick |" in told
    assert (
        "### stela-4\n\n**One.** Of a paper.\n\n| a |\n\n![One, simulator](results/stela-4/"
        "picture-simulator.svg)" in told
    )
    assert told.endswith("Made by `penstock experiment stela-4 --quick`: 62 s.")
    assert "| simulator, quick | 1 | 0 h 01.0 min |" in told


def test_how_long_all_experiments_took_is_added_up_by_engine_and_size(tmp_path: Path) -> None:
    generated = script("generated")
    generated.ROOT = tmp_path
    results = tmp_path / "docs" / "results"
    for name, engines in {"a": {"simulator": 3500}, "b": {"simulator": 1600, "spark": 90}}.items():
        (results / name).mkdir(parents=True)
        told = {e: {"command": "penstock experiment", "seconds": s} for e, s in engines.items()}
        (results / name / "manifest.json").write_text(json.dumps({"engines": told}))
    (results / "quick.json").write_text(json.dumps({"a": 60, "b": 66}))
    assert generated._took([results / "a", results / "b"]).splitlines()[2:] == [
        "| simulator | 2 | 1 h 25.0 min |",
        "| simulator, quick | 2 | 0 h 02.1 min |",
        "| spark | 1 | 0 h 01.5 min |",
    ]


def test_what_words_mean_is_said_once_on_the_page(tmp_path: Path) -> None:
    generated = script("generated")
    said = generated.on_page_markdown("<!-- generated: verdicts -->")
    assert said.startswith("- *a beside b* is a divided by b\n- *here / paper* compares effects")
    assert "\n- *agrees*: the effect is within 25 % of the paper" in said
    home = tmp_path / "one"
    home.mkdir()
    (home / "table.md").write_text("# One\n\n| a |\n\nHow to read it: *agrees*, within.\n")
    (home / "manifest.json").write_text('{"engines": {}}')
    assert "How to read it" not in generated._experiment(home)


def test_what_is_said_of_a_parameter_is_its_part_of_the_docstring() -> None:
    said = script("generated")._meanings(
        "above, below: shares; step: instances. Then more.", ["above", "below", "step"]
    )
    assert said == {"above": "shares", "below": "shares", "step": "instances"}


def test_the_drawings_are_those_that_the_code_draws() -> None:
    drawn = script("pictures").all_of_them()
    stale = [
        n for n, s in drawn.items() if (PICTURES / n).read_text() != script("pictures").text(s)
    ]
    assert stale == [], "draw them again: python scripts/docs/pictures.py"


def test_pictures_are_small_and_need_nothing() -> None:
    for picture in PICTURES.iterdir():
        assert picture.stat().st_size < 200_000
        if picture.suffix == ".svg":
            text = picture.read_text()
            assert "url(http" not in text
            assert "<script" not in text


def test_the_table_of_the_readme_is_what_was_measured() -> None:
    page = (ROOT / "README.md").read_text()
    assert script("table").written(page) == page, "write it: python scripts/docs/table.py"
    assert "**missed**" in page or '"holds": false' not in "".join(
        file.read_text() for file in (ROOT / "bench" / "results").glob("*.json")
    )
