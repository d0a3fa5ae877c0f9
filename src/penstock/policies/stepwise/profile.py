"""Results of profiling a dataflow: features, ratios, rounds and the best plan.

The vertices are pipelines. The task load of a vertex is the time one row takes there times its
share of all rows that flow between vertices. It says how many instances a vertex needs relative to
the others.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Selectivity, State
from penstock.errors import InvalidInput, InvalidPlan
from penstock.plan import fusion
from penstock.plan.plan import Plan
from penstock.policies.stepwise.significance import compare

_AGAIN = 0.03
"""Largest relative difference between two trials of the same plan in the paper."""


@dataclass(frozen=True)
class Feature:
    """Features of one vertex.

    latency: least seconds that an instance needs for a row; share: its input as a share of all rows
    between vertices; parallel: whether it can have several instances; dominated: whether all its
    input passed a logic-dependent operator, and so does not grow with throughput; source: whether
    it receives rows from outside.
    """

    latency: float
    share: float
    parallel: bool = True
    dominated: bool = False
    source: bool = False

    @property
    def load(self) -> float:
        """Task load."""
        return self.latency * self.share

    def to_json(self) -> dict[str, Any]:
        return {
            "service_ms": 1000 * self.latency,
            "share": self.share,
            "load": self.load,
            "parallel": self.parallel,
            "dominated": self.dominated,
            "source": self.source,
        }


@dataclass(frozen=True)
class Ratios:
    """Ratios of the instances of all vertices.

    scaled: ratios, at most 1, of vertices that scale with throughput; fixed: instances of the
    others; total_flow: most rows per second between all vertices that single-instance vertices can
    carry.
    """

    scaled: Mapping[str, float]
    fixed: Mapping[str, int]
    total_flow: float

    def instances(self, unit: float) -> dict[str, int]:
        """Ratios as whole numbers, in steps of a unit, divided by their common divisor."""
        if not self.scaled:
            return {}
        wanted = {n: max(1, math.ceil(r / unit - 1e-9)) for n, r in self.scaled.items()}
        common = reduce(math.gcd, wanted.values())
        return {name: number // common for name, number in wanted.items()}


def ratios(features: Mapping[str, Feature]) -> Ratios:
    """Compute the ratios from the features.

    Vertices limited to one instance bound the total flow. A dominated vertex gets the instances
    that this flow needs, or one if it is unbounded; it can never have the largest load.
    """
    inner = {name: feature for name, feature in features.items() if not feature.source}
    flow = min(
        (1 / f.load for f in inner.values() if not f.parallel and f.load > 0), default=math.inf
    )
    largest = max((f.load for f in inner.values()), default=0.0)
    scaled: dict[str, float] = {}
    fixed: dict[str, int] = {}
    for name, feature in inner.items():
        if not feature.parallel:
            fixed[name] = 1
        elif feature.dominated:
            needed = feature.load * flow if flow < math.inf else 1.0
            fixed[name] = max(1, math.ceil(needed - 1e-9))
        else:
            scaled[name] = feature.load / largest if largest else 1.0
    return Ratios(scaled, fixed, flow)


def dominated(graph: Graph) -> frozenset[str]:
    """Operators preceded on all paths from the sources by a logic-dependent one."""
    found: set[str] = set()
    for name in graph.topological:
        operator = graph[name]
        if operator.inputs and all(
            graph[i].selectivity is Selectivity.LOGIC or i in found for i in operator.inputs
        ):
            found.add(name)
    return frozenset(found)


def flows(
    graph: Graph, plan: Plan, rates: Mapping[str, float], selectivity: Mapping[str, float]
) -> dict[str, float]:
    """Rows per second that would enter each pipeline without back pressure.

    They follow from the input of the sources and the selectivity of each pipeline. Where the
    selectivity was not measured, the measured downstream rate counts.
    """
    place = {name: at for at, name in enumerate(graph.topological)}
    sources = {plan.pipeline_of(source.name).name for source in graph.sources}
    into: dict[str, float] = {}
    for pipeline in sorted(plan.pipelines, key=lambda p: place[_tail(graph, p.operators)]):
        edges = ((i, n) for n in pipeline.operators for i in graph[n].inputs)
        writers = [plan.pipeline_of(i).name for i, _ in edges if i not in pipeline.operators]
        known = all(name in selectivity for name in writers)
        if pipeline.name in sources or not known:
            into[pipeline.name] = rates[pipeline.name]
        else:
            into[pipeline.name] = sum(into[name] * selectivity[name] for name in writers)
    return into


def _tail(graph: Graph, operators: tuple[str, ...]) -> str:
    """The operator of a pipeline whose output leaves it."""
    body = [name for name in operators if graph[name].state is not State.SINK]
    return (body or list(operators))[-1]


def features(
    graph: Graph, plan: Plan, latency: Mapping[str, float], rates: Mapping[str, float]
) -> dict[str, Feature]:
    """Features of a plan's pipelines, from least time per row and rows per second."""
    steady = dominated(graph)
    sources = {plan.pipeline_of(source.name).name for source in graph.sources}
    flow = sum(rate for name, rate in rates.items() if name not in sources)
    found = {}
    for pipeline in plan.pipelines:
        name = pipeline.name
        inside = set(pipeline.operators)
        entries = [n for n in inside if not inside.issuperset(graph[n].inputs)]
        found[name] = Feature(
            latency[name],
            rates[name] / flow if flow else 0.0,
            parallel=fusion.bounds(graph, inside).most != 1,
            dominated=bool(entries)
            and all(_after_logic(graph, n, inside, steady) for n in entries),
            source=name in sources,
        )
    return found


