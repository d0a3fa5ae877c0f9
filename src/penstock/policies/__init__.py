"""The registry of policies: ours by name, other people's by entry point.

A package adds a policy with an entry point in the group `penstock.policies` that names a class
or a function without arguments which returns one. Our own names cannot be replaced.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from penstock.errors import InvalidInput
from penstock.policies.policy import Policy
from penstock.policies.static import Static

GROUP = "penstock.policies"

_OURS: Mapping[str, Callable[[], Policy]] = {"static": Static}


def names() -> tuple[str, ...]:
    """Every policy that `get` knows, in alphabetical order."""
    return tuple(sorted({*_OURS, *_others()}))


def get(name: str) -> Policy:
    """A fresh policy of that name. Raises `InvalidInput` with the names that exist."""
    if name in _OURS:
        return _OURS[name]()
    entry = _others().get(name)
    if entry is None:
        close = difflib.get_close_matches(name, names(), n=1)
        hint = f", did you mean '{close[0]}'?" if close else ";"
        raise InvalidInput(f"unknown policy '{name}'{hint} known policies: {', '.join(names())}")
    return _made(entry)


def _others() -> Mapping[str, EntryPoint]:
    return {e.name: e for e in entry_points(group=GROUP)}


def _made(entry: EntryPoint) -> Policy:
    try:
        policy: Policy = entry.load()()
    except Exception as error:  # someone else's code: any failure of it is a bad name to us
        raise InvalidInput(
            f"policy '{entry.name}' from '{entry.value}' cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not hasattr(policy, "decide"):
        raise InvalidInput(f"policy '{entry.name}' from '{entry.value}' has no method 'decide'")
    return policy
