"""The structure of a dataflow as JSON: everything that can be seen of it, without its functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.dataflow import operator as op
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.graph import Constraint, Graph
from penstock.dataflow.location import Location
from penstock.dataflow.operator import Bounds, Latency, OnError, Operator, Selectivity, State
from penstock.dataflow.schema import Field, Schema
from penstock.dataflow.validation import known_schemas
from penstock.errors import InvalidInput


@dataclass(frozen=True)
class Step:
    """What is visible of one operator."""

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
    def of(cls, operator: Operator, schema: Schema | None) -> Step:
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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Step:
        columns = data["schema"]
        return cls(
            data["name"],
            data["form"],
            State(data["state"]),
            tuple(data["inputs"]),
            tuple(data["keys"]),
            None
            if columns is None
            else Schema(tuple(Field(c["name"], c["type"]) for c in columns)),
            Bounds(data["bounds"]["least"], data["bounds"]["most"]),
            Latency(data["latency"]),
            Selectivity(data["selectivity"]),
            OnError(data["on_error"]),
            Location(data["written"]["file"], data["written"]["line"]),
        )

    def operator(self) -> Operator:
        """An operator that looks the same and does nothing."""
        return Operator(
            self.name,
            _hollow(self.form, self.schema),
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
    """A dataflow as a person or a page sees it. It cannot run: the functions are not in it."""

    name: str
    operators: tuple[Step, ...]
    constraints: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, graph: Graph, schemas: Mapping[str, Schema | None] | None = None) -> Structure:
        """The structure of a graph, with schemas declared, passed on, or known from elsewhere."""
        known = known_schemas(graph, schemas)
        steps = tuple(Step.of(o, known.get(o.name)) for o in graph.operators)
        return cls(graph.name, steps, graph.constraints)

    def graph(self) -> Graph:
        """A dataflow to decide about, not to run: its operators do nothing."""
        return Graph(self.name, tuple(step.operator() for step in self.operators), self.constraints)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "operators": [step.to_json() for step in self.operators],
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
    """The structure of a dataflow as plain lists, dictionaries, texts and numbers."""
    return Structure.of(graph, schemas).to_json()


def from_json(data: Mapping[str, Any]) -> Structure:
    """Read what `to_json` wrote; `from_json(d).to_json() == d`. Raises `InvalidInput`."""
    try:
        constraints = tuple(
            Constraint(
                c["first"],
                c["last"],
                c["latency"],
                c["window"],
                Location(c["written"]["file"], c["written"]["line"]),
            )
            for c in data["constraints"]
        )
        steps = tuple(Step.from_json(step) for step in data["operators"])
        return Structure(data["name"], steps, constraints)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"this is not the structure of a dataflow: {error!r}") from error


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


def _hollow(form: str, schema: Schema | None) -> op.Body:
    if form == "read":
        return op.Read(Generator(lambda rng, index, at: {}, schema or Schema(())))
    if form not in _FORMS:
        raise InvalidInput(f"this is not the structure of a dataflow: no operator is a '{form}'")
    return _FORMS[form]


def _place(written: Location) -> dict[str, Any]:
    return {"file": written.file, "line": written.line}
