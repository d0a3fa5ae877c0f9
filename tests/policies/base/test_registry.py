from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest

from penstock import policies
from penstock.errors import InvalidInput
from penstock.plan.decision import Decision
from penstock.policies.base import registry
from penstock.policies.baselines.ds2 import Ds2
from penstock.policies.baselines.static import Static
from penstock.policies.baselines.threshold import Threshold
from penstock.policies.stela.policy import Stela


class Foreign:
    name = "foreign"

    def decide(self, context: Any, memory: Any) -> tuple[Decision, Any]:
        return Decision(None, "not ours"), memory


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Rich(Foreign):
    """Takes options of every kind.

    pause: seconds.
    """

    name: ClassVar[str] = "rich"
    count: int = 1
    share: float = 0.5
    pause: float = 2.0
    eager: bool = False
    word: str = "yes"
    most: int | None = None
    colour: Colour = Colour.RED
    order: Literal["up", "down"] = "up"
    hidden: int = field(default=0, init=False)


if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore[import-not-found]


@dataclass(frozen=True)
class Hints(Foreign):
    """Has a field of a type that is there for type checkers only."""

    weights: Nothing | None = None
    above: float = 2.0


class Nameless:
    """Has no name."""

    def decide(self, context: Any, memory: Any) -> tuple[Decision, Any]:
        return Decision(None, "not ours"), memory


@dataclass(frozen=True)
class Lines(Foreign):
    """Says no in two lines."""

    above: float = 2.0

    def __post_init__(self) -> None:
        raise ValueError("first\n  second")


BROKEN = {
    "hints": "cannot be loaded: NameError: name 'Nothing' is not defined",
    "nameless": "has no attribute 'name' of type str",
    "lines": "cannot be loaded: ValueError: first second",
}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [EntryPoint(n, f"{__name__}:{n.title()}", policies.GROUP) for n in (*BROKEN, "rich")]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_policy_is_one_line_everywhere(name: str) -> None:
    wanted = f"policy '{name}' from '{__name__}:{name.title()}' {BROKEN[name]}"
    with pytest.raises(InvalidInput) as told:
        policies.describe(name)
    assert str(told.value) == wanted
    if name != "nameless":
        with pytest.raises(InvalidInput) as told:
            policies.get(f"{name}:above=1")
        assert str(told.value) == wanted
    if name != "hints":  # it can be used as long as nothing is set
        with pytest.raises(InvalidInput) as told:
            policies.get(name)
        assert str(told.value) == wanted


@pytest.mark.usefixtures("broken")
def test_broken_policies_are_listed_among_the_others(capfd: pytest.CaptureFixture[str]) -> None:
    from penstock.cli import main

    assert main.main(["policies"]) == 0
    lines = capfd.readouterr().out.splitlines()
    for name, wrong in BROKEN.items():
        assert [line for line in lines if line.startswith(f"{name} ") and line.endswith(wrong)]
    assert [line for line in lines if line.startswith(("rich ", "static "))]
    assert policies.get("rich:count=2") == Rich(count=2)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    here = __name__
    found = [
        EntryPoint("foreign", f"{here}:Foreign", policies.GROUP),
        EntryPoint("rich", f"{here}:Rich", policies.GROUP),
        EntryPoint("gone", f"{here}:Gone", policies.GROUP),
        EntryPoint("odd", f"{here}:Any", policies.GROUP),
        EntryPoint("static", f"{here}:Foreign", policies.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)


def test_static_is_there() -> None:
    assert isinstance(policies.get("static"), Static)
    assert "static" in policies.names()


def test_a_close_name_is_suggested() -> None:
    with pytest.raises(InvalidInput, match="unknown policy 'sttic', did you mean 'static'"):
        policies.get("sttic")


def test_a_far_name_gets_the_list() -> None:
    with pytest.raises(InvalidInput, match="unknown policy 'zzz'; known policies: drs, ds2, "):
        policies.get("zzz")


@pytest.mark.usefixtures("entries")
def test_other_packages_can_add_policies_but_not_replace_ours() -> None:
    assert isinstance(policies.get("foreign"), Foreign)
    assert isinstance(policies.get("static"), Static)


@pytest.mark.usefixtures("entries")
def test_a_broken_policy_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"policy 'gone' from .* cannot be loaded"):
        policies.get("gone")
    with pytest.raises(InvalidInput, match="policy 'odd' from"):
        policies.get("odd")


def test_what_a_policy_says_of_itself_names_it_once() -> None:
    with pytest.raises(InvalidInput) as found:
        policies.get("es-stream:share=2")
    assert str(found.value) == "policy 'es-stream': share must be between 0 and 1, not 2.0"


# --- options -----------------------------------------------------------------------------------


def test_options_set_fields() -> None:
    assert policies.get("threshold:above=0.7,step=2") == Threshold(above=0.7, step=2)
    assert policies.get(" threshold : above = 70% , below=0.1") == Threshold(above=0.7, below=0.1)
    assert policies.get("threshold:") == Threshold()
    assert policies.get("stela:automatic=true") == Stela(automatic=True)
    assert policies.get("ds2") == Ds2()


