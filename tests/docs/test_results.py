"""The experiments of the documentation: tables and pictures come from the data beside them."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from penstock_lab import experiments
from penstock_lab.experiments import code, drawn, times
from penstock_lab.experiments.experiment import Case, EngineName
from penstock_lab.experiments.runner import Order, carry_out
from penstock_lab.experiments.store import Store
from penstock_lab.experiments.table import UNKNOWN
from penstock_lab.experiments.verdict import GIVEN, ONE_RUN, ROUNDS, UNMEASURED, VARIED

from ..lab.experiments.made_up import MADE_UP
from .scripts import script

RESULTS = script("results")
HOME: Path = RESULTS.HOME
RECORDED = sorted(home.name for home in HOME.glob("*/")) if HOME.exists() else []


@pytest.mark.parametrize("name", RECORDED)
def test_a_table_comes_from_the_data_beside_it(name: str, tmp_path: Path) -> None:
    RESULTS.unpacked(HOME / name, tmp_path)
    Store(tmp_path).make(experiments.get(name), pictures=False)
    for file in ("table.json", "table.md"):
        assert (tmp_path / file).read_text() == (HOME / name / file).read_text()
    assert UNKNOWN not in (tmp_path / "table.md").read_text()


def stored() -> list[tuple[str, EngineName, Mapping[str, Any]]]:
    """Every result that is kept: the experiment, the engine, and what the manifest says."""
    manifests = {n: json.loads((HOME / n / "manifest.json").read_text()) for n in RECORDED}
    return [(n, e, told) for n, m in manifests.items() for e, told in m["engines"].items()]


@pytest.mark.parametrize(("name", "engine", "told"), stored(), ids=lambda one: str(one)[:20])
def test_a_result_is_that_of_the_code_as_it_is(
    name: str, engine: EngineName, told: Mapping[str, Any]
) -> None:
    """Else: run it anew, confirm it (scripts/docs/confirm.py), or withdraw it in its manifest."""
    experiment = experiments.get(name)
    parameters = experiment.parameters(engine, RESULTS.is_quick(told))
    assert told["parameters"] == json.loads(json.dumps(parameters))
    assert told["cases"] == [case.name for case in experiment.made(engine, parameters)]
    assert told["code"] == code.digest(experiment, engine)


@pytest.mark.parametrize(("name", "engine", "told"), stored(), ids=lambda one: str(one)[:20])
def test_a_result_says_what_it_was_made_with(
    name: str, engine: EngineName, told: Mapping[str, Any]
) -> None:
    assert re.fullmatch(r"[0-9a-f]{12}", told["commit"]), "not from a tree with changes"
    assert {"cores", "memory_gib", "python", "spark"} <= told["machine"].keys()


@pytest.mark.parametrize(("name", "engine", "told"), stored(), ids=lambda one: str(one)[:20])
def test_a_single_run_on_spark_is_not_judged(
    name: str, engine: EngineName, told: Mapping[str, Any]
) -> None:
    if engine == "spark" and len(told.get("rounds", [()])) < ROUNDS:
        rows = json.loads((HOME / name / "table.json").read_text())["rows"]
        found = {row["spark"]["verdict"] for row in rows if "spark" in row}
        assert found <= {"", ONE_RUN, GIVEN, VARIED, UNMEASURED}


@pytest.mark.parametrize("name", RECORDED)
def test_what_was_withdrawn_is_gone_and_has_a_reason(name: str) -> None:
    for engine, why in (
        json.loads((HOME / name / "manifest.json").read_text()).get("withdrawn", {}).items()
    ):
        assert not list((HOME / name).glob(f"*-{engine}.*"))
        assert f"was withdrawn: {why}." in (HOME / name / "table.md").read_text()


def test_what_was_put_in_is_not_counted_as_found() -> None:
    """Rows that were once counted as agreeing, though they follow from what was put in."""
    circular = {
        "joker-18": ("word count: speed-up", "word count: counters at the end"),
        "joker-9": ("speed-up, costly operators", "replicas of the costly region"),
        "joker-10": ("attempt 4: share by which throughput rises",),
        "joker-14": ("equal operators, a cut has to promise 20 %: cuts that stay",),
        "es-stream-18": (
            "recovery with an interval of 2 s, partial rollback",
            "recovery with an interval of 2 s, global rollback",
            "recovery with an interval of 2 s, global beside partial rollback",
        ),
        "stela-6": (
            "page-load: gain of Stela over the default scheduler",
            "processing: gain of Stela over the default scheduler",
        ),
        "stela-8": ("share of the throughput that Stela keeps",),
    }
    for name, rows in circular.items():
        claims = {claim.what: claim for claim in experiments.get(name).claims}
        for what in rows:
            assert "given" in (claims[what].basis, "given" if claims[what].given_on else ""), what
        found = json.loads((HOME / name / "table.json").read_text())["rows"]
        verdicts = {row["what"]: row["simulator"]["verdict"] for row in found if "simulator" in row}
        assert {verdicts[what] for what in rows} == {GIVEN}


def test_misses_are_not_hidden() -> None:
    def verdict(name: str, what: str) -> str:
        rows = json.loads((HOME / name / "table.json").read_text())["rows"]
        found: str = next(row["simulator"]["verdict"] for row in rows if row["what"] == what)
        return found

    assert verdict("stepwise-13", "machines for 6,000 tweets/s, stepwise") == "differs"
    assert verdict("stepwise-11", "TSA: stepwise beside the best other") == "weaker"


@pytest.mark.parametrize("name", RECORDED)
def test_every_engine_has_its_pictures(name: str) -> None:
    engines = json.loads((HOME / name / "manifest.json").read_text())["engines"]
    kept = {file.name for file in (HOME / name).glob("picture-*")}
    assert kept == {f"picture-{e}.{kind}" for e in engines for kind in ("json", "svg.gz")}


@pytest.mark.parametrize("name", RECORDED)
def test_a_picture_shows_what_the_data_beside_it_say(name: str, tmp_path: Path) -> None:
    """What is to be seen is made again; the files are those that were drawn of it."""
    RESULTS.unpacked(HOME / name, tmp_path)
    found = Store(tmp_path).data()
    assert found
    for engine, data in found.items():
        noted = json.loads((HOME / name / f"picture-{engine}.json").read_text())
        svg = gzip.decompress((HOME / name / f"picture-{engine}.svg.gz").read_bytes())
        assert noted["figure"] == drawn.of(experiments.get(name).picture(data.rounds[0]))
        assert noted["svg"] == sha256(svg).hexdigest()


@pytest.mark.large
@pytest.mark.parametrize("name", [n for n in RECORDED if crc32(n.encode()) % 5 == 0])
def test_a_picture_comes_from_the_data_beside_it(name: str, tmp_path: Path) -> None:
    """Drawing them all would take minutes, so some are, which nobody has chosen."""
    if RESULTS.DRAWN_BY.read_text().strip() != version("matplotlib"):
        pytest.skip("another matplotlib has drawn the pictures")
    RESULTS.unpacked(HOME / name, tmp_path)
    Store(tmp_path).make(experiments.get(name))
    for kept in (HOME / name).glob("picture-*.svg.gz"):
        assert gzip.decompress(kept.read_bytes()) == (tmp_path / kept.stem).read_bytes()


@pytest.mark.parametrize("name", RECORDED)
def test_how_long_it_is_said_to_take_is_of_the_right_size(name: str) -> None:
    for engine, told in json.loads((HOME / name / "manifest.json").read_text())["engines"].items():
        said = times.known(name, engine)
        assert said is not None
        if not RESULTS.is_quick(told):
            assert 0.1 < told["seconds"] / said < 10


def test_a_quick_run_takes_no_full_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(home: Path, seconds: float, *words: str) -> Path:
        home.mkdir(parents=True)
        command = " ".join(["penstock experiment a", *words])
        told = {"complete": True, "command": command, "seconds": seconds}
        (home / "manifest.json").write_text(json.dumps({"engines": {"simulator": told}}))
        (home / "data-simulator.jsonl").write_text(f"{seconds}")
        return home

    full, quick = ran(tmp_path / "full" / "a", 60), ran(tmp_path / "new" / "a", 6, "--quick")
    for source, kept in ((quick, "6"), (full, "60"), (quick, "60")):
        RESULTS.laid_over(source, tmp_path / "kept")
        assert (tmp_path / "kept" / "data-simulator.jsonl").read_text() == kept
    monkeypatch.setattr(RESULTS, "QUICK", tmp_path / "quick.json")
    for source in ("full", "new"):
        RESULTS.timed(tmp_path / source)
    assert json.loads((tmp_path / "quick.json").read_text()) == {"a": 6}


@pytest.mark.parametrize("name", RECORDED)
def test_nothing_is_tied_to_a_machine(name: str) -> None:
    said = json.loads((HOME / name / "manifest.json").read_text())["engines"]
    assert all(" /" not in one["command"] for one in said.values())


def lines(home: Path) -> list[Any]:
    return [json.loads(one) for one in (home / "data-simulator.jsonl").read_text().splitlines()]


def test_of_the_records_is_kept_what_the_table_and_the_picture_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "every", lambda: (MADE_UP,))
    carry_out(MADE_UP, Order(tmp_path / "ran", seed=1))
    source, kept, back = tmp_path / "ran" / "made-up", tmp_path / "kept", tmp_path / "back"
    whole = lines(source)
    extra = [{**record, "unread": {"by": "all"}} for record in whole]
    (source / "data-simulator.jsonl").write_text("".join(json.dumps(r) + "\n" for r in extra))
    RESULTS.taken(source, kept)
    assert sorted(file.name for file in kept.iterdir()) == [
        "data-simulator.jsonl.xz",
        "manifest.json",
        "picture-simulator.json",
        "picture-simulator.svg.gz",
        "table.json",
        "table.md",
    ]
    packed = (kept / "picture-simulator.svg.gz").read_bytes()
    assert gzip.decompress(packed) == (source / "picture-simulator.svg").read_bytes()
    RESULTS.unpacked(kept, back)
    left = lines(back)
    assert len(left) == len(extra)
    assert not any("unread" in record for record in left)
    Store(back).make(MADE_UP, pictures=False)
    assert (back / "table.md").read_text() == (source / "table.md").read_text()
    told = json.loads((kept / "manifest.json").read_text())["engines"]["simulator"]
    assert told["records"] == RESULTS.records.digests(extra)
    again = tmp_path / "again"
    shutil.copytree(back, again)
    RESULTS.taken(again, kept)
    now = json.loads((kept / "manifest.json").read_text())["engines"]["simulator"]
    assert now["records"] == told["records"], "these are of all records, not of those kept"


def test_results_and_every_other_file_are_small() -> None:
    root = HOME.parents[1]
    names = subprocess.check_output(["git", "-C", root, "ls-files", "-z"], text=True).split("\0")
    sizes = {name: (root / name).stat().st_size for name in names if (root / name).is_file()}
    assert [name for name, size in sizes.items() if size > 500_000] == []
    results = ("docs/results/", "docs/pictures/", "bench/results/")
    assert sum(size for name, size in sizes.items() if name.startswith(results)) < 6_000_000


def test_a_result_is_confirmed_only_if_its_cases_give_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    confirm = script("confirm")
    monkeypatch.setattr(confirm, "HOME", tmp_path)
    shown = iter((1, 1, 2))
    cases = tuple(Case(name, lambda _: [{"kind": "seen", "x": next(shown)}]) for name in "abc")
    experiment = replace(MADE_UP, cases=lambda: cases, size={})
    (tmp_path / "made-up").mkdir()
    manifest = tmp_path / "made-up" / "manifest.json"
    seen = RESULTS.records.digests({"case": c, "kind": "seen", "x": 1} for c in "abc")
    told = {"seed": 1, "parameters": {}, "code": "of old", "complete": True, "records": seen}
    manifest.write_text(json.dumps({"experiment": "made-up", "engines": {"simulator": told}}))
    assert confirm.is_stale(experiment)
    assert confirm.confirmed(experiment, 2)
    now = json.loads(manifest.read_text())["engines"]["simulator"]
    assert (now["confirmed"]["cases"], now["confirmed"]["of"]) == (2, 3)
    assert not confirm.is_stale(experiment)
    assert not confirm.confirmed(experiment, 1)
    assert "made-up: 'a' has other records now: run it anew" in capsys.readouterr().out
