"""Schemas as plain values: ordered column names with Spark type names, no Spark needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.dataflow import datatype
from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Field:
    """One column: its name and its type in Spark's SQL spelling, e.g. `array<string>`."""

    name: str
    type: str

    @property
    def hashable(self) -> bool:
        """Whether Spark can group by this column (maps and variants cannot be compared)."""
        try:
            return datatype.read(self.type).kinds.isdisjoint({"map", "variant"})
        except InvalidInput:  # Spark says what is wrong with it
            return True


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
            return cls(tuple(Field(name, str(kind)) for name, kind in datatype.columns(given)))
        if hasattr(given, "fields"):  # a pyspark StructType; pyspark itself is not imported here
            return cls(tuple(Field(f.name, str(datatype.of(f.dataType))) for f in given.fields))
        raise InvalidInput(
            f"a schema is a DDL string or a Spark StructType, not {type(given).__name__}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def ddl(self) -> str:
        """As Spark reads it, names quoted and in the case they were written in."""
        return ", ".join(f"{datatype.quoted(f.name)} {f.type}" for f in self.fields)

    def get(self, name: str) -> Field | None:
        """The column of that name; names are matched as Spark does, ignoring case."""
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {f.type}" for f in self.fields)