@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count=7", {"count": 7}),
        ("share=25%,pause=250ms", {"share": 0.25, "pause": 0.25}),
        ("pause=1.5m,eager=on", {"pause": 90.0, "eager": True}),
        ("word=a:b=c", {"word": "a:b=c"}),
        ("most=3", {"most": 3}),
        ("most=none,share=1e-3", {"most": None, "share": 0.001}),
        ("colour=blue,order=down", {"colour": Colour.BLUE, "order": "down"}),
    ],
)
def test_values_of_every_kind_are_read(text: str, expected: dict[str, Any]) -> None:
    assert policies.get(f"rich:{text}") == Rich(**expected)


@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("threshold:abov=1", "has no option 'abov', did you mean 'above'. known options: above, "),
        ("threshold:zzz=1", "has no option 'zzz'; known options: above, below, step, patience"),
        (
            "threshold:step=1.5",
            "policy 'threshold', option 'step': '1.5' is not valid, expected whole number",
        ),
        ("threshold:above=much", "option 'above': 'much' is not valid, expected number"),
        ("threshold:above=nan", "option 'above': 'nan' is not valid, expected number"),
        ("threshold:above", "cannot read option 'above'; write it like above=0.7"),
        ("threshold:above=", "cannot read option 'above='"),
        ("threshold:step=1,step=2", "option 'step' is given twice"),
        ("threshold:above=0.1", "policy 'threshold': 0 <= below < above"),
        ("stela:automatic=maybe", "'maybe' is not valid, expected true or false"),
        ("static:speed=1", "policy 'static' has no options, found 'speed'"),
        ("foreign:speed=1", "policy 'foreign' has no options, found 'speed'"),
        ("rich:colour=green", "'green' is not valid, expected red or blue"),
        ("rich:hidden=1", "has no option 'hidden'"),
        ("rich:name=x", "has no option 'name'"),
        ("thresold:above=1", "unknown policy 'thresold', did you mean 'threshold'"),
    ],
)
def test_bad_options_are_told_in_one_line(text: str, wrong: str) -> None:
    with pytest.raises(InvalidInput, match=wrong) as told:
        policies.get(text)
    assert "\n" not in str(told.value)


SKEWNESS = {"eta", "chi"}
NUMBERS = [
    (name, option.name)
    for name in sorted(registry._OURS)
    for option in policies.describe(name).options
    if "number" in option.kind and option.name not in SKEWNESS
]


@pytest.mark.parametrize(("name", "option"), NUMBERS)
def test_no_policy_takes_a_number_below_zero(name: str, option: str) -> None:
    with pytest.raises(InvalidInput) as told:
        policies.get(f"{name}:{option}=-1")
    assert "\n" not in str(told.value)
    assert option in str(told.value)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("es-stream:alpha=1.5", "alpha must be above 0 and up to 1, not 1.5"),
        ("es-stream:most=0", "most must be 1 or more, not 0"),
        ("es-stream:backup_least=5s,backup_most=1s", r"5\) must not be above backup_most \(1\)"),
        ("es-stream:backup_least=5s", r"5\) must not be above backup_most \(0\)"),
        ("drs:most=0", "most must be 1 or more, not 0"),
        ("organic:bottleneck=7", "bottleneck must be above 0 and up to 1, not 7"),
        ("organic:calm=0", "calm must be 1 or more, not 0"),
        ("stepwise:sample=-1", "sample must be 1 or more, not -1"),
        ("stepwise:fruitless=0", "fruitless must be 1 or more, not 0"),
        ("stepwise:most_rounds=0", "most_rounds must be 1 or more, not 0"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(text: str, wrong: str) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        policies.get(text)


@pytest.mark.usefixtures("entries")
def test_a_description_has_the_line_the_rest_and_the_options() -> None:
    found = policies.describe("rich")
    assert (found.name, found.summary, found.details) == (
        "rich", "Takes options of every kind.", "pause: seconds.",
    )  # fmt: skip
    assert [(o.name, o.kind, o.default) for o in found.options] == [
        ("count", "whole number", "1"),
        ("share", "number", "0.5"),
        ("pause", "number", "2"),
        ("eager", "true or false", "false"),
        ("word", "text", "yes"),
        ("most", "whole number or none", "none"),
        ("colour", "red or blue", "red"),
        ("order", "up or down", "up"),
    ]
    assert policies.describe("static").options == ()
    with pytest.raises(InvalidInput, match="unknown policy"):
        policies.describe("zzz")


def test_every_name_of_the_design_is_known() -> None:
    expected = "drs ds2 es-stream latency least-link-load organic round-robin static stela stepwise"
    assert {*expected.split(), "threshold"} <= set(policies.names())


@pytest.mark.parametrize("name", sorted(registry._OURS))
def test_every_policy_of_ours_can_be_made_and_described(name: str) -> None:
    pytest.importorskip(registry._OURS[name].partition(":")[0])
    policy = policies.get(name)
    assert policy.name == name
    found = policies.describe(name)
    assert found.summary.endswith(".")
    written = ",".join(f"{o.name}={o.default}" for o in found.options if o.default)
    assert type(policies.get(f"{name}:{written}")) is type(policy)
