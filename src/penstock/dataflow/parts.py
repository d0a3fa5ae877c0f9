"""JSON that a person may have written, read part by part: what is wrong is told with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

from penstock.errors import InvalidInput

_Value = TypeVar("_Value")
_Kind = TypeVar("_Kind", bound=Enum)


@dataclass(frozen=True)
class Part:
    """An object of JSON and where it stands; strict: a key that nobody knows is an error."""

    data: Any
    place: str
    strict: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.data, Mapping):
            raise self.wrong(f"{self.data!r:.60} where an object has to stand")

    def knows(self, *keys: str) -> None:
        strange = [key for key in self.data if key not in keys]
        if self.strict and strange:
            close = get_close_matches(strange[0], keys, 1)
            hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(keys)}"
            raise self.wrong(f"nothing is called '{strange[0]}' here; {hint}")

    def take(self, key: str, reader: Callable[[Any], _Value], *default: Any) -> Any:
        """What stands under a key; null is as good as nothing where there is a default."""
        value = self.data.get(key)
        if value is None and default:
            return default[0]
        if key not in self.data:
            raise self.wrong(f"'{key}' cannot be left out")
        try:
            return reader(value)
        except ValueError as error:
            raise self.wrong(str(error), key) from None

    def part(self, key: str) -> Part | None:
        """The object under a key, None if there is none."""
        found = self.data.get(key)
        return None if found is None else Part(found, self._at(key), self.strict)

    def parts(self, key: str, *default: Any) -> Any:
        """The objects in the list under a key."""
        found = self.take(key, listed, *default)
        place = self._at(key)
        return found and [Part(one, f"{place}[{at}]", self.strict) for at, one in enumerate(found)]

    def wrong(self, message: str, key: str = "") -> InvalidInput:
        place = self._at(key) if key else self.place
        return InvalidInput(f"{place}: {message}" if place else message)

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} where a text has to stand")
    return value


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} where a whole number has to stand")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} where a number has to stand")
    return value


def listed(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r:.60} where a list has to stand")
    return list(value)


def texts(value: Any) -> tuple[str, ...]:
    return tuple(text(one) for one in listed(value))


def one_of(kind: type[_Kind]) -> Callable[[Any], _Kind]:
    """One of the values of an enumeration."""

    def read(value: Any) -> _Kind:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(one.value) for one in kind)
            raise ValueError(f"'{value}' is none of {known}") from None

    return read
