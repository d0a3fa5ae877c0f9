"""Our values as JSON has them, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from penstock.errors import InvalidInput

_Value = TypeVar("_Value")


def plain(value: Any) -> Any:
    """Dataclasses and mappings as objects, the rest as arrays, texts and numbers."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Set):
        return sorted(plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item"):  # a number of NumPy's
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it, and "not measured" is what it means
    return value


def restored(kind: type[_Value], data: Any) -> _Value:
    """The value that `plain` wrote; what it does not know is left out. Raises `InvalidInput`.

    Fields that are missing have their defaults, so that values from before a field can be read. A
    number that was not finite comes back as None, or as NaN where something has to stand.
    """
    try:
        value: _Value = _restored(kind, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"this is no {getattr(kind, '__name__', kind)}: {error}") from None
    return value


def _restored(kind: Any, data: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        if data is None and NoneType in inner:
            return None
        (kind,) = (k for k in inner if k is not NoneType)
        return _restored(kind, data)
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(data, Mapping):
            raise TypeError(f"{data!r} where an object has to stand")
        hints = _hints(kind)
        return kind(**{n: _restored(k, data[n]) for n, k in hints.items() if n in data})
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_restored(k, one) for k, one in zip(inner, data, strict=True))
    if origin is tuple:
        return tuple(_restored(inner[0], one) for one in data)
    if origin is frozenset:
        return frozenset(_restored(inner[0], one) for one in data)
    if origin is not None and issubclass(origin, Mapping):
        return {name: _restored(inner[1], one) for name, one in data.items()}
    if kind is float:
        return math.nan if data is None else _number(data)
    if not isinstance(data, kind):
        raise TypeError(f"{data!r} where {_WORDS.get(kind, kind)} has to stand")
    return data


_WORDS = {int: "a whole number", str: "a text", bool: "true or false"}


def _number(data: Any) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise TypeError(f"{data!r} where a number has to stand")
    return data


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
