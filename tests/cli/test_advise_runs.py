"""`penstock advise` over recorded runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import MemoryEngine

from .conftest import Run, play

pytestmark = pytest.mark.usefixtures("here")


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
