"""Where rows enter and leave a pipeline, and what it keeps: pure functions of the dataflow."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.dataflow.connectors import Generator
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, Read, Write

Operators = tuple[str, ...]
"""The names of a pipeline's operators."""


@dataclass(frozen=True)
class Input:
    """A place where rows enter a pipeline. `upstream` is empty for a source inside it."""

    operator: str
    upstream: str = ""

    @property
    def key(self) -> str:
        """The name under which positions in this input are stored."""
        return f"{self.upstream}>{self.operator}" if self.upstream else self.operator


def inputs(graph: Graph, operators: Operators) -> tuple[Input, ...]:
    """All inputs of a pipeline, in the order of its operators."""
    inside = set(operators)
    found = []
    for name in operators:
        operator = graph[name]
        if isinstance(operator.body, Read):
            found.append(Input(name))
        found += [Input(name, i) for i in operator.inputs if i not in inside]
    return tuple(found)


def tail(graph: Graph, operators: Operators) -> str:
    """The operator whose output leaves the pipeline; the sink itself if it is alone."""
    steps = [n for n in operators if not isinstance(graph[n].body, Write)]
    return steps[-1] if steps else operators[0]


def sinks(graph: Graph, operators: Operators) -> Operators:
    return tuple(n for n in operators if isinstance(graph[n].body, Write))


def feeds(graph: Graph, operators: Operators) -> bool:
    """True if another pipeline reads the output, so that it goes through a channel."""
    return any(s not in operators for s in graph.successors[tail(graph, operators)])


def stateful(graph: Graph, operators: Operators) -> Operator | None:
    """The stateful operator of a pipeline; there is at most one."""
    return next((graph[n] for n in operators if graph[n].stateful), None)


def generator(graph: Graph, source: str) -> Generator | None:
    """The generator of a source; None for one of Spark's own sources, such as Kafka."""
    body = graph[source].body
    found = body.source if isinstance(body, Read) else None
    return found if isinstance(found, Generator) else None


def spark_sources(graph: Graph, operators: Operators) -> tuple[Operator, ...]:
    """Sources in a pipeline that Spark reads by itself. They have no valve."""
    found = (graph[i.operator] for i in inputs(graph, operators) if not i.upstream)
    return tuple(o for o in found if generator(graph, o.name) is None)
