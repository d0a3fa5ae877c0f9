"""Parses policy options such as `above=0.7,step=2`, and checks their ranges."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from penstock.dataflow import duration
from penstock.errors import InvalidInput

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def split(text: str) -> Mapping[str, str]:
    """Split `key=value,key=value` into values by key; `-` in a key becomes `_`."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not key or not value:
            raise InvalidInput(f"cannot read option '{part}'; write it like above=0.7")
        key = key.replace("-", "_")
        if key in found:
            raise InvalidInput(f"option '{key}' is given twice")
        found[key] = value
    return found


def read(annotation: Any, text: str) -> Any:
    """Convert a text to the type of a field.

    A float may be written as a percentage (`20%`) or a duration (`250ms`, converted to seconds).
    Raises `InvalidInput` naming the expected type.
    """
    chosen = _alternatives(annotation)
    if type(None) in chosen and text.lower() == "none":
        return None
    for alternative in chosen:
        if alternative is not type(None):
            try:
                return _read_one(alternative, text)
            except (ValueError, KeyError):
                continue
    raise InvalidInput(f"'{text}' is not valid, expected {kind(annotation)}")


def kind(annotation: Any) -> str:
    """Describe the values that a field of this type accepts."""
    return " or ".join(_word(alternative) for alternative in _alternatives(annotation))


def formatted(value: Any) -> str:
    """Format a value so that `read` can read it; empty for a missing default."""
    if value is MISSING:
        return ""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _read_one(wanted: Any, text: str) -> Any:
    """Convert to one type; raises ValueError or KeyError if the text does not fit."""
    if get_origin(wanted) is Literal:
        return {str(choice): choice for choice in get_args(wanted)}[text]
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return wanted(text)
    return _READERS[wanted](text)


def _real(text: str) -> float:
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = _seconds(text)
    if math.isnan(value):
        raise ValueError(text)
    return value


def _seconds(text: str) -> float:
    try:
        return duration.seconds(text)
    except InvalidInput as error:
        raise ValueError(text) from error


_READERS: Mapping[Any, Callable[[str], Any]] = {
    bool: lambda text: _BOOLEANS[text.lower()],
    int: int,
    float: _real,
    str: str,
}

_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def _word(wanted: Any) -> str:
    if wanted is type(None):
        return "none"
    if get_origin(wanted) is Literal:
        return " or ".join(map(str, get_args(wanted)))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return " or ".join(str(member.value) for member in wanted)
    return _WORDS.get(wanted, str(getattr(wanted, "__name__", wanted)))


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
    """Raise `InvalidInput` for the first field outside its range; None is allowed."""
    for words, names in zip(_RULES, (zero_or_more, above_zero, one_or_more, shares), strict=True):
        for name in names:
            value = getattr(policy, name)
            if value is not None and not _RULES[words](value):
                raise InvalidInput(f"{policy.name}: {name} must be {words}, not {value:g}")