def _after_logic(graph: Graph, name: str, inside: set[str], steady: frozenset[str]) -> bool:
    """Whether what enters a pipeline at an operator does not grow with throughput."""
    outer = [i for i in graph[name].inputs if i not in inside]
    return all(graph[i].selectivity is Selectivity.LOGIC or i in steady for i in outer)


@dataclass(frozen=True)
class ProfilingRound:
    """A plan, and what was observed under it.

    kind: what was changed for it; throttle: share by which sources were slowed down; throughputs:
    one for each observation; latency: as a share of its bound, None if unknown; services: seconds
    for a row, by vertex; capacities: utilisation, by vertex; batches: rows of each source in a
    batch.
    """

    plan: Plan
    kind: str
    throughputs: tuple[float, ...]
    latency: float | None = None
    throttle: float = 0.0
    services: Mapping[str, float] = field(default_factory=dict)
    capacities: Mapping[str, float] = field(default_factory=dict)
    batches: Mapping[str, float] = field(default_factory=dict)

    @property
    def throughput(self) -> float:
        return statistics.fmean(self.throughputs)

    @property
    def met(self) -> bool:
        """True if latency is within its bound, or unknown."""
        return self.latency is None or self.latency <= 1

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "plan": self.plan.to_json(),
            "throughput": self.throughput,
            "throughputs": list(self.throughputs),
            "latency_over_bound": self.latency,
            "throttle": self.throttle,
            "capacities": dict(self.capacities),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProfilingRound:
        return cls(
            Plan.from_json(data["plan"]),
            data["kind"],
            tuple(map(float, data["throughputs"])),
            data.get("latency_over_bound"),
            data.get("throttle", 0.0),
            capacities=dict(data.get("capacities", {})),
        )


@dataclass(frozen=True)
class Profile:
    """Result of profiling; `final` is the round with the best plan."""

    features: Mapping[str, Feature]
    ratios: Ratios
    instances: Mapping[str, int]
    rounds: tuple[ProfilingRound, ...]
    final: ProfilingRound

    def to_json(self) -> dict[str, Any]:
        flow = self.ratios.total_flow
        return {
            "features": {name: feature.to_json() for name, feature in self.features.items()},
            "ratios": dict(self.ratios.scaled),
            "fixed": dict(self.ratios.fixed),
            "instances": dict(self.instances),
            "total_flow": None if flow == math.inf else flow,
            "rounds": [r.to_json() for r in self.rounds],
            "final": self.rounds.index(self.final),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Profile:
        """Read what `to_json` wrote. Raises `InvalidInput`."""
        try:
            features = {
                name: Feature(
                    one["service_ms"] / 1000,
                    one["share"],
                    one["parallel"],
                    one["dominated"],
                    one["source"],
                )
                for name, one in data["features"].items()
            }
            flow = math.inf if data["total_flow"] is None else data["total_flow"]
            rounds = tuple(ProfilingRound.from_json(one) for one in data["rounds"])
            ratios = Ratios(data["ratios"], data["fixed"], flow)
            return cls(features, ratios, data["instances"], rounds, rounds[data["final"]])
        except KeyError as missing:
            raise InvalidInput(f"{missing} is missing") from None
        except (InvalidPlan, AttributeError, IndexError, TypeError, ValueError) as error:
            raise InvalidInput(str(error)) from None


def was_kept(rounds: Sequence[ProfilingRound], final: ProfilingRound) -> tuple[bool, ...]:
    """For each round, whether the next one, or the end, built on it.

    If a pipeline has fewer instances there, or sources are slowed down less, the search went back.
    """
    return tuple(_builds_on(a, b) for a, b in pairwise([*rounds, final]))


def _builds_on(before: ProfilingRound, after: ProfilingRound) -> bool:
    sizes = {p.name: p.parallelism for p in after.plan.pipelines}
    larger = all(sizes.get(p.name, 0) >= p.parallelism for p in before.plan.pipelines)
    return larger and after.throttle >= before.throttle


def best_round(
    rounds: tuple[ProfilingRound, ...], level: float = 0.05, least: float = 0.0
) -> ProfilingRound:
    """Return the best round that meets the latency bound, or of all if none does.

    That is the one with the highest throughput or, among rounds without a significant difference
    from it, the one with the fewest instances. Rounds further apart than `_AGAIN` always differ,
    because noise may hide the difference from the test.
    """
    fit = [r for r in rounds if r.met] or list(rounds)
    top = max(fit, key=lambda r: r.throughput)
    near = [r for r in fit if r.throughput >= (1 - _AGAIN) * top.throughput]
    alike = [
        r for r in near if compare(r.throughputs, top.throughputs, level, least) == "unchanged"
    ]
    return min([top, *alike], key=lambda r: (r.plan.slots, -r.throughput))
