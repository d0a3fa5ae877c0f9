"""Schemas: column names with Spark SQL types, read from DDL, and their Arrow types.

Names keep their case and are quoted where Spark needs it. Types are normalised: `INT` and `integer`
become `int`, `LONG` becomes `bigint`. Every column is nullable and comments are dropped, because a
channel between two pipelines keeps neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.errors import InvalidInput

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>`(?:[^`]|``)*`)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<word>[^\s`'"<>(),:]+)
      | (?P<sign>[<>(),:])
    )""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NESTED = {"array": 1, "map": 2}
_SYNONYMS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
}
_PHRASES = {
    "decimal": "decimal(10,0)",
    "time": "time(6)",
    "timestamp with local time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
}


@dataclass(frozen=True)
class DataType:
    """A type. `kind` is `array`, `map`, `struct`, or the whole text of any other type.

    `parts` are the nested types; only those of a struct have names.
    """

    kind: str
    parts: tuple[tuple[str, DataType], ...] = ()

    def __str__(self) -> str:
        if self.kind == "struct":
            return f"struct<{','.join(f'{_name(name)}:{one}' for name, one in self.parts)}>"
        if self.kind in _NESTED:
            return f"{self.kind}<{','.join(str(one) for _, one in self.parts)}>"
        return self.kind

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of this type and of all types inside it."""
        return frozenset({self.kind}).union(*(one.kinds for _, one in self.parts))


@lru_cache(maxsize=1024)
def read(text: str) -> DataType:
    """Parse a type such as `array<string>`. Raises `InvalidInput`."""
    try:
        reader = _Reader(text)
        found = reader.type()
        reader.end()
    except ValueError as error:
        raise InvalidInput(f"cannot read the type '{text}': {error}") from None
    return found


def columns(ddl: str) -> tuple[tuple[str, DataType], ...]:
    """Parse DDL such as `word string, n bigint` into names and types. Raises `InvalidInput`."""
    reader = _Reader(ddl)
    try:
        whole = reader.struct()
        found = whole.parts if whole is not None else tuple(reader.columns())
        reader.end()
    except ValueError as error:
        raise InvalidInput(
            f"cannot read the column '{reader.column or ddl.strip()}': write it as 'name type' "
            f"({error})"
        ) from None
    return found


def of(spark: Any) -> DataType:
    """Convert a pyspark type; pyspark itself is not imported."""
    if hasattr(spark, "sqlType"):  # a user-defined type is stored as another type
        return of(spark.sqlType())
    if hasattr(spark, "fields"):
        return DataType("struct", tuple((f.name, of(f.dataType)) for f in spark.fields))
    if hasattr(spark, "elementType"):
        return DataType("array", (("", of(spark.elementType)),))
    if hasattr(spark, "keyType"):
        return DataType("map", (("", of(spark.keyType)), ("", of(spark.valueType))))
    return read(spark.simpleString())


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


