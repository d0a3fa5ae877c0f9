from __future__ import annotations

import io
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import InvalidInput, Refused
from penstock_lab.experiments import times
from penstock_lab.experiments.experiment import Case, Claim, Experiment, Record, Setting
from penstock_lab.experiments.runner import Order, Progress, carry_out
from penstock_lab.experiments.store import Store
from penstock_lab.experiments.verdict import AGREES, DIRECTION, WEAKER

from .made_up import MADE_UP

FILES = (
    *(".lock", "data-simulator.jsonl", "manifest.json"),
    *("picture-simulator.json", "picture-simulator.png", "picture-simulator.svg"),
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
    assert rows[0]["simulator"]["verdict"] in (AGREES, DIRECTION, WEAKER)
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
    home = tmp_path / "made-up" / "unfinished"
    with pytest.raises(KeyboardInterrupt, match=f"the finished cases are in {home}"):
        carry_out(_two(stop=True), Order(tmp_path))
    assert len((home / "data-simulator.jsonl").read_text().splitlines()) == 1
    said = json.loads((home / "manifest.json").read_text())["engines"]["simulator"]
    assert (said["cases"], said["complete"]) == (["latency"], False)
    table = (home / "table.md").read_text()
    assert table.startswith("# A few testers\n\n**Not complete: 1 of 2 cases.**\n")
    assert "| task hours | - | 1 | - |" in table
    with pytest.raises(InvalidInput, match=r"an incomplete run is in .*unfinished"):
        Store(home.parent).data()


def test_an_interrupt_leaves_what_was_complete_before(tmp_path: Path) -> None:
    home = tmp_path / "made-up"
    both = replace(_two(stop=False), spark=lambda: _two(stop=False).cases(1, 1))
    carry_out(both, Order(tmp_path, pictures=False))
    carry_out(both, Order(tmp_path, engine="spark", pictures=False))
    (home / "picture-simulator.svg").write_text("of the run before")
    before = _files(home)
    with pytest.raises(KeyboardInterrupt):
        carry_out(_two(stop=True), Order(tmp_path, seed=2))
    assert _files(home) == before
    carry_out(_two(stop=False), Order(tmp_path, seed=3, pictures=False))
    engines = json.loads((home / "manifest.json").read_text())["engines"]
    assert {e: (told["seed"], told["complete"]) for e, told in engines.items()} == {
        "simulator": (3, True),
        "spark": (1, True),
    }
    assert not (home / "unfinished").exists()
    assert not list(home.glob("picture-*")), "no picture of data that are gone"


def _files(home: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in home.iterdir() if file.is_file()}


def test_an_interrupt_while_it_draws_says_that_all_cases_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.drawing.figures.save", stopped)
    with pytest.raises(KeyboardInterrupt, match=r".*made-up has all cases, but not all pictures"):
        carry_out(_two(stop=False), Order(tmp_path))
    assert Store(tmp_path / "made-up").data()["simulator"].cases == ("latency", "static")


def test_one_run_at_a_time_writes_to_a_directory(tmp_path: Path) -> None:
    store = Store(tmp_path / "made-up")
    holder = (
        "import sys, pathlib; from penstock_lab.experiments.store import Store\n"
        "with Store(pathlib.Path(sys.argv[1])).held(): print('held', flush=True), input()"
    )
    words = [sys.executable, "-c", holder, str(store.home)]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Refused, match=r"another run is writing to .*made-up; wait"):
            carry_out(_two(stop=False), Order(tmp_path))
        assert [file.name for file in store.home.iterdir()] == [".lock"]
    finally:
        other.kill()  # which leaves nothing behind that would keep others away
        other.communicate()
    carry_out(_two(stop=False), Order(tmp_path, pictures=False))
    assert Store(store.home).data()["simulator"].cases == ("latency", "static")


@pytest.mark.parametrize("torn", ["", "{", "[]", "{}", '{"engines": {"simulator": {}}}', "7"])
def test_what_is_no_manifest_is_let_be(torn: str, tmp_path: Path) -> None:
    manifest = tmp_path / "made-up" / "manifest.json"
    manifest.parent.mkdir()
    manifest.write_text(torn)
    with pytest.raises(InvalidInput, match=r"its manifest.json cannot be read"):
        Store(manifest.parent).data()
    with pytest.raises(InvalidInput, match=r"remove it, or choose another directory with --out"):
        carry_out(_two(stop=False), Order(tmp_path))
    assert manifest.read_text() == torn


def test_the_directory_of_another_experiment_is_let_be(done: Path, tmp_path: Path) -> None:
    home = tmp_path / "made-up"
    home.mkdir()
    (home / "manifest.json").write_text(
        (done / "manifest.json").read_text().replace('"made-up"', '"other"')
    )
    with pytest.raises(InvalidInput, match="holds experiment 'other'"):
        carry_out(_two(stop=False), Order(tmp_path))


def test_a_torn_record_is_named(done: Path, tmp_path: Path) -> None:
    for name in ("manifest.json", "data-simulator.jsonl"):
        (tmp_path / name).write_text((done / name).read_text())
    with (tmp_path / "data-simulator.jsonl").open("a") as data:
        data.write('{"case": "la')
    with pytest.raises(InvalidInput, match=r"data-simulator.jsonl: line \d+ is no JSON"):
        Store(tmp_path).data()


def test_a_size_or_a_seed_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--seed -5: must not be negative"):
        Order(tmp_path, seed=-5)
    with pytest.raises(InvalidInput, match="--quick is for the simulator"):
        Order(tmp_path, quick=True, engine="spark")


