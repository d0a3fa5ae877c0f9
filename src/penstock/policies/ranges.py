"""What the numbers among the parameters of a policy may be, checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.errors import InvalidInput

_RULES: Mapping[str, Callable[[float], bool]] = {
    "0 or more": lambda value: value >= 0,
    "above 0": lambda value: value > 0,
    "1 or more": lambda value: value >= 1,
    "above 0 and up to 1": lambda value: 0 < value <= 1,
}


def check(
    policy: Any,
    *,
    zero_or_more: Iterable[str] = (),
    above_zero: Iterable[str] = (),
    one_or_more: Iterable[str] = (),
    shares: Iterable[str] = (),
) -> None:
    """Raise `InvalidInput` for the first field that is outside its range; None is in any."""
    for words, names in zip(_RULES, (zero_or_more, above_zero, one_or_more, shares), strict=True):
        for name in names:
            value = getattr(policy, name)
            if value is not None and not _RULES[words](value):
                raise InvalidInput(f"{policy.name}: {name} is {value:g}, it must be {words}")
