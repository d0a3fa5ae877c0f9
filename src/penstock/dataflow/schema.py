"""Schemas as plain values: ordered column names with Spark type names, no Spark needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Field:
    """One column: its name and its type in Spark's SQL spelling, e.g. `array<string>`."""

    name: str
    type: str

    @property
    def hashable(self) -> bool:
        """Whether Spark can group by this column (maps and variants cannot be compared)."""
        return not any(word in self.type for word in ("map<", "variant"))


@dataclass(frozen=True)
class Schema:
    """The columns of a stream, in order."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, given: Any) -> Schema:
        """Read a DDL string (`"word string, n bigint"`), a Spark `StructType`, or a Schema."""
        if isinstance(given, Schema):
            return given
        if isinstance(given, str):
            return cls(tuple(_field(part) for part in _top_level_parts(given)))
        if hasattr(given, "fields"):  # a pyspark StructType; pyspark itself is not imported here
            return cls(tuple(Field(f.name, f.dataType.simpleString()) for f in given.fields))
        raise InvalidInput(
            f"a schema is a DDL string or a Spark StructType, not {type(given).__name__}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{f.name}` {f.type}" for f in self.fields)

    def get(self, name: str) -> Field | None:
        """The column of that name; names are matched as Spark does, ignoring case."""
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {f.type}" for f in self.fields)


def _top_level_parts(ddl: str) -> Iterator[str]:
    depth, start, quote = 0, 0, ""
    for at, char in enumerate(ddl):
        if char in "`'" and quote in ("", char):
            quote = "" if quote else char
        if quote:
            continue
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            yield ddl[start:at]
            start = at + 1
    yield ddl[start:]


def _field(text: str) -> Field:
    text = text.strip()
    if text.startswith("`"):
        name, _, rest = text[1:].partition("`")
    else:
        name, _, rest = text.partition(" ")
        if ":" in name:  # struct style, "word:string"
            name, _, first = name.partition(":")
            rest = f"{first} {rest}"
    kind = rest.strip().lstrip(":").strip()
    upper = kind.upper()
    for ending in (" COMMENT ", " NOT NULL"):
        if ending in upper + " ":
            kind = kind[: (upper + " ").index(ending)]
            upper = kind.upper()
    if not name or not kind:
        raise InvalidInput(f"cannot read the column '{text}': write it as 'name type'")
    nested = "<" in kind or "(" in kind  # Spark writes these without blanks, `decimal(10,2)`
    return Field(name, "".join(kind.lower().split()) if nested else kind.lower().strip())
