from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock import policies
from penstock.cli import doctor
from penstock.errors import Refused
from penstock.metrics.snapshot import Snapshot
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.policies.base.policy import Context
from penstock.testing import MemoryEngine, fake_clock

from ..control.doubles import (
    FailingEngine,
    LossyEngine,
    StuckEngine,
    TellingEngine,
    running,
)
from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


def play(monkeypatch: pytest.MonkeyPatch, engine: MemoryEngine, at: Any = None) -> list[str | None]:
    """Let runs happen in an engine of ours, in no time; the masters asked for."""
    masters: list[str | None] = []
    monkeypatch.setattr("penstock.app._spark", lambda m, conf: masters.append(m) or engine)
    monkeypatch.setattr("penstock.app.Clock", lambda: fake_clock(engine, at))
    return masters


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


# --- run ----------------------------------------------------------------------------------------


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
        (["run", "wordcount", "--backup", "5s..1s"], "the backup interval '5s..1s' must"),
        (["run", "wordcount", "--quiet", "9s..5s"], "'9s..5s'"),
        (
            ["run", "wordcount", "--policy", "threshold", "--set", "below=0.9"],
            "0 <= below < above <= 1 does not hold for below=0.9",
        ),
    ):
        code, out, err = penstock(*words)
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert said in err


def test_a_case_of_another_flow_is_one_line(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {}
    for flow in ("wordcount", "linear"):
        play(monkeypatch, MemoryEngine())
        assert penstock("run", flow, "--for", "3s", "--run-dir", flow, "--no-view")[0] == 0
        cases[flow] = json.loads(penstock("history", flow, "--snapshot")[1])
    for part in ("plan", "snapshots", "dataflow"):
        mixed = {**cases["wordcount"], part: cases["linear"][part]}
        Path("case.json").write_text(json.dumps(mixed))
        code, out, err = penstock("advise", "--snapshot", "case.json", "--policy", "threshold")
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert "of another dataflow: '" in err
    large = json.dumps({**cases["wordcount"], "now": 10**400})
    Path("case.json").write_text(large)
    code, out, err = penstock("advise", "--snapshot", "case.json", "--policy", "threshold")
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert "100000000000000000... has more than 18 digits" in err


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


# --- asking a running flow ----------------------------------------------------------------------


def test_a_running_flow_is_changed_from_another_terminal(penstock: Run) -> None:
    engine = MemoryEngine()
    with running(Path("mine"), engine):
        code, out, err = penstock("scale", "mine", "double=4", "executors=2")
        assert (code, err) == (0, "")
        assert out == ("numbers: parallelism 1 -> 4; executors 1 -> 2 (0.00 s, interrupted 0 ms)\n")
        assert penstock("split", "mine", "double")[0] == 0
        assert len(engine.plan.pipelines) == 2
        assert penstock("fuse", "mine", "numbers", "double")[0] == 0
        assert len(engine.plan.pipelines) == 1
        assert penstock("pause", "mine")[1].startswith("numbers: admission unlimited -> 0 (")
        code, out, _ = penstock("resume", "mine", "--json", "--timeout", "20s")
        answer = json.loads(out)
        assert (code, answer["done"]) == (0, True)
        assert answer["transition"]["changes"] == ["numbers: admission 0 -> unlimited"]


def test_what_is_refused_exits_2(penstock: Run) -> None:
    with running(Path("mine"), MemoryEngine()):
        code, out, err = penstock("scale", "mine", "dubble=4")
        assert (code, out) == (2, "")
        assert err == "penstock: 'dubble' is no operator of 'numbers'; did you mean 'double'?\n"
        code, out, _ = penstock("split", "mine", "numbers", "--json")
        assert code == 2
        assert json.loads(out)["error"].startswith("there is nothing to split")
    code, _, err = penstock("pause", "mine")
    assert code == 2
    assert err.startswith("penstock: nothing is running in mine")


def test_words_that_cannot_be_asked_are_told_at_once(penstock: Run) -> None:
    assert "cannot read the setting 'pause'" in penstock("scale", "mine", "pause")[2]
    assert "'four' is no whole number" in penstock("scale", "mine", "count=four")[2]
    assert "cannot read the duration 'long'" in penstock("pause", "mine", "--timeout", "long")[2]
    assert penstock("fuse", "mine", "parse")[0] == 2


def test_scaling_on_demand_and_switching_the_policy(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scale_out(context: Context, executors: int) -> Decision:
        return Decision(Plan(context.plan.pipelines, 1 + executors), "there is work for them")

    def scale_in(context: Context, executors: int) -> Decision:
        raise Refused("one executor is the least")

    fake = SimpleNamespace(scale_out=scale_out, scale_in=scale_in)
    monkeypatch.setitem(sys.modules, "penstock.policies.stela.policy", fake)
    engine = MemoryEngine()
    with running(Path("mine"), engine):
        code, out, _ = penstock("scale-out", "mine", "2", "--json")
        assert (code, engine.plan.executors) == (0, 3)
        answer = json.loads(out)["transition"]
        assert answer["reason"] == "asked: scale-out 2; there is work for them"
        code, _, err = penstock("scale-in", "mine", "1")
        assert (code, err) == (2, "penstock: one executor is the least\n")
        assert penstock("policy", "mine", "off")[1] == "the policy of this run is now: off\n"
    assert "'none' is no whole number" in penstock("scale-in", "mine", "none")[2]
    assert "cannot read the request 'policy maybe'" in penstock("policy", "mine", "maybe")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scale-in", "5"], "no scale-in: without 5 of 1 executors nothing is left to run on"),
        (["scale-out", "1"], "no scale-out: not measured: "),
    ],
)
def test_scaling_on_demand_that_is_not_done_exits_2(
    penstock: Run, words: list[str], said: str
) -> None:
    class Blind(MemoryEngine):
        def observe(self) -> Snapshot:
            return replace(super().observe(), pipelines={}, settled=True)

    engine = Blind()
    with running(Path("mine"), engine):
        code, out, err = penstock(words[0], "mine", *words[1:])
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert err.startswith(f"penstock: {said}")
        code, out, _ = penstock(words[0], "mine", *words[1:], "--json")
        assert (code, engine.plan.executors) == (2, 1)
        assert json.loads(out)["error"].startswith(said)


