"""The ways of joining two streams, in any of Spark's spellings."""

from __future__ import annotations

from typing import Any

_SPELLINGS = {
    "inner": ("inner",),
    "left_outer": ("left", "leftouter"),
    "right_outer": ("right", "rightouter"),
    "full_outer": ("outer", "full", "fullouter"),
    "left_semi": ("semi", "leftsemi"),
}
KINDS = tuple(_SPELLINGS)
"""What a join can be; Spark joins two streams in no other way."""

_BATCH_ONLY = {"cross": "cross", "anti": "left_anti", "leftanti": "left_anti"}
_BY_SPELLING = {one: kind for kind, spellings in _SPELLINGS.items() for one in spellings}


def normal(how: Any) -> Any:
    """One spelling for all of Spark's: `leftOuter`, `LEFT OUTER` and `left` are `left_outer`.

    What is no way to join comes back as it is; `refusal` says what is wrong with it.
    """
    return _BY_SPELLING.get(_plain(how), how)


def refusal(how: Any) -> str | None:
    """Why streams cannot be joined that way; None if they can."""
    if how in KINDS:
        return None
    known = ", ".join(KINDS)
    if _plain(how) in _BATCH_ONLY:
        return f"Spark has no {_BATCH_ONLY[_plain(how)]} join of two streams, only {known}"
    return f"how is {how!r}, it must be one of {known}"


def _plain(how: Any) -> str:
    return "".join(how.lower().replace("_", " ").split()) if isinstance(how, str) else ""
