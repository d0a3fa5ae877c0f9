"""`penstock run`, in engines that need no Spark."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.policies.stela.policy import Stela
from penstock.testing import MemoryEngine

from ..control.doubles import (
    FailingEngine,
    LossyEngine,
    StuckEngine,
    TellingEngine,
)
from .conftest import Run, play, press

pytestmark = pytest.mark.usefixtures("here")


def test_a_run_ends_with_a_table(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    masters = play(monkeypatch, MemoryEngine())
    code, out, err = penstock("run", "wordcount", "--for", "20s", "--master", "local[2]")
    assert code == 0
    assert "wordcount on memory, policy static" in out
    assert "[ 0:01] wordcount: in 1,000/s" in err
    assert masters == ["local[2]"]
    assert len(list(Path("runs").glob("wordcount-*/summary.json"))) == 1


def test_json_is_one_object_whatever_others_print(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noisy(MemoryEngine):
        def stop(self, drain: bool = True) -> None:
            print("from Python")
            sys.stdout.flush()
            os.write(1, b"from the JVM\n")
            super().stop(drain)

    play(monkeypatch, Noisy())
    code, out, err = penstock("run", "wordcount", "--for", "5s", "--json", "--load", "10/s")
    assert code == 0
    data = json.loads(out)
    assert out.startswith("{")
    assert data["flow"] == "wordcount"
    assert data["rows_ingested"] > 0
    assert data["plan"]["pipelines"][0]["operators"][0] == "tweets"
    assert "from Python" in err
    assert "from the JVM" in err


def test_too_many_dead_letters_have_an_exit_code_of_their_own(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, LossyEngine(0.5))
    code, out, err = penstock("run", "wordcount", "--for", "5s", "--json", "--no-view")
    assert code == 3
    assert json.loads(out)["dead_letters"]["too_many"] is True
    assert "rows became dead letters, more than 10%; see runs/" in err
    play(monkeypatch, LossyEngine(0.5))
    allowed = ("--dead-letters-at-most", "60%")
    assert penstock("run", "wordcount", "--for", "5s", "--no-view", *allowed)[0] == 0
    code, _, err = penstock("run", "wordcount", "--dead-letters-at-most", "all")
    assert (code, "from 0 to 1" in err) == (2, True)


def test_a_change_that_would_come_after_the_end_is_refused_before_the_start(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text("raise SystemExit('this file is not even loaded')")
    code, _, err = penstock("run", "mine.py", "--for", "1 minute", "--change", "90s:count=4")
    assert code == 2
    assert "the change '90s:count=4' comes too late: the run ends after 1m" in err


def test_changes_that_never_came_are_named(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, MemoryEngine(), at={3.05: press})
    words = ("--for", "60s", "--change", "2s:count=2", "--change", "30s:count=4")
    code, out, err = penstock("run", "wordcount", *words, "--no-view")
    assert code == 0
    assert "the run ended before 30s:count=4" in out
    assert "penstock: the change '30s:count=4' never came: the run ended before" in err
    assert "2s:count=2" not in err


def test_no_view_shows_nothing_while_it_runs(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, MemoryEngine())
    code, _, err = penstock("run", "wordcount", "--for", "5s", "--no-view")
    assert (code, err) == (0, "")


def test_a_flow_in_a_file_runs(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.py").write_text(
        "from penstock.dataflow.connectors import Discard, Generator\n"
        "from penstock.dataflow.flow import Dataflow\n"
        "flow = Dataflow('mine')\n"
        "source = Generator(lambda rng, index, at: {}, 'n bigint')\n"
        "flow.source('in', source).sink('out', Discard())\n"
    )
    play(monkeypatch, MemoryEngine())
    code, out, _ = penstock("run", "mine.py", "--for", "3s", "--json", "--run-dir", "kept")
    assert code == 0
    assert json.loads(out)["run_dir"] == "kept"
    code, _, err = penstock("run", "mine.py", "--out", "there")
    assert code == 2
    assert err.startswith("penstock: --out is for built-in workloads")


def test_a_plan_file_is_where_the_run_starts(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = json.loads(penstock("explain", "wordcount", "--json")[1])
    plan["plan"]["pipelines"][0]["parallelism"] = 7
    Path("plan.json").write_text(json.dumps(plan))
    play(monkeypatch, MemoryEngine())
    code, out, _ = penstock("run", "wordcount", "--for", "3s", "--json", "--plan", "plan.json")
    assert code == 0
    assert json.loads(out)["plan"]["pipelines"][0]["parallelism"] == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wordcuont"], "penstock: unknown workload 'wordcuont', did you mean 'wordcount'?"),
        (["gone.py:flow"], "penstock: there is no file 'gone.py'"),
        (["wordcount", "--load", "many"], "penstock: "),
        (["wordcount", "--load", "trace:gone.csv"], "penstock: "),
        (["wordcount", "--plan", "gone.json"], "penstock: cannot read the plan file 'gone.json'"),
        (["wordcount", "--for", "soon"], "penstock: cannot read the duration 'soon'"),
        (["wordcount", "--policy", "magic"], "penstock: unknown policy 'magic'"),
        (["wordcount", "--change", "count=4"], "penstock: cannot read the change 'count=4'"),
        (["wordcount", "--quiet", "tonight"], "penstock: cannot read the quiet period 'tonight'"),
        (["wordcount", "--cooldown", "soon"], "penstock: cannot read the duration 'soon'"),
        (["wordcount", "--undo=-1s"], "penstock: the guard's undo is a time of 0 s or more"),
        (["wordcount", "--max-slots", "0"], "penstock: a budget of 0 slots runs nothing"),
        (["wordcount", "--change", "9s:faster"], "penstock: cannot read the request 'faster'"),
        (
            ["wordcount", "--change", "9s:cuont=4"],
            "penstock: 'cuont' is no operator of 'wordcount'",
        ),
    ],
)
def test_bad_words_are_one_line_and_exit_2(
    penstock: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    play(monkeypatch, MemoryEngine())
    code, out, err = penstock("run", *words)
    assert (code, out) == (2, "")
    assert err.startswith(said)
    assert err.count("\n") == 1
    assert not list(Path().glob("runs/*"))


def test_a_plan_that_does_not_fit_is_refused(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("plan.json").write_text('{"pipelines": [{"operators": ["tweets"]}]}')
    play(monkeypatch, MemoryEngine())
    code, _, err = penstock("run", "wordcount", "--plan", "plan.json")
    assert code == 2
    assert "operator 'parse' is in no pipeline" in err
    assert len(err.splitlines()) == 1
    Path("plan.json").write_text('{"pipelines": [{"operators": ["orders", "step"]}]}')
    code, _, err = penstock("run", "wordcount", "--plan", "plan.json")
    assert (code, len(err.splitlines())) == (2, 1)
    assert err.startswith("penstock: the plan does not fit the dataflow 'wordcount': operator ")
    assert err.endswith("; and 3 more reasons\n")


def test_contradictory_bounds_are_one_line(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.py").write_text(
        "from penstock.dataflow.connectors import Discard, Generator\n"
        "from penstock.dataflow.flow import Dataflow\n"
        "flow = Dataflow('mine')\n"
        "source = Generator(lambda rng, index, at: {}, 'n bigint')\n"
        "bounds = {'min_parallelism': 4, 'max_parallelism': 2}\n"
        "flow.source('in', source, **bounds).sink('out', Discard())\n"
    )
    play(monkeypatch, MemoryEngine())
    for words, said in (
        (["run", "mine.py"], "min_parallelism 4 is above max_parallelism 2"),
        (["explain", "mine.py"], "min_parallelism 4 is above max_parallelism 2"),
        (["run", "wordcount", "--backup", "5s..1s"], "backup interval '5s..1s' must"),
        (["run", "wordcount", "--quiet", "9s..5s"], "'9s..5s'"),
        (
            ["run", "wordcount", "--policy", "threshold", "--set", "below=0.9"],
            "0 <= below < above <= 1 does not hold for below=0.9",
        ),
    ):
        code, out, err = penstock(*words)
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert said in err


def test_an_error_is_a_json_object_too(penstock: Run) -> None:
    code, out, err = penstock("run", "nothing", "--json")
    assert code == 2
    assert json.loads(out) == {"error": err.strip().removeprefix("penstock: ")}


def test_a_run_directory_of_another_flow_is_refused(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, MemoryEngine())
    assert penstock("run", "linear", "--for", "2s", "--run-dir", "mine")[0] == 0
    play(monkeypatch, MemoryEngine())
    code, _, err = penstock("run", "wordcount", "--for", "2s", "--run-dir", "mine", "--no-view")
    assert code == 2
    assert err.startswith("penstock: ")
    assert "linear" in err


def test_a_flow_that_fails_says_why(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, FailingEngine())
    code, _, err = penstock("run", "wordcount", "--no-view")
    assert (code, err) == (2, "penstock: operator 'double' (flow.py:7) failed: boom\n")


def test_a_result_that_is_not_exact_exits_1(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, TellingEngine({"tweets": 3}, pa.table({"word": ["a"], "n": [1]})))
    code, out, err = penstock("run", "wordcount", "--for", "2s", "--json", "--no-view")
    assert code == 1
    assert json.loads(out)["exact"] is False
    assert err.startswith("penstock: the result of 'wordcount' is not exact: counts: 1 rows where")


def test_ctrl_c_once_is_a_good_end(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, MemoryEngine(), {3.0: press})
    code, out, _ = penstock("run", "wordcount", "--json")
    assert code == 0
    assert json.loads(out)["interrupted"] is True


def test_ctrl_c_twice_exits_130(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, StuckEngine(), {3.0: press})
    code, _, err = penstock("run", "wordcount", "--no-view")
    assert code == 130
    assert err.startswith("penstock: stopped at once; what was in flight is kept in runs/wordc")


def test_an_error_of_ours_is_short_unless_asked(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(MemoryEngine):
        def start(self, *given: Any) -> None:
            raise ZeroDivisionError("oops\nand more")

    play(monkeypatch, Broken())
    code, _, err = penstock("run", "wordcount", "--no-view")
    assert code == 70
    assert err == "penstock: unexpected ZeroDivisionError: oops (PENSTOCK_DEBUG=1 shows where)\n"
    monkeypatch.setenv("PENSTOCK_DEBUG", "1")
    assert "Traceback" in penstock("run", "wordcount", "--no-view")[2]
    assert not list(Path().glob("runs/*"))


def test_changes_are_scripted(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, MemoryEngine())
    script = ("--change", "3s:count=4", "--change", "6s:split count, executors=2")
    code, out, err = penstock("run", "wordcount", "--for", "10s", "--json", *script)
    assert code == 0
    made = json.loads(out)["transitions"]
    assert [t["reason"] for t in made] == [
        "scripted: count=4",
        "scripted: split count, executors=2",
    ]
    assert made[0]["changes"] == ["tweets: parallelism 1 -> 4"]
    assert "tweets: parallelism 1 -> 4 (0.0 ms, output held 0.0 ms): scripted: count=4" in err


def test_a_script_with_a_typing_error_does_not_start_spark(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text("raise SystemExit('it was loaded')\n")
    monkeypatch.setattr(
        "penstock.engines.spark.session.flow_session.session", lambda *_: pytest.fail("Spark")
    )
    code, _, err = penstock("run", "mine.py", "--change", "20s:fastre")
    assert (code, err.split(":")[1]) == (2, " cannot read the request 'fastre'")


def test_scaling_on_demand_is_scripted(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def scale_out(self: Stela, context: Context, executors: int) -> Decision:
        return Decision(Plan(context.plan.pipelines, 1 + executors), "there is work for them")

    monkeypatch.setattr(Stela, "scale_out", scale_out)
    play(monkeypatch, MemoryEngine())
    code, out, _ = penstock(
        "run", "wordcount", "--for", "9s", "--json", "--change", "3s:scale-out 2"
    )
    assert code == 0
    data = json.loads(out)
    assert data["plan"]["executors"] == 3
    assert data["transitions"][0]["reason"] == "scripted: scale-out 2; there is work for them"


@pytest.mark.usefixtures("greedy")
def test_a_budget_and_a_cool_down_are_given_as_options(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, MemoryEngine())
    words = ("--policy", "greedy", "--max-slots", "3", "--cooldown", "2s", "--quiet", "5s..9s")
    code, out, err = penstock("run", "wordcount", "--for", "20s", "--json", *words)
    assert code == 0
    made = json.loads(out)["transitions"]
    assert [t["changes"] for t in made] == [
        ["tweets: parallelism 1 -> 2"],
        ["tweets: parallelism 2 -> 3"],
    ]
    assert "vetoed: tweets: parallelism 2 -> 3: more is more [cool-down: 1.0 s since" in err
    assert "[budget: 4 instances, the budget is 3, which the plan in force uses up]" in err


@pytest.mark.usefixtures("greedy")
def test_a_dry_run_says_what_it_would_do_and_does_nothing(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, MemoryEngine())
    words = ("run", "wordcount", "--for", "9s", "--json", "--policy", "greedy", "--advise")
    code, out, err = penstock(*words)
    assert (code, json.loads(out)["transitions"]) == (0, [])
    assert err.count("would change: tweets: parallelism 1 -> 2: more is more") == 1
