"""The API in which users write dataflows. It builds a graph and runs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.dataflow import duration
from penstock.dataflow import operators as op
from penstock.dataflow.connectors import Sink, Source
from penstock.dataflow.graph import Constraint, Expectation, Graph
from penstock.dataflow.operators import Bounds, Estimate, Latency, OnError, Operator, Selectivity
from penstock.dataflow.schema import Schema
from penstock.errors import InvalidInput, Location
from penstock.notebook_display import Shown

if TYPE_CHECKING:
    from penstock import Summary

# Not resolved: code objects carry the path the package was imported by, links included.
_PACKAGE = f"{Path(__file__).parent.parent}/"


class Dataflow(Shown):
    """A dataflow under construction; `graph` is what has been written so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._operators: list[Operator] = []
        self._constraints: list[Constraint] = []
        self._expectations: list[Expectation] = []

    @property
    def graph(self) -> Graph:
        return Graph(
            self.name, tuple(self._operators), tuple(self._constraints), tuple(self._expectations)
        )

    def source(self, name: str, source: Source, **properties: Any) -> Stream:
        """Add a source of records."""
        schema = getattr(source, "schema", None)
        return self.add(name, op.Read(source), (), schema=schema, **properties)

    def constrain(
        self, first: str, last: str, *, latency: str | float, window: str | float = "10s"
    ) -> None:
        """Bound the mean latency of records from `first` to `last` over a window."""
        bound, span = duration.seconds(latency), duration.seconds(window)
        self._constraints.append(Constraint(first, last, bound, span, caller()))

    def expect(
        self,
        sink: str,
        oracle: Callable[[Mapping[str, Any]], Iterable[tuple[Any, ...]]],
        keys: Iterable[str] = (),
    ) -> None:
        """Say what a sink must hold in the end, computed from the generated input alone."""
        self._expectations.append(Expectation(sink, oracle, tuple(keys), caller()))

    def add(
        self,
        name: str,
        body: op.Body,
        inputs: Iterable[str],
        *,
        keys: Iterable[str] = (),
        schema: Any = None,
        min_parallelism: int = 1,
        max_parallelism: int | None = None,
        latency: str | None = None,
        selectivity: str | None = None,
        on_error: str = "dead-letter",
        estimate: Estimate | None = None,
        takes_updates: bool = False,
    ) -> Stream:
        """Add an operator of any form; the methods of `Stream` are easier to read."""
        keys = tuple(keys)
        windowed = isinstance(body, op.Aggregate) and body.window is not None
        operator = Operator(
            name=name,
            body=body,
            inputs=tuple(inputs),
            keys=keys,
            schema=None if schema is None else Schema.of(schema),
            bounds=Bounds(min_parallelism, max_parallelism),
            latency=_choice(
                Latency, latency, Latency.READ_WRITE if windowed else Latency.READ_READY
            ),
            selectivity=_choice(Selectivity, selectivity, _usual_selectivity(body)),
            on_error=_choice(OnError, on_error, OnError.DEAD_LETTER),
            estimate=estimate,
            written=caller(),
            takes_updates=takes_updates,
        )
        if operator.state is op.State.GLOBAL and max_parallelism is None:
            operator = replace(operator, bounds=Bounds(min_parallelism, 1))
        self._operators.append(operator)
        return Stream(self, name)

    def validate(self) -> None:
        """Raise `InvalidDataflow` with all problems that can be found without Spark."""
        from penstock.dataflow.validation import check

        check(self.graph)

    def run(self, **options: Any) -> Summary:
        """Run on Spark until stopped: short for `penstock.run(flow, ...)`, with its options."""
        import penstock

        return penstock.run(self, **options)


