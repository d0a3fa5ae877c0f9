"""Policies on the command line: which there are, and what is set."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from penstock import policies
from penstock.cli import options
from penstock.errors import InvalidInput
from penstock.policies.base import registry
from penstock.policies.baselines.threshold import Threshold
from penstock.testing import MemoryEngine, fake_clock

from .conftest import Run

pytestmark = pytest.mark.usefixtures("here")


# --- policies -----------------------------------------------------------------------------------


def test_policies_are_listed_with_source_and_parameters(penstock: Run) -> None:
    code, out, err = penstock("policies")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    at = lines.index("static Keep the plan that the flow was started with.")
    assert lines[at + 1] == "from: the baseline for all other policies"
    assert "parameters: above=0.8, below=0.4, step=1, patience=3" in lines
    assert [name for name in policies.names() if f"\n{name} " not in f"\n{out}"] == []


def test_one_policy_is_explained(penstock: Run) -> None:
    code, out, _ = penstock("policies", "stela")
    assert code == 0
    assert out.startswith("stela: Add or remove executors on request, by effective")
    assert "\nfrom: Xu, Peng and Gupta, Stela: " in out
    assert "  automatic = false  true or false\n" in out


def test_policies_in_json(penstock: Run) -> None:
    known = json.loads(penstock("policies", "--json")[1])["policies"]
    assert [one["name"] for one in known] == list(policies.names())
    one = json.loads(penstock("policies", "threshold", "--json")[1])
    assert one["parameters"][0] == {"name": "above", "kind": "number", "default": "0.8"}
    assert one["from"] == "the utilisation rule that most papers compare with"
    assert one in known


def test_one_that_cannot_be_loaded_hides_none(
    penstock: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EntryPoint("broken", "nowhere.to.be.found:Broken", policies.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])
    code, out, _ = penstock("policies")
    assert code == 0
    assert "policy 'broken' from 'nowhere.to.be.found:Broken' cannot be loaded: ModuleNot" in out
    assert "Keep the plan" in out
    known = json.loads(penstock("policies", "--json")[1])["policies"]
    assert "cannot be loaded" in next(one for one in known if one["name"] == "broken")["error"]
    code, _, err = penstock("policies", "broken")
    assert (code, err.count("\n")) == (2, 1)


def test_an_unknown_policy_is_one_line(penstock: Run) -> None:
    code, out, err = penstock("policies", "sttic")
    assert (code, out) == (2, "")
    assert err.startswith("penstock: unknown policy 'sttic', did you mean 'static'?")


@pytest.mark.parametrize("name", sorted(registry._OURS))
def test_every_policy_of_ours_says_where_it_comes_from(name: str) -> None:
    assert registry._SOURCES[name]
    pytest.importorskip(registry._OURS[name].partition(":")[0])
    assert policies.describe(name).source == registry._SOURCES[name]


def test_every_source_is_that_of_a_policy() -> None:
    assert registry._SOURCES.keys() == registry._OURS.keys()


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("threshold", None, Threshold()),
        ("threshold", ["above=0.7"], Threshold(above=0.7)),
        ("threshold", ["above=70%", "step=2"], Threshold(above=0.7, step=2)),
        ("threshold", ["above=0.7,step=2"], Threshold(above=0.7, step=2)),
        ("threshold:above=0.7", ["step=2"], Threshold(above=0.7, step=2)),
    ],
)
def test_settings_are_fields_of_the_policy(
    name: str, settings: list[str] | None, expected: Any
) -> None:
    assert options.read_policy(name, settings) == expected


@pytest.mark.parametrize(
    ("name", "settings", "wrong"),
    [
        ("threshold", ["abov=0.7"], "has no option 'abov', did you mean 'above'"),
        ("threshold", ["above=much"], "option 'above': 'much' is not valid, expected number"),
        ("threshold", ["above"], "cannot read option 'above'; write it like above=0.7"),
        ("threshold", ["above="], "cannot read option 'above='; write it like above=0.7"),
        ("threshold", [""], "cannot read the option '': write it like above=0.7"),
        ("threshold", ["above=0.7,"], "cannot read the option 'above=0.7,'"),
        ("threshold:step=1", ["step=2"], "option 'step' is given twice"),
        ("threshold", ["above=0.1"], "policy 'threshold': 0 <= below < above"),
        ("stepwise", ["sample=-1"], "policy 'stepwise': sample must be 1 or more, not -1"),
        ("organic", ["bottleneck=7"], "bottleneck must be above 0 and up to 1, not 7"),
        ("es-stream", ["most=0"], "policy 'es-stream': most must be 1 or more, not 0"),
        ("static", ["speed=1"], "policy 'static' has no options, found 'speed'"),
        ("thresold", ["above=1"], "unknown policy 'thresold', did you mean 'threshold'"),
    ],
)
def test_bad_settings_are_told_in_one_line_before_spark_starts(
    penstock: Run,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    settings: list[str],
    wrong: str,
) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        options.read_policy(name, settings)
    monkeypatch.setattr("penstock.app._spark", lambda *given: pytest.fail("started"))
    monkeypatch.setattr(
        "penstock.engines.spark.session.flow_session.session", lambda *given: pytest.fail("started")
    )
    Path("mine.py").write_text("")
    given = [word for text in settings for word in ("--set", text)]
    for words in (["run", "mine.py"], ["advise", "gone"]):
        code, out, err = penstock(*words, "--policy", name, *given)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert wrong in err


def test_a_run_and_advice_are_set(penstock: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine({"count": 0.004}, rate=600.0)
    monkeypatch.setattr("penstock.app._spark", lambda master, conf: engine)
    monkeypatch.setattr("penstock.app.Clock", lambda: fake_clock(engine))
    words = ("--policy", "threshold", "--set", "step=5", "--set", "patience=1")
    run = ("run", "wordcount", "--for", "9s", "--run-dir", "mine", "--json")
    code, out, _ = penstock(*run, *words)
    assert code == 0
    assert json.loads(out)["transitions"][0]["changes"] == ["tweets: parallelism 1 -> 6"]
    assert "tweets: parallelism 1 -> 6" in penstock("advise", "mine", *words)[1]
