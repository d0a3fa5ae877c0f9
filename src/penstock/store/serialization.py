"""Dataclasses to JSON values and back; also from JSON that a person wrote."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from penstock.errors import InvalidInput

_Value = TypeVar("_Value")


def plain(value: Any) -> Any:
    """A value as dictionaries, lists, texts and numbers; what is not finite becomes None."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Set):
        return sorted(plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item"):  # a NumPy number
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN, and it means "not measured"
    return value


def restored(kind: type[_Value], data: Any) -> _Value:
    """The value that `plain` wrote. Raises `InvalidInput`.

    Unknown keys are ignored and missing fields get their defaults, so that values of other
    versions can be read. A number that was not finite is None, or NaN if the field requires one.
    """
    try:
        value: _Value = _restored(kind, data, None)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"this is no {getattr(kind, '__name__', kind)}: {error}") from None
    return value


def read(kind: type[_Value], data: Any, place: str) -> _Value:
    """The same from JSON that a person may have written, at a place of a file.

    Raises `InvalidInput` with the place of a mistake; unknown keys are mistakes, too.
    """
    value: _Value = _restored(kind, data, place)
    return value


def keys(data: Any, known: Iterable[str], place: str) -> Mapping[str, Any]:
    """The data, checked to be an object without unknown keys. Raises `InvalidInput`."""
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{place}: {_shown(data)} where an object has to stand")
    names = tuple(known)
    strange = next((key for key in data if key not in names), None)
    if strange is not None:
        close = get_close_matches(str(strange), names, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(names)}"
        raise InvalidInput(f"{place}: nothing is called '{strange}' here; {hint}")
    return data


def _restored(kind: Any, data: Any, place: str | None) -> Any:
    """place: position in a file that a person wrote; None if `plain` wrote the data."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        if data is None and NoneType in inner:
            return None
        (kind,) = (k for k in inner if k is not NoneType)
        return _restored(kind, data, place)
    if isinstance(kind, type) and is_dataclass(kind):
        return _filled(kind, data, place)
    if origin is tuple and inner[-1] is not Ellipsis:
        pairs = zip(inner, _listed(data, place), strict=True)
        return tuple(_restored(k, one, place) for k, one in pairs)
    if origin in (tuple, frozenset):
        found = enumerate(_listed(data, place))
        return origin(_restored(inner[0], one, place and f"{place}[{at}]") for at, one in found)
    if origin is not None and issubclass(origin, Mapping):
        if place is not None and not isinstance(data, Mapping):
            raise _wrong(data, "an object", place)
        return {n: _restored(inner[1], one, place and f"{place}.{n}") for n, one in data.items()}
    if kind is float:
        return math.nan if data is None else _number(data, place)
    if not isinstance(data, kind) or (place is not None and kind is int and isinstance(data, bool)):
        raise _wrong(data, _WORDS.get(kind, str(kind)), place)
    return data


def _filled(kind: type, data: Any, place: str | None) -> Any:
    """A dataclass with the fields that the data has."""
    if not isinstance(data, Mapping):
        raise _wrong(data, "an object", place)
    hints = _hints(kind)
    if place is None:
        return kind(**{n: _restored(k, data[n], None) for n, k in hints.items() if n in data})
    keys(data, hints, place)
    missing = [f"'{name}'" for name in _required(kind) if name not in data]
    if missing:
        raise InvalidInput(f"{place}: {' and '.join(missing)} cannot be left out")
    found = {n: _restored(hints[n], one, f"{place}.{n}") for n, one in data.items()}
    try:
        return kind(**found)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from None


_WORDS = {int: "a whole number", str: "a text", bool: "true or false"}


def _listed(data: Any, place: str | None) -> Any:
    if place is not None and not isinstance(data, list | tuple):
        raise _wrong(data, "a list", place)
    return data


def _number(data: Any, place: str | None) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise _wrong(data, "a number", place)
    if place is not None and not math.isfinite(data):
        raise _wrong(data, "a finite number", place)
    return data


def _wrong(data: Any, wanted: str, place: str | None) -> Exception:
    if place is None:
        return TypeError(f"{data!r} where {wanted} has to stand")
    return InvalidInput(f"{place}: {_shown(data)} where {wanted} has to stand")


def _shown(data: Any) -> str:
    words = repr(data)
    return words if len(words) <= 60 else f"{words[:57]}..."


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _required(kind: Any) -> tuple[str, ...]:
    found = fields(kind)
    return tuple(f.name for f in found if f.default is MISSING and f.default_factory is MISSING)