class Stream:
    """The output of an operator, to be read by the next ones."""

    def __init__(self, flow: Dataflow, name: str) -> None:
        self._flow = flow
        self.name = name

    def _then(self, name: str, body: op.Body, properties: dict[str, Any]) -> Stream:
        return self._flow.add(name, body, (self.name,), **properties)

    def frame(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        reject: str | None = None,
        **properties: Any,
    ) -> Stream:
        """Apply a DataFrame function, compiled by Spark: the fastest form.

        Rows of its output that fulfil the SQL condition `reject` become dead letters.
        """
        return self._then(name, op.Frame(function, reject), properties)

    def arrow(
        self, name: str, function: Callable[[Any], Any], *, schema: Any, **properties: Any
    ) -> Stream:
        """Apply a function from an iterator of Arrow record batches to another.

        What it yields before it takes the next batch belongs to the batches taken so far.
        """
        return self._then(name, op.Arrow(function), {"schema": schema, **properties})

    def map(
        self,
        name: str,
        function: Callable[[dict[str, Any]], Any],
        *,
        schema: Any,
        **properties: Any,
    ) -> Stream:
        """Apply a function from a record (dictionary) to a record (dictionary or tuple)."""
        return self._then(name, op.Map(function), {"schema": schema, **properties})

    def flat_map(
        self,
        name: str,
        function: Callable[[dict[str, Any]], Any],
        *,
        schema: Any,
        **properties: Any,
    ) -> Stream:
        """Apply a function from a record to any number of records."""
        return self._then(name, op.FlatMap(function), {"schema": schema, **properties})

    def filter(
        self, name: str, function: Callable[[dict[str, Any]], Any], **properties: Any
    ) -> Stream:
        """Keep the records for which the function is true."""
        return self._then(name, op.Filter(function), properties)

    def key_by(self, *columns: str) -> KeyedStream:
        """Partition the next, stateful operator by these columns."""
        if not columns:
            raise InvalidInput("key_by needs at least one column")
        return KeyedStream(self, columns)

    def union(self, name: str, *others: Stream, **properties: Any) -> Stream:
        """Merge this stream with others; columns are matched by name."""
        inputs = (self.name, *(o.name for o in others))
        return self._flow.add(name, op.Union(), inputs, **properties)

    def barrier(self, name: str, *others: Stream, **properties: Any) -> Stream:
        """Wait for one record from every input, then send them on together."""
        inputs = (self.name, *(o.name for o in others))
        return self._flow.add(name, op.Barrier(), inputs, **properties)

    def process_all(
        self,
        name: str,
        processor: Callable[[], Any],
        *,
        schema: Any,
        time_mode: str = "none",
        **properties: Any,
    ) -> Stream:
        """Apply a global `StatefulProcessor`: one instance sees every record.

        `takes_updates=True` allows it downstream of an aggregation that emits updates: a record
        then replaces the earlier one of its group.
        """
        return self._then(name, op.Process(processor, time_mode), {"schema": schema, **properties})

    def sink(self, name: str, sink: Sink, **properties: Any) -> None:
        """Write the records to a sink."""
        self._then(name, op.Write(sink), properties)