def test_scaling_on_demand_is_scripted(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def scale_out(context: Context, executors: int) -> Decision:
        return Decision(Plan(context.plan.pipelines, 1 + executors), "there is work for them")

    monkeypatch.setitem(
        sys.modules, "penstock.policies.stela.policy", SimpleNamespace(scale_out=scale_out)
    )
    play(monkeypatch, MemoryEngine())
    code, out, _ = penstock(
        "run", "wordcount", "--for", "9s", "--json", "--change", "3s:scale-out 2"
    )
    assert code == 0
    data = json.loads(out)
    assert data["plan"]["executors"] == 3
    assert data["transitions"][0]["reason"] == "scripted: scale-out 2; there is work for them"


# --- policies that decide -----------------------------------------------------------------------


class Greedy:
    """One instance more, always."""

    name = "greedy"

    def decide(self, context: Context, memory: Any) -> tuple[Decision, Any]:
        plan = context.plan
        first = plan.pipelines[0]
        more = plan.with_pipeline(first.name, parallelism=first.parallelism + 1)
        return Decision(more, "more is more", {"instances": plan.slots}), memory


@pytest.fixture
def greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    known = policies.get
    monkeypatch.setattr(policies, "get", lambda name: Greedy() if name == "greedy" else known(name))


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


@pytest.mark.usefixtures("greedy")
def test_a_run_is_looked_back_at_with_its_own_budget(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, MemoryEngine())
    run = ("run", "wordcount", "--for", "6s", "--run-dir", "mine", "--max-slots", "1")
    assert penstock(*run)[0] == 0
    assert penstock("history", "mine", "--snapshot", "--out", "case.json")[0] == 0
    assert json.loads(Path("case.json").read_text())["limits"]["slots"] == 1
    for words in (["mine"], ["--snapshot", "case.json"]):
        asked = ("advise", *words, "--policy", "greedy")
        assert "[budget: 2 instances, the budget is 1, which the plan" in penstock(*asked)[1]
        assert "parallelism 1 -> 2: more is more" in penstock(*asked, "--max-slots", "9")[1]


@pytest.mark.usefixtures("greedy")
def test_a_run_is_played_to_another_policy(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, MemoryEngine())
    script = ("--change", "3s:count=4")
    assert penstock("run", "wordcount", "--for", "6s", "--run-dir", "mine", *script)[0] == 0
    code, out, err = penstock("advise", "mine", "--policy", "greedy", "--max-slots", "9")
    assert (code, err) == (0, "")
    said = out.splitlines()
    assert said[0] == "[ 0:01] tweets: parallelism 1 -> 2: more is more"
    assert said[1].endswith("tweets: parallelism 4 -> 5: more is more")
    assert said[2].startswith("greedy would have changed something at ")
    data = json.loads(penstock("advise", "mine", "--policy", "greedy", "--json")[1])
    assert (data["flow"], data["policy"]) == ("wordcount", "greedy")
    assert data["snapshots"] == len(data["decisions"])
    assert data["decisions"][0]["numbers"] == {"instances": 1}
    assert penstock("advise", "mine", "--policy", "static")[1].startswith("static would have")


@pytest.mark.usefixtures("greedy")
def test_one_moment_of_a_run_is_put_to_a_policy(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, MemoryEngine())
    script = ("--change", "3s:count=4")
    penstock("run", "wordcount", "--for", "6s", "--run-dir", "mine", *script)
    Path("late.json").write_text(penstock("history", "mine", "--snapshot")[1])
    words = ("history", "mine", "--snapshot", "--at", "2s", "--out", "early.json")
    assert penstock(*words) == (0, "", "")
    code, out, _ = penstock("advise", "--snapshot", "early.json", "--policy", "greedy", "--json")
    answer = json.loads(out)
    assert (code, answer["flow"], answer["policy"]) == (0, "wordcount", "greedy")
    assert answer["changes"] == ["tweets: parallelism 1 -> 2"]
    assert answer["plan"]["pipelines"][0]["parallelism"] == 2
    late = penstock("advise", "--snapshot", "late.json", "--policy", "greedy")[1]
    assert late.endswith("tweets: parallelism 4 -> 5: more is more\n")
    words = ("advise", "--snapshot", "late.json", "--policy", "greedy", "--max-slots", "4")
    assert "vetoed [budget: 5 instances, the budget is 4" in penstock(*words)[1]
    assert "no change" in penstock("advise", "--snapshot", "late.json", "--policy", "static")[1]


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_advice_of_a_policy_that_fails_is_no_success(
    penstock: Run, monkeypatch: pytest.MonkeyPatch, as_json: tuple[str, ...]
) -> None:
    play(monkeypatch, MemoryEngine())
    assert penstock("run", "wordcount", "--for", "3s", "--run-dir", "mine", "--no-view")[0] == 0
    assert penstock("history", "mine", "--snapshot", "--out", "case.json")[0] == 0

    def fail(*given: Any) -> None:
        raise ValueError("boom")

    monkeypatch.setattr("penstock.policies.baselines.static.Static.decide", fail)
    for words in (["mine"], ["--snapshot", "case.json"]):
        code, out, _ = penstock("advise", *words, "--policy", "static", *as_json)
        assert code == 1
        assert "policy 'static' failed: ValueError: boom" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["advise", "--policy", "static"], "say what to look at: a run directory, or --snapshot"),
        (["advise", "x", "--snapshot", "y", "--policy", "static"], "say what to look at"),
        (["advise", "gone", "--policy", "static"], "'gone' holds no run that can be read"),
        (["advise", "gone", "--policy", "sttic"], "unknown policy 'sttic', did you mean 'static'"),
        (["advise", "--snapshot", "gone", "--policy", "static"], "cannot read the case 'gone'"),
        (["advise", "--snapshot", "bad.json", "--policy", "static"], "the case 'bad.json' is not"),
        (
            ["advise", "--snapshot", "odd.json", "--policy", "static"],
            "the case 'odd.json': a case is",
        ),
        (["history", "gone"], "'gone' holds no run that can be read"),
        (["history", "gone", "--at", "3s"], "'gone' holds no run that can be read"),
        (["export", "gone"], "'gone' holds no run that can be read"),
    ],
)
def test_bad_words_to_look_back_with_are_one_line(
    penstock: Run, words: list[str], said: str
) -> None:
    Path("bad.json").write_text("{")
    Path("odd.json").write_text("[]")
    code, out, err = penstock(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"penstock: {said}")
    assert err.count("\n") == 1


