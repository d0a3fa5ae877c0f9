"""The structure of a dataflow as JSON: all of it except its functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.graph import Constraint, Graph
from penstock.dataflow.operators import Bounds, Latency, OnError, Operator, Selectivity, State
from penstock.dataflow.schema import Field, Schema
from penstock.dataflow.validation import known_schemas
from penstock.errors import UNKNOWN, InvalidInput, Location

_Value = TypeVar("_Value")
_Kind = TypeVar("_Kind", bound=Enum)


@dataclass(frozen=True)
class JsonObject:
    """A JSON object and its place in a file; strict: an unknown key is an error."""

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
        """Read the value of a key; null counts as missing if there is a default."""
        value = self.data.get(key)
        if value is None and default:
            return default[0]
        if key not in self.data:
            raise self.wrong(f"'{key}' cannot be left out")
        try:
            return reader(value)
        except ValueError as error:
            raise self.wrong(str(error), key) from None

    def part(self, key: str) -> JsonObject | None:
        """Return the object under a key, or None."""
        found = self.data.get(key)
        return None if found is None else JsonObject(found, self._at(key), self.strict)

    def parts(self, key: str, *default: Any) -> Any:
        """Return the objects in the list under a key."""
        found, place = self.take(key, listed, *default), self._at(key)
        return found and [
            JsonObject(one, f"{place}[{index}]", self.strict) for index, one in enumerate(found)
        ]

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
    """Return a reader for the values of an enumeration."""

    def read(value: Any) -> _Kind:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(one.value) for one in kind)
            raise ValueError(f"'{value}' is none of {known}") from None

    return read


@dataclass(frozen=True)
class OperatorStructure:
    """One operator without its function."""

    name: str
    form: str
    state: State
    inputs: tuple[str, ...]
    keys: tuple[str, ...]
    schema: Schema | None
    bounds: Bounds
    latency: Latency
    selectivity: Selectivity
    on_error: OnError
    written: Location

    @classmethod
    def of(cls, operator: Operator, schema: Schema | None) -> OperatorStructure:
        return cls(
            operator.name,
            operator.form,
            operator.state,
            operator.inputs,
            operator.keys,
            schema,
            operator.bounds,
            operator.latency,
            operator.selectivity,
            operator.on_error,
            operator.written,
        )

    def to_json(self) -> dict[str, Any]:
        columns = self.schema and [{"name": f.name, "type": f.type} for f in self.schema.fields]
        return {
            "name": self.name,
            "form": self.form,
            "state": self.state.value,
            "inputs": list(self.inputs),
            "keys": list(self.keys),
            "schema": columns,
            "bounds": {"least": self.bounds.least, "most": self.bounds.most},
            "latency": self.latency.value,
            "selectivity": self.selectivity.value,
            "on_error": self.on_error.value,
            "written": _place(self.written),
        }

    def operator(self) -> Operator:
        """Return an operator with the same structure that does nothing."""
        return Operator(
            self.name,
            _empty_body(self.form, self.schema),
            self.inputs,
            self.keys,
            self.schema,
            self.bounds,
            self.latency,
            self.selectivity,
            self.on_error,
            self.written,
        )


@dataclass(frozen=True)
class Structure:
    """A dataflow without its functions: enough to show it and to decide about it."""

    name: str
    operators: tuple[OperatorStructure, ...]
    constraints: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, graph: Graph, schemas: Mapping[str, Schema | None] | None = None) -> Structure:
        """Return the structure of a graph, with declared, derived and given schemas."""
        known = known_schemas(graph, schemas)
        operators = tuple(OperatorStructure.of(o, known.get(o.name)) for o in graph.operators)
        return cls(graph.name, operators, graph.constraints)

    def graph(self) -> Graph:
        """Return a graph with this structure, whose operators do nothing."""
        return Graph(self.name, tuple(one.operator() for one in self.operators), self.constraints)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "operators": [one.to_json() for one in self.operators],
            "constraints": [
                {
                    "first": c.first,
                    "last": c.last,
                    "latency": c.latency,
                    "window": c.window,
                    "written": _place(c.written),
                }
                for c in self.constraints
            ],
        }


def to_json(graph: Graph, schemas: Mapping[str, Schema | None] | None = None) -> dict[str, Any]:
    """Return the structure of a dataflow as JSON values."""
    return Structure.of(graph, schemas).to_json()


def from_json(data: Any) -> Structure:
    """Read what `to_json` wrote; `from_json(d).to_json() == d`. Raises `InvalidInput`.

    Missing keys get their defaults, and unknown keys are ignored.
    """
    try:
        return _structure(JsonObject(data, ""))
    except InvalidInput as error:
        raise InvalidInput(f"this is not the structure of a dataflow: {error}") from error


def read(data: Any, place: str) -> Structure:
    """Read a structure that a person may have written; an unknown key is an error.

    place: its place in the file, for messages. Raises `InvalidInput`.
    """
    return _structure(JsonObject(data, place, strict=True))


_FORMS: Mapping[str, op.Body] = {
    "write": op.Write(Discard()),
    "frame": op.Frame(lambda given: given),
    "arrow": op.Arrow(lambda given: given),
    "map": op.Map(lambda given: given),
    "flat-map": op.FlatMap(lambda given: given),
    "filter": op.Filter(lambda given: given),
    "aggregate": op.Aggregate((("n", "count(*)"),)),
    "process": op.Process(lambda: None),
    "deduplicate": op.Deduplicate(),
    "join": op.Join(),
    "union": op.Union(),
    "barrier": op.Barrier(),
}


_FORM_BY_STATE = {
    State.SOURCE: "read",
    State.STATELESS: "map",
    State.KEYED: "process",
    State.GLOBAL: "process",
    State.SINK: "write",
}
"""The form of an operator of which only the state is known."""


def _empty_body(form: str, schema: Schema | None) -> op.Body:
    if form == "read":
        return op.Read(Generator(lambda rng, index, at: {}, schema or Schema(())))
    return _FORMS[form]


def _place(written: Location) -> dict[str, Any]:
    return {"file": written.file, "line": written.line}


# --- reading ------------------------------------------------------------------------------------


def _structure(part: JsonObject) -> Structure:
    part.knows("name", "operators", "constraints")
    operators = tuple(_operator(one) for one in part.parts("operators"))
    constraints = tuple(_constraint(one) for one in part.parts("constraints", ()))
    return Structure(part.take("name", text), operators, constraints)


def _operator(part: JsonObject) -> OperatorStructure:
    part.knows(*(f.name for f in fields(OperatorStructure)))
    name, keys = part.take("name", text), part.take("keys", texts, ())
    columns = part.parts("schema", None)
    schema = columns and Schema(tuple(_column(one) for one in columns))
    state = part.take("state", one_of(State), None)
    form = part.take("form", _form, None) or (state and _FORM_BY_STATE[state])
    if form is None:
        raise part.wrong("it says neither its 'form' nor its 'state'")
    found = Operator(name, _empty_body(form, None), keys=keys).state
    if state not in (None, found):
        what = f"a {form} operator {'with' if keys else 'without'} keys"
        raise part.wrong(f"{what} is {found.value}, not {state.value}", "state")
    return OperatorStructure(
        name,
        form,
        found,
        part.take("inputs", texts, ()),
        keys,
        schema if columns is not None else None,
        _bounds(part, found),
        part.take("latency", one_of(Latency), Latency.READ_READY),
        part.take("selectivity", one_of(Selectivity), Selectivity.PROPORTIONAL),
        part.take("on_error", one_of(OnError), OnError.DEAD_LETTER),
        _location(part),
    )


def _constraint(part: JsonObject) -> Constraint:
    part.knows("first", "last", "latency", "window", "written")
    return Constraint(
        part.take("first", text),
        part.take("last", text),
        part.take("latency", number),
        part.take("window", number, 10.0),
        _location(part),
    )


def _column(part: JsonObject) -> Field:
    part.knows("name", "type")
    return Field(part.take("name", text), part.take("type", text))


def _bounds(part: JsonObject, state: State) -> Bounds:
    most = 1 if state is State.GLOBAL else None
    given = part.part("bounds")
    if given is None:
        return Bounds(1, most)
    given.knows("least", "most")
    found = Bounds(given.take("least", whole, 1), given.take("most", whole, most))
    if found.least < 1:
        raise given.wrong(f"least is {found.least}, it must be at least 1")
    if found.most is not None and found.most < found.least:
        raise given.wrong(f"least {found.least} is above most {found.most}")
    return found


def _location(part: JsonObject) -> Location:
    given = part.part("written")
    if given is None:
        return UNKNOWN
    given.knows("file", "line")
    return Location(given.take("file", text), given.take("line", whole))


def _form(value: Any) -> str:
    if value != "read" and value not in tuple(_FORMS):
        raise ValueError(f"no operator is a '{value}'; known are read, {', '.join(_FORMS)}")
    return str(value)