class KeyedStream:
    """A stream partitioned by key for its next operator."""

    def __init__(
        self, stream: Stream, keys: tuple[str, ...], window: op.Window | None = None
    ) -> None:
        self._stream = stream
        self._keys = keys
        self._window = window

    def _then(self, name: str, body: op.Body, properties: dict[str, Any]) -> Stream:
        return self._stream._then(name, body, {"keys": self._keys, **properties})

    def window(
        self, size: str, *, on: str, slide: str | None = None, watermark: str | None = None
    ) -> KeyedStream:
        """Group by event-time windows as well; the output gets a `window` column.

        `watermark` is how late a record may be; later records are dropped, and windows close.
        Without one nothing is dropped, unless an operator upstream has a watermark on the same
        event time: that one then applies here too, and a `watermark` given here is added to it.
        """
        for given in (size, slide, watermark):
            if given is not None:
                duration.seconds(given)
        return KeyedStream(self._stream, self._keys, op.Window(on, size, slide, watermark))

    def aggregate(
        self, name: str, *columns: Any, emit: str = "update", schema: Any = None, **named: Any
    ) -> Stream:
        """Aggregate natively in Spark, e.g. `n="count(*)"`.

        A column is a Spark column, SQL text, or a function without arguments that makes one, with
        or without a name. Keywords such as `max_parallelism` are properties, not columns.
        """
        properties = {k: named.pop(k) for k in tuple(named) if k in _PROPERTIES}
        aliased = tuple(_aliased(alias, column) for alias, column in named.items())
        body = op.Aggregate((*columns, *aliased), self._window, emit)
        return self._then(name, body, {"schema": schema, **properties})

    def process(
        self,
        name: str,
        processor: Callable[[], Any],
        *,
        schema: Any,
        time_mode: str = "none",
        **properties: Any,
    ) -> Stream:
        """Apply a PySpark `StatefulProcessor` with one state per key, in order per key.

        `takes_updates=True` allows it downstream of an aggregation that emits updates: a record
        then replaces the earlier one of its group.
        """
        return self._then(name, op.Process(processor, time_mode), {"schema": schema, **properties})

    def deduplicate(
        self, name: str, *, on: str | None = None, watermark: str | None = None, **properties: Any
    ) -> Stream:
        """Pass on the first record of each key; with `on` and `watermark`, forget old keys."""
        return self._then(name, op.Deduplicate(on, watermark), properties)

    def join(
        self,
        name: str,
        other: KeyedStream,
        *,
        how: str = "inner",
        condition: str | None = None,
        left_watermark: tuple[str, str] | None = None,
        right_watermark: tuple[str, str] | None = None,
        **properties: Any,
    ) -> Stream:
        """Join with another keyed stream on equal keys (same column names on both sides).

        `condition` is SQL over the aliases `l` and `r`, usually a bound on time, so that state
        can be forgotten; a watermark is (column, delay).
        """
        body = op.Join(how, condition, left_watermark, right_watermark)
        inputs = (self._stream.name, other._stream.name)
        self._same_keys(name, other)
        return self._stream._flow.add(name, body, inputs, keys=self._keys, **properties)

    def barrier(self, name: str, *others: KeyedStream, **properties: Any) -> Stream:
        """For each key, wait for one record from every input, then send them on together."""
        for other in others:
            self._same_keys(name, other)
        inputs = (self._stream.name, *(o._stream.name for o in others))
        return self._stream._flow.add(name, op.Barrier(), inputs, keys=self._keys, **properties)

    def _same_keys(self, name: str, other: KeyedStream) -> None:
        if self._keys != other._keys:
            raise InvalidInput(
                f"'{name}': both sides must be keyed by the same columns, "
                f"found {list(self._keys)} and {list(other._keys)}; rename a column first"
            )


_PROPERTIES = frozenset(
    {"min_parallelism", "max_parallelism", "latency", "selectivity", "on_error", "estimate"}
)


def _aliased(alias: str, column: Any) -> Any:
    """Return a column under another name, in the form in which it was given."""
    if isinstance(column, str):
        return f"{column} AS `{alias}`"
    if hasattr(column, "alias"):
        return column.alias(alias)
    if callable(column):
        return lambda: column().alias(alias)
    raise InvalidInput(
        f"the column '{alias}' of an aggregation is {column!r}: write SQL text, a Spark column, or "
        "a function that makes one"
    )


def _choice(kind: Any, given: str | None, default: Any) -> Any:
    if given is None:
        return default
    try:
        return kind(given)
    except ValueError:
        allowed = ", ".join(repr(k.value) for k in kind)
        raise InvalidInput(f"'{given}' is not one of {allowed}") from None


def _usual_selectivity(body: op.Body) -> Selectivity:
    match body:
        case op.Aggregate() | op.Deduplicate() | op.Join() | op.Filter() | op.FlatMap():
            return Selectivity.WORKLOAD
        case op.Process():
            return Selectivity.LOGIC
        case _:
            return Selectivity.PROPORTIONAL


def caller() -> Location:
    """Return the nearest line on the stack that is not in this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)