# --- the other commands -------------------------------------------------------------------------


def test_explain_shows_everything_before_a_run(penstock: Run) -> None:
    code, out, _ = penstock("explain", "wordcount")
    assert code == 0
    for word in ("regions", "pipelines", "tweets", "word string", "aggregate", "keyed", "3s"):
        assert word in out
    assert "exactly once" in out


def test_explain_in_json(penstock: Run) -> None:
    data = json.loads(penstock("explain", "diamond", "--json")[1])
    assert list(data) == ["flow", "fingerprint", "structure", "regions", "sinks", "plan"]
    assert {sink["delivery"] for sink in data["sinks"]} == {"exactly once"}
    assert data["regions"][0] == {"operators": ["orders"], "kind": "source", "key": []}


def test_explain_tells_all_problems_of_a_flow(penstock: Run) -> None:
    Path("bad.py").write_text(
        "from penstock.dataflow.flow import Dataflow\n"
        "flow = Dataflow('bad')\n"
        "flow.constrain('a', 'b', latency='1s')\n"
    )
    code, _, err = penstock("explain", "bad.py")
    assert code == 2
    assert err.startswith("penstock: dataflow 'bad' has")
    assert "bad.py:3" in err


def test_workloads_are_listed(penstock: Run) -> None:
    assert "wordcount" in penstock("workloads")[1]
    listed = json.loads(penstock("workloads", "--json")[1])["workloads"]
    assert {w["name"] for w in listed} >= {"wordcount", "linear", "diamond", "star"}


def test_doctor_exits_by_what_it_finds(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    good = doctor.Check("java", doctor.Level.OK, "17")
    bad = doctor.Check("memory", doctor.Level.FAIL, "too little", "buy some")
    monkeypatch.setattr(doctor, "examine", lambda: (good,))
    assert penstock("doctor")[0] == 0
    monkeypatch.setattr(doctor, "examine", lambda: (good, bad))
    code, out, _ = penstock("doctor")
    assert code == 1
    assert "buy some" in out
    code, out, _ = penstock("doctor", "--json")
    assert code == 1
    assert json.loads(out)["ok"] is False


def test_version(penstock: Run) -> None:
    assert penstock("version")[1].startswith("penstock 0.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["run", "wordcount", "--speed", "9"], "unrecognized arguments: --speed 9"),
        (["run", "wordcount", "--max-slots", "few"], "invalid int value: 'few' (`penstock run -"),
        ([], "the following arguments are required: COMMAND"),
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
