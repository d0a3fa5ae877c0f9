from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import MemoryEngine, fake_clock

from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")

QUICK = ("--set", "observations=3", "--set", "settle=0s")


def flow(name: str) -> str:
    """A file with a chain in it whose source is what is slow; how to write it on a command line."""
    Path(f"{name}.py").write_text(
        "from penstock import Dataflow, Discard, Generator\n"
        f"flow = Dataflow('{name}')\n"
        "source = Generator(lambda rng, index, at: {}, 'n bigint', '300/s')\n"
        "stream = flow.source('in', source).map('double', lambda r: r, schema='n bigint')\n"
        "stream.sink('out', Discard())\n"
    )
    return f"{name}.py"


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[MemoryEngine]]:
    """Let profiles happen in engines of ours, one after the other, in no time."""

    def with_costs(*costs: dict[str, float], at: Any = None) -> list[MemoryEngine]:
        left = [MemoryEngine(each, rate=3000.0) for each in costs]
        clocks = [fake_clock(engine, at) for engine in left]
        made = iter(left)
        monkeypatch.setattr("penstock.app._spark", lambda *given: next(made))
        monkeypatch.setattr("penstock.app.Clock", lambda: clocks.pop(0))
        return left

    return with_costs


SLOW, FAST = {"in": 0.002, "double": 0.0001}, {"in": 0.001, "double": 0.0001}


def test_a_profile_ends_with_its_tables(penstock: Run, play: Any) -> None:
    (engine,) = play(SLOW)
    code, out, err = penstock(
        "profile", flow("one"), "--run-dir", "mine", "--max-slots", "7", *QUICK
    )
    assert code == 0
    words = " ".join(out.split())
    assert "pipeline time for a row share of rows ratio instances" in words
    assert "in 2.0 ms 100% source" in words
    assert "double 100 us 100% 1.00 1" in words
    assert "1 start in=1 double=1 500" in words
    assert "one: 3,000 rows/s with in=6 double=1" in words
    assert "all of the load was carried, 3,000 rows/s: a higher --load may tell more" in words
    assert out.endswith(" penstock run one.py --plan mine/plan.json\n")
    assert "[ 0:01] one: no change: round 1 (features) has 1 of 3 observations (in 500/s)" in err
    assert "throughput 500/s" in err
    assert engine.plan.pipeline_of("in").parallelism == 6
    assert {f.name for f in Path("mine").glob("p*.json")} == {"plan.json", "profile.json"}


