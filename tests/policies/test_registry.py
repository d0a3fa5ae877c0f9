from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from penstock import policies
from penstock.errors import InvalidInput
from penstock.plan.decision import Decision
from penstock.policies import registry
from penstock.policies.static import Static


class Foreign:
    name = "foreign"

    def decide(self, context: Any, memory: Any) -> tuple[Decision, Any]:
        return Decision(None, "not ours"), memory


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    here = __name__
    found = [
        EntryPoint("foreign", f"{here}:Foreign", policies.GROUP),
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
