"""Policy memory as JSON values, so that a run can store it and resume with it.

A policy that wants its memory to survive a restart has an attribute `memory_type`: a frozen
dataclass whose fields are numbers, texts, tuples, mappings, plans, other frozen dataclasses of
these, or None. Its last field holds the version of its shape, which changes whenever the shape or
the meaning of a field does:

    @dataclass(frozen=True)
    class ThresholdMemory:
        calm_windows: Mapping[str, int]
        measured_until: float = -math.inf
        version: Literal[1] = 1

    class Threshold:
        memory_type = ThresholdMemory
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from penstock.errors import PenstockError
from penstock.policies.base.policy import Policy

_NUMBER = "$number"
"""Key of an object that stands for a number that JSON lacks: NaN or an infinity."""


class UnreadableMemory(PenstockError):
    """This policy cannot read the stored memory; start it with None, and report it."""


def dump_memory(policy: Policy, memory: Any) -> Any:
    """Return a policy's memory as values for `json.dumps(..., allow_nan=False)`.

    None stands for no memory: at the start, and always for a policy without `memory_type`. The
    order of keys is significant, so store it without `sort_keys`. Raises `TypeError` if the memory
    holds something that cannot be stored, which is a bug of the policy.
    """
    if memory is None or _memory_type(policy) is None:
        return None
    data = msgspec.to_builtins(memory, str_keys=True, enc_hook=_plain_number)
    return {"policy": policy.name, "memory": _without_infinities(data)}


def load_memory(policy: Policy, data: Any) -> Any:
    """Return the memory that `dump_memory` wrote for this policy; None for None.

    `policy.decide` continues with it exactly as it would have with the memory that was dumped.
    Raises `UnreadableMemory` if another policy or another version wrote it, or if its shape is
    wrong; the caller then starts the policy afresh.
    """
    if data is None:
        return None
    kind = _memory_type(policy)
    try:
        writer, memory = data["policy"], data["memory"]
    except (TypeError, KeyError):
        raise UnreadableMemory(
            f"stored memory of policy '{policy.name}' is not an object with 'policy' and 'memory'"
        ) from None
    if writer != policy.name or kind is None:
        raise UnreadableMemory(f"policy '{policy.name}' cannot read the memory of '{writer}'")
    try:
        return msgspec.convert(_with_infinities(memory), kind, str_keys=True)
    except (msgspec.ValidationError, PenstockError, TypeError, ValueError) as error:
        raise UnreadableMemory(
            f"stored memory of policy '{policy.name}' does not fit this version of it: {error}"
        ) from error


def _memory_type(policy: Policy) -> Any:
    return getattr(policy, "memory_type", None)


def _plain_number(value: Any) -> Any:
    """A NumPy scalar as Python's number."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"policy memory cannot hold a {type(value).__name__}")


def _without_infinities(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return {_NUMBER: str(data)}
    if isinstance(data, dict):
        return {key: _without_infinities(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_infinities(value) for value in data]
    return data


def _with_infinities(data: Any) -> Any:
    if isinstance(data, dict):
        if data.keys() == {_NUMBER}:
            return float(data[_NUMBER])
        return {key: _with_infinities(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_with_infinities(value) for value in data]
    return data
