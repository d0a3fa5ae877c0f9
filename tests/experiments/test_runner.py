from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import InvalidInput, Refused
from penstock.experiments.experiment import Case, Claim, Experiment, Record, Setting
from penstock.experiments.runner import Order, carry_out
from penstock.experiments.store import Store
from penstock.experiments.table import AGREES, DIRECTION

from .made_up import MADE_UP

FILES = (
    *("data-simulator.jsonl", "manifest.json", "picture-simulator.png", "picture-simulator.svg"),
    *("table.json", "table.md"),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    carry_out(MADE_UP, Order(out, seed=1, quick=True))
    return out / "made-up"


def test_everything_is_in_one_directory(done: Path) -> None:
    assert tuple(sorted(p.name for p in done.iterdir())) == FILES
    manifest = json.loads((done / "manifest.json").read_text())
    said = manifest["engines"]["simulator"]
    assert (said["seed"], said["parameters"]) == (1, {"step": 10.0, "rate": 1000})
    assert said["complete"] is True
    assert said["command"] == f"penstock experiment made-up --seed 1 --quick --out {done.parent}"


def test_table_and_picture_come_from_the_data_beside_them(done: Path) -> None:
    made = [n for n in FILES if n.startswith(("table", "picture"))]
    before = {name: (done / name).read_bytes() for name in made}
    for name in made:
        (done / name).unlink()
    Store(done).make(MADE_UP)
    assert {name: (done / name).read_bytes() for name in made} == before


def test_other_data_give_another_table_and_picture(done: Path, tmp_path: Path) -> None:
    for name in ("manifest.json", "data-simulator.jsonl"):
        (tmp_path / name).write_text((done / name).read_text())
    data = tmp_path / "data-simulator.jsonl"
    records = [json.loads(line) for line in data.read_text().splitlines()]
    for record in records:
        if record["kind"] == "tick":
            record["pipelines"]["test"]["instances"] += 1
        if record["kind"] == "summary":
            record["slot_seconds"] *= 2
    data.write_text("".join(json.dumps(r) + "\n" for r in records))
    Store(tmp_path).make(MADE_UP)
    for name in ("table.md", "table.json", "picture-simulator.svg"):
        assert (tmp_path / name).read_bytes() != (done / name).read_bytes()


def test_the_same_seed_repeats_it_and_another_gives_other_digits(
    done: Path, tmp_path: Path
) -> None:
    one = replace(MADE_UP, cases=lambda step, rate: MADE_UP.cases(step, rate)[:1])
    for seed in (1, 2):
        carry_out(one, Order(tmp_path / str(seed), seed=seed, quick=True, pictures=False))
    lines = (done / "data-simulator.jsonl").read_text().splitlines()
    first, other = (
        (tmp_path / str(seed) / "made-up" / "data-simulator.jsonl").read_text().splitlines()
        for seed in (1, 2)
    )
    assert first == [line for line in lines if '"case":"latency"' in line]
    assert other != first


def test_the_conclusion_is_in_the_table(done: Path) -> None:
    rows = json.loads((done / "table.json").read_text())["rows"]
    assert rows[0]["simulator"]["verdict"] in (AGREES, DIRECTION)
    assert rows[2]["simulator"] == {"value": None, "ratio": None, "verdict": "not measured"}
    text = (done / "table.md").read_text()
    assert "| task hours | - |" in text
    assert "Not on Spark here: it is made up." in text


def _two(stop: bool) -> Experiment:
    def fine(setting: Setting) -> Iterator[Record]:
        setting.tell(0.5)
        yield {"kind": "summary", "slot_seconds": 3600, "latency": {}}

    def stopped(setting: Setting) -> list[Record]:
        raise KeyboardInterrupt

    made = (Case("latency", fine), Case("static", stopped if stop else fine))
    return replace(MADE_UP, cases=lambda step, rate: made)


def test_an_interrupt_leaves_the_cases_that_are_done(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match="the cases that are done are in"):
        carry_out(_two(stop=True), Order(tmp_path))
    home = tmp_path / "made-up"
    assert len((home / "data-simulator.jsonl").read_text().splitlines()) == 1
    said = json.loads((home / "manifest.json").read_text())["engines"]["simulator"]
    assert (said["cases"], said["complete"]) == (["latency"], False)
    assert "| task hours | - | 1.00 | - |" in (home / "table.md").read_text()


def test_an_interrupt_leaves_no_picture_of_data_that_are_gone(tmp_path: Path) -> None:
    home = tmp_path / "made-up"
    home.mkdir()
    for name in ("picture-simulator.png", "picture-simulator.svg", "picture-spark.svg"):
        (home / name).write_text("of a run before")
    with pytest.raises(KeyboardInterrupt):
        carry_out(_two(stop=True), Order(tmp_path))
    assert [file.name for file in home.glob("picture-*")] == ["picture-spark.svg"]


def test_a_file_is_no_place_for_results(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(
        InvalidInput, match=r"results cannot go to .*taken.made-up: Not a directory"
    ):
        carry_out(_two(stop=False), Order(tmp_path / "taken"))


def test_cases_beside_each_other_give_the_same_records(done: Path, tmp_path: Path) -> None:
    told: list[float] = []
    order = Order(tmp_path, seed=1, quick=True, pictures=False, jobs=2)
    carry_out(MADE_UP, order, lambda case, share: told.append(share))
    data = "data-simulator.jsonl"
    assert (tmp_path / "made-up" / data).read_bytes() == (done / data).read_bytes()
    assert told == sorted(told)


def test_an_interrupt_ends_the_cases_beside_each_other(tmp_path: Path) -> None:
    def slow(setting: Setting) -> list[Record]:
        time.sleep(600)
        return []

    two = _two(stop=True)
    three = replace(two, cases=lambda step, rate: (*two.cases(step, rate), Case("slow", slow)))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt, match="the cases that are done are in"):
        carry_out(three, Order(tmp_path, jobs=2))
    assert time.monotonic() - began < 60
    said = json.loads((tmp_path / "made-up" / "manifest.json").read_text())["engines"]["simulator"]
    assert (said["cases"], said["complete"]) == (["latency"], False)
    assert not multiprocessing.active_children()


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    carry_out(_two(stop=False), Order(tmp_path, pictures=False), lambda *said: told.append(said))
    assert told == [("latency", 0.0), ("latency", 0.25), ("static", 0.5), ("static", 0.75)]


def test_what_spark_cannot_show_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="made-up is not shown on Spark: it is made up"):
        carry_out(MADE_UP, Order(tmp_path, engine="spark"))
    assert not list(tmp_path.iterdir())


def test_both_engines_share_a_table(tmp_path: Path) -> None:
    size = Claim("size", 1.0, lambda data: 1.0, only="simulator")
    both = replace(
        _two(stop=False),
        spark=lambda: _two(stop=False).cases(1, 1),
        claims=(*MADE_UP.claims, size),
    )
    carry_out(both, Order(tmp_path, pictures=False))
    carry_out(both, Order(tmp_path, engine="spark", pictures=False))
    table = (tmp_path / "made-up" / "table.md").read_text()
    assert "here (simulated)" in table
    assert "| task hours | - | 1.00 | - |  | 1.00 | - |  |" in table
    assert "| size | 1.00 | 1.00 | 1.00 | agrees | - | - | - |" in table


def test_a_directory_without_an_experiment_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no experiment"):
        Store(tmp_path).data()