def test_its_plan_can_be_run(penstock: Run, play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    play(SLOW)
    name = flow("one")
    penstock("profile", name, "--run-dir", "mine", "--max-slots", "7", *QUICK)
    engine = MemoryEngine(SLOW, rate=3000.0)
    monkeypatch.setattr("penstock.app._spark", lambda master, conf: engine)
    monkeypatch.setattr("penstock.app.Clock", lambda: fake_clock(engine))
    code, out, _ = penstock("run", name, "--plan", "mine/plan.json", "--for", "5s", "--json")
    assert code == 0
    assert json.loads(out)["throughput"]["last"] == pytest.approx(3000, rel=0.01)


def test_a_profile_in_json_is_one_object(penstock: Run, play: Any) -> None:
    play(SLOW)
    code, out, _ = penstock("profile", flow("one"), "--json", "--max-slots", "4", *QUICK)
    data = json.loads(out)
    assert (code, data["flow"], data["complete"], data["carried_all"]) == (0, "one", True, False)
    assert data["rounds"][data["final"]]["throughput"] == pytest.approx(1500, rel=0.01)
    assert [p["operators"] for p in data["plan"]["pipelines"]] == [["in"], ["double", "out"]]
    assert json.loads((Path(data["run_dir"]) / "profile.json").read_text()) == data


def test_a_workload_is_profiled_in_its_own_directory(penstock: Run, play: Any) -> None:
    play({"orders": 0.002})
    code, out, _ = penstock("profile", "linear", "--json", "--load", "3000/s", *QUICK)
    assert code == 0
    assert json.loads(out)["run_dir"].startswith("runs/linear-")
    assert len(list(Path("runs").iterdir())) == 1


def test_ctrl_c_ends_it_with_what_was_found(penstock: Run, play: Any) -> None:
    play(SLOW, at={10.0: lambda: os.kill(os.getpid(), signal.SIGINT)})
    code, out, _ = penstock("profile", flow("one"), *QUICK)
    assert code == 0
    assert "ended early: the best of 2 rounds, not of all" in out


def test_an_end_before_anything_was_found_exits_2(penstock: Run, play: Any) -> None:
    play(SLOW)
    code, out, err = penstock("profile", flow("one"), "--for", "1s", "--json")
    assert code == 2
    assert json.loads(out)["error"].startswith(
        "profiling 'one' found nothing: the run ended before"
    )
    assert "penstock: profiling 'one' found nothing" in err


def test_dataflows_are_ranked(penstock: Run, play: Any) -> None:
    play(SLOW, FAST)
    words = ("compare", flow("slow"), flow("fast"), "--run-dir", "both", "--max-slots", "3")
    code, out, _ = penstock(*words, *QUICK)
    assert code == 0
    said = [line.split() for line in out.splitlines()]
    at = next(i for i, line in enumerate(said) if line[:1] == ["dataflow"])
    assert said[at + 1][0] == "fast.py"
    assert said[at + 1][1:5] == ["2,000", "100%", "3", "667"]
    assert said[at + 1][-1] == "best"
    assert said[at + 2][0] == "slow.py"
    assert said[at + 2][1:4] == ["1,000", "50%", "3"]
    assert sorted(p.name for p in Path("both").iterdir()) == ["1-flow", "2-flow"]


def test_a_ranking_in_json(penstock: Run, play: Any) -> None:
    play(SLOW, FAST)
    words = ("compare", flow("slow"), flow("fast"), "--json", "--max-slots", "3")
    code, out, _ = penstock(*words, *QUICK)
    data = json.loads(out)
    assert code == 0
    assert [r["name"] for r in data["ranking"]] == ["fast.py", "slow.py"]
    assert data["ranking"][1]["share"] == pytest.approx(0.5, rel=0.01)
    assert data["left_out"] == []
    assert set(data["profiles"]) == {"slow.py", "fast.py"}


def test_ctrl_c_leaves_out_the_rest(penstock: Run, play: Any) -> None:
    play(SLOW, FAST, at={10.0: lambda: os.kill(os.getpid(), signal.SIGINT)})
    code, out, _ = penstock("compare", flow("slow"), flow("fast"), *QUICK)
    assert code == 0
    assert "not profiled: fast.py" in out


def test_resources_are_related_to_throughput(penstock: Run, play: Any) -> None:
    play(SLOW)
    code, out, _ = penstock(
        "capacity", flow("one"), "--run-dir", "mine", *QUICK, "--max-slots", "7"
    )
    assert code == 0
    rows = [line.split() for line in out.splitlines()][1:]
    assert rows == [["1", str(n + 1), f"{500 * n:,}"] for n in range(1, 7)]
    kept = penstock("capacity", "mine", "--target", "1200/s")
    assert kept[1].endswith("1,200 rows/s take 4 instances on 1 executor\n")
    beyond = penstock("capacity", "mine/profile.json", "--target", "6k/s")
    assert beyond[1].endswith(
        "6,000 rows/s take 14 instances on 2 executors, reckoned from the largest that was "
        "measured\n"
    )
    code, out, _ = penstock("capacity", "mine", "--target", "1200", "--json")
    data = json.loads(out)
    assert data["points"][0] == {"executors": 1, "slots": 2, "throughput": pytest.approx(500)}
    assert data["need"] == {"target": 1200.0, "executors": 1, "slots": 4, "measured": True}
    assert data["within_latency"] is True


def test_where_all_is_late_that_is_said(penstock: Run, play: Any) -> None:
    play({"in": 0.0001, "double": 0.004})
    words = ("capacity", flow("one"), "--target", "10/s", "--max-slots", "4", "--run-dir", "mine")
    code, out, _ = penstock(*words, *QUICK)
    assert code == 0
    assert re.search(
        r"no round kept the latency, the nearest took \d+% of it \(a wider bound is a "
        r"--set latency=, or a constraint of the dataflow\): all that was carried, however late\n"
        r"10 rows/s take 2 instances on 1 executor\n",
        out,
    )
    code, out, _ = penstock("capacity", "mine", "--json")
    data = json.loads(out)
    assert data["points"]
    assert data["within_latency"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["profile", "wordcont"], "unknown workload 'wordcont', did you mean 'wordcount'"),
        (["profile", "linear", "--set", "slices=1"], "policy 'stepwise' has no option 'slices'"),
        (["profile", "linear", "--set", "k=much"], "policy 'stepwise', option 'k': 'much' is no"),
        (["profile", "linear", "--set", "k=0.5"], "policy 'stepwise': k must be 1 or more"),
        (["profile", "linear", "--load", "fast"], "cannot read the load 'fast'"),
        (["profile", "linear", "--for", "long"], "cannot read the duration 'long'"),
        (["profile", "linear", "--max-slots", "0"], "a budget of 0 slots runs nothing"),
        (["profile", "linear", "--executors", "0"], "a plan needs at least one executor, found 0"),
        (["compare", "linear"], "to compare takes two dataflows or more, each of them once"),
        (["compare", "linear", "linear"], "to compare takes two dataflows or more"),
        (["compare", "linear", "gone.py"], "there is no file 'gone.py'"),
        (["capacity", "."], "there is no profile in '.': `penstock profile FLOW` makes one"),
        (["capacity", "linear", "--target", "lots"], "'lots' is no rate above zero"),
        (["capacity", "linear", "--target", "0"], "'0' is no rate above zero"),
    ],
)
def test_bad_words_are_one_line_before_spark_starts(
    penstock: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setattr("penstock.app._spark", lambda *given: pytest.fail("started"))
    code, out, err = penstock(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"penstock: {said}")
    assert err.count("\n") == 1
    assert not [*Path().glob("runs/*")]


# --- on a simulated cluster ---------------------------------------------------------------------

SIMULATED = ("--simulate", "--executors", "2", "--cores", "2", "--cost", "double=2ms")
SIMULATED += ("--set", "observations=4", "--set", "settle=4s")


def test_a_profile_on_a_simulated_cluster_needs_no_spark(penstock: Run) -> None:
    words = ("--load", "4000/s", "--max-slots", "6", "--run-dir", "mine")
    code, out, _ = penstock("profile", flow("one"), *SIMULATED, *words)
    assert code == 0
    assert "double 2.0 ms 100% 1.00 1" in " ".join(out.split())
    kept = json.loads(Path("mine/profile.json").read_text())
    best = kept["rounds"][kept["final"]]
    instances = best["plan"]["pipelines"][1]["parallelism"]
    assert 3 <= instances <= 5
    assert best["throughput"] == pytest.approx(min(500 * instances, 2000), rel=0.05)
    assert kept["plan"] == json.loads(Path("mine/plan.json").read_text())
    assert kept["ratios"] == {"double": 1.0}


def test_simulated_dataflows_are_compared_and_their_capacity_is_told(penstock: Run) -> None:
    one, two = flow("one"), flow("two")
    more = "stream = stream.map('more', lambda r: r, schema='n bigint')\nstream.sink"
    Path(two).write_text(Path(two).read_text().replace("stream.sink", more))
    words = ("--load", "4000/s", "--max-slots", "6", "--selectivity", "double=1")
    code, out, _ = penstock("compare", one, two, *SIMULATED, *words, "--json")
    assert code == 0
    first, second = json.loads(out)["ranking"]
    assert (first["name"], second["name"]) == (one, two)
    assert first["per_slot"] > second["per_slot"]
    code, out, _ = penstock("capacity", one, *SIMULATED, *words[:4], "--target", "900/s", "--json")
    assert code == 0
    assert json.loads(out)["need"]["slots"] >= 3


def test_a_cost_of_an_operator_that_is_not_there_is_told_before_anything_runs(
    penstock: Run,
) -> None:
    code, _, err = penstock("profile", flow("one"), "--simulate", "--cost", "treble=1ms")
    assert code == 2
    assert "cost of an unknown operator 'treble'" in err
    assert not Path("runs").exists() or not list(Path("runs").iterdir())