class _Reader:
    """A recursive-descent parser of types and columns. Raises `ValueError`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._at = 0
        self._begun: int | None = None
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:  # an unclosed quotation mark
                self._tokens.append(("sign", text[at:end].strip(), at))
                break
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind], match.start(kind)))
            at = match.end()

    @property
    def column(self) -> str:
        """The text of the current top-level column, up to the current token."""
        if self._begun is None:
            return ""
        last = self._tokens[min(self._at, len(self._tokens) - 1)] if self._tokens else ("", "", 0)
        return self._text[self._begun : last[2] + len(last[1])].strip().rstrip(",").strip()

    def struct(self) -> DataType | None:
        """Read a schema written as one struct, as Spark writes it; else return None."""
        if self._keyword() == "struct" and self._peek(1) == "<":
            return self.type()
        return None

    def columns(self) -> Iterator[tuple[str, DataType]]:
        while True:
            self._begun = self._tokens[self._at][2] if self._at < len(self._tokens) else None
            yield self._column()
            if not self._takes(","):
                return

    def type(self) -> DataType:
        kind = self._keyword()
        if not kind:
            raise ValueError(f"expected a type, found {self._found()}")
        if kind == "struct" and self._peek(1) == "<":
            self._at += 2
            if self._takes(">"):
                return DataType("struct")
            fields = [self._column()]
            while self._takes(","):
                fields.append(self._column())
            self._needs(">")
            return DataType("struct", tuple(fields))
        if kind in _NESTED and self._peek(1) == "<":
            self._at += 2
            parts = [self.type()]
            for _ in range(_NESTED[kind] - 1):
                self._needs(",")
                parts.append(self.type())
            self._needs(">")
            return DataType(kind, tuple(("", part) for part in parts))
        return DataType(self._simple())

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise ValueError(f"did not expect {self._found()}")

    def _column(self) -> tuple[str, DataType]:
        if self._at == len(self._tokens):
            raise ValueError("it is empty")
        kind, text, _ = self._tokens[self._at]
        if kind == "quoted":
            name = text[1:-1].replace("``", "`")
        elif kind == "word":
            name = text
        else:
            raise ValueError(f"expected a name, found {self._found()}")
        self._at += 1
        self._takes(":")
        found = self.type()
        if self._keyword() == "not":
            self._at += 1
            if self._keyword() != "null":
                raise ValueError(f"expected NULL after NOT, found {self._found()}")
            self._at += 1
        if self._keyword() == "comment":
            self._at += 1
            if self._at == len(self._tokens) or self._tokens[self._at][0] != "text":
                raise ValueError(f"expected a text after COMMENT, found {self._found()}")
            self._at += 1
        return name, found

    def _simple(self) -> str:
        """Read a type that is not nested: words, with numbers in parentheses."""
        words: list[str] = []
        while (word := self._keyword()) and word not in ("not", "comment"):
            # The name of a collation keeps its case.
            kept = words[-1:] == ["collate"]
            words.append(self._peek(0) if kept else _SYNONYMS.get(word, word))
            self._at += 1
            if self._takes("("):
                words[-1] += f"({','.join(self._numbers())})"
        text = re.sub(r"^decimal\((\d+)\)$", r"decimal(\1,0)", " ".join(words))
        return _PHRASES.get(text, text)

    def _numbers(self) -> Iterator[str]:
        while True:
            if not (word := self._keyword()):
                raise ValueError(f"expected a number, found {self._found()}")
            self._at += 1
            yield word
            if not self._takes(","):
                break
        self._needs(")")

    def _keyword(self) -> str:
        """Return the next token in lower case if it is a word, else an empty string."""
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "word":
            return self._tokens[self._at][1].lower()
        return ""

    def _peek(self, ahead: int) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _takes(self, sign: str) -> bool:
        found = self._peek(0) == sign
        self._at += found
        return found

    def _needs(self, sign: str) -> None:
        if not self._takes(sign):
            raise ValueError(f"expected {sign}, found {self._found()}")

    def _found(self) -> str:
        return repr(self._peek(0)) if self._peek(0) else "the end"


@dataclass(frozen=True)
class Field:
    """A column: its name and its type as in Spark SQL, e.g. `array<string>`."""

    name: str
    type: str

    @property
    def hashable(self) -> bool:
        """True if Spark can group by this column (not by maps and variants)."""
        try:
            return read(self.type).kinds.isdisjoint({"map", "variant"})
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
            return cls(tuple(Field(name, str(kind)) for name, kind in columns(given)))
        if hasattr(given, "fields"):  # a pyspark StructType; pyspark itself is not imported here
            return cls(tuple(Field(f.name, str(of(f.dataType))) for f in given.fields))
        raise InvalidInput(
            f"a schema is a DDL string or a Spark StructType, not {type(given).__name__}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def ddl(self) -> str:
        """The schema as DDL for Spark, with quoted names in their original case."""
        return ", ".join(f"{quoted(f.name)} {f.type}" for f in self.fields)

    def get(self, name: str) -> Field | None:
        """Return the column of that name, ignoring case as Spark does, or None."""
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)

    def __str__(self) -> str:
        return ", ".join(f"{f.name} {f.type}" for f in self.fields)


_SIMPLE: dict[str, Callable[[], pa.DataType]] = {
    "string": pa.string,
    "boolean": pa.bool_,
    "tinyint": pa.int8,
    "smallint": pa.int16,
    "int": pa.int32,
    "bigint": pa.int64,
    "float": pa.float32,
    "double": pa.float64,
    "binary": pa.binary,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": lambda: pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT = re.compile(r"(?:var)?char\(\d+\)|string collate \S+")


@lru_cache(maxsize=64)
def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema; every column is nullable."""
    return pa.schema([(field.name, arrow_type(field.type)) for field in schema.fields])


def arrow_type(sql: str) -> pa.DataType:
    """Return the Arrow type for a Spark SQL type, e.g. `array<string>`."""
    return _arrow(read(sql))


def _arrow(kind: DataType) -> pa.DataType:
    inside = [(name, _arrow(part)) for name, part in kind.parts]
    match kind.kind:
        case "struct":
            return pa.struct(inside)
        case "array":
            return pa.list_(inside[0][1])
        case "map":
            return pa.map_(inside[0][1], inside[1][1])
        case simple if simple in _SIMPLE:
            return _SIMPLE[simple]()
        case text if _TEXT.fullmatch(text):
            return pa.string()
        case decimal if match := _DECIMAL.fullmatch(decimal):
            return pa.decimal128(int(match[1]), int(match[2]))
    raise InvalidInput(f"the type '{kind}' has no Arrow type here; known are {', '.join(_SIMPLE)}")