def test_a_file_is_no_place_for_results(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(
        InvalidInput, match=r"cannot write results to .*taken.made-up: Not a directory"
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
    with pytest.raises(KeyboardInterrupt, match="the finished cases are in"):
        carry_out(three, Order(tmp_path, jobs=2))
    assert time.monotonic() - began < 60
    manifest = tmp_path / "made-up" / "unfinished" / "manifest.json"
    said = json.loads(manifest.read_text())["engines"]["simulator"]
    assert (said["cases"], said["complete"]) == (["latency"], False)
    assert not multiprocessing.active_children()


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    carry_out(_two(stop=False), Order(tmp_path, pictures=False), lambda *said: told.append(said))
    assert told == [("latency", 0.0), ("latency", 0.25), ("static", 0.5), ("static", 0.75)]


def test_progress_counts_experiments_by_how_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out = [100.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress(out, {"short": 4.0, "long": 90.0, "last": 6.0}, every=0.0)
    for name, share, took in (("short", 0.5, 2), ("long", 0.0, 2), ("long", 0.2, 18)):
        now[0] += took
        progress.of(name)("a", share)
    now[0] += 10
    progress.of("long")("b", 0.3)
    now[0] += 68
    progress.of("last")("a", 0.0)
    assert out.getvalue().splitlines() == [
        "1/3 short: a, 2%",
        "2/3 long: a, 4%",  # cases of one may be unequal, so that it says nothing yet
        "2/3 long: a, 22%",
        "2/3 long: b, 31%, about 70 s left",
        "3/3 last: a, 94%, about 10 s left",
    ]


def test_time_left_is_told_when_experiments_are_done_as_a_whole() -> None:
    out = io.StringIO()
    progress = Progress(out, {"short": 6.0, "long": 94.0}, every=0.0)
    progress.of("short")("a", 0.9)
    progress.of("long")("a", 0.01)
    first, then = out.getvalue().splitlines()
    assert first == "1/2 short: a, 5%"
    assert then == "2/2 long: a, 7%, about 10 s left"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(1, "10 s"), (44, "40 s"), (94, "90 s"), (95, "2 min"), (340, "6 min"), (4800, "1 h 20 min")],
)
def test_how_long_is_told_roughly(seconds: float, said: str) -> None:
    assert times.about(seconds) == said


def test_what_spark_cannot_show_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="made-up does not run on Spark: it is made up"):
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
    assert "| task hours | - | 1 | - |  | 1 (1 to 1) | - |  |" in table
    assert "| size | 1 | 1 | 1.00 | agrees | - | - | - |" in table


def test_a_directory_without_an_experiment_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no experiment"):
        Store(tmp_path).data()


def test_on_spark_cases_run_in_rotated_rounds_after_one_run_for_nothing(tmp_path: Path) -> None:
    ran: list[str] = []

    def case(name: str) -> Case:
        def job(setting: Setting) -> list[Record]:
            ran.append(name)
            return [{"kind": "seen", "value": len(ran)}]

        return Case(name, job)

    value = Claim("value", 2.0, lambda data: data.of("b", "seen")[0]["value"], neutral=1.0)
    cases = tuple(map(case, "abc"))
    several = replace(MADE_UP, spark=lambda: cases, claims=(value,))
    for rounds, verdict in ((3, DIRECTION), (1, "one run")):
        ran.clear()
        order = Order(tmp_path, engine="spark", pictures=False, rounds=rounds)
        (row,) = carry_out(several, order)
        assert ran == ["a", *"abcbcacab"[: 3 * rounds]]
        assert row.cells["spark"].verdict == verdict
        said = json.loads((tmp_path / "made-up" / "manifest.json").read_text())["engines"]["spark"]
        assert said["rounds"] == [[*"abc"], [*"bca"], [*"cab"]][:rounds]
        assert said["cases"] == [*"abc"]
        assert f"--engine spark --rounds {rounds}" in said["command"]
    with pytest.raises(InvalidInput, match="--rounds 0: must be at least 1"):
        Order(tmp_path, rounds=0)


def test_an_interrupt_on_spark_says_how_many_runs_are_done(tmp_path: Path) -> None:
    runs = iter(range(99))

    def job(setting: Setting) -> list[Record]:
        if next(runs) == 5:
            raise KeyboardInterrupt
        return [{"kind": "summary", "slot_seconds": 3600, "latency": {}}]

    two = replace(MADE_UP, spark=lambda: (Case("latency", job), Case("static", job)))
    with pytest.raises(KeyboardInterrupt):
        carry_out(two, Order(tmp_path, engine="spark"))
    table = (tmp_path / "made-up" / "unfinished" / "table.md").read_text()
    assert "**Not complete: 4 of 6 cases on Spark.**" in table


def test_a_manifest_says_what_it_ran_on(done: Path) -> None:
    said = json.loads((done / "manifest.json").read_text())["engines"]["simulator"]
    assert said["machine"].keys() == {"cores", "memory_gib", "processor", "python", "spark"}
    assert said["machine"]["cores"] >= 1
    assert {"commit", "code"} <= said.keys()


def test_what_was_withdrawn_is_told_until_it_is_run_anew(tmp_path: Path) -> None:
    both = replace(_two(stop=False), spark=lambda: _two(stop=False).cases(1, 1))
    carry_out(both, Order(tmp_path, pictures=False))
    file = tmp_path / "made-up" / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps({**manifest, "withdrawn": {"spark": "its steps were shorter"}}))
    said = "The result on Spark was withdrawn: its steps were shorter."
    table = tmp_path / "made-up" / "table.md"
    carry_out(both, Order(tmp_path, pictures=False))
    assert said in table.read_text()
    carry_out(both, Order(tmp_path, engine="spark", pictures=False, rounds=1))
    assert said not in table.read_text()
    assert "withdrawn" not in json.loads(file.read_text())
