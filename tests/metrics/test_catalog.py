from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import fields

import pytest

from penstock.metrics import derived, snapshot
from penstock.metrics.catalog import CATALOG, MetricLevel, Unit, metric, metrics_of

KINDS = {
    MetricLevel.FLOW: snapshot.Snapshot,
    MetricLevel.OPERATOR: snapshot.OperatorMetrics,
    MetricLevel.PIPELINE: snapshot.PipelineMetrics,
    MetricLevel.INSTANCE: snapshot.InstanceMetrics,
    MetricLevel.CHANNEL: snapshot.ChannelMetrics,
    MetricLevel.EXECUTOR: snapshot.ExecutorMetrics,
    MetricLevel.LATENCY: snapshot.LatencyMetrics,
    MetricLevel.QUEUE: derived.PipelineQueue,
}
ARGUMENTS = {"OperatorMetrics": MetricLevel.OPERATOR, "PipelineMetrics": MetricLevel.PIPELINE}


def names(level: MetricLevel) -> set[str]:
    """Fields and properties of a dataclass, and the functions whose first argument it is."""
    kind = KINDS[level]
    found = {f.name for f in fields(kind)}
    found |= {n for n, v in vars(kind).items() if isinstance(v, property)}
    for name, function in inspect.getmembers(derived, inspect.isfunction):
        if function.__module__ != derived.__name__ or name.startswith("_"):
            continue
        first = next(iter(inspect.signature(function).parameters.values()))
        if ARGUMENTS.get(str(first.annotation)) is level:
            found.add(name)
    return found


@pytest.mark.parametrize("level", MetricLevel)
def test_every_measured_name_is_explained_exactly_once(level: MetricLevel) -> None:
    assert Counter(one.name for one in metrics_of(level)) == Counter(names(level))


def test_every_dataclass_of_a_snapshot_has_a_level() -> None:
    made = {
        kind
        for module in (snapshot, derived)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
    }
    assert made == {*KINDS.values(), snapshot.KeyRange}  # a part of an instance's metrics


def test_meanings_are_short_and_there() -> None:
    assert [m for m in CATALOG if not 3 <= len(m.meaning) <= 80 or m.meaning.endswith(".")] == []


def test_units_fit_the_types_of_the_fields() -> None:
    for level, kind in KINDS.items():
        for field in fields(kind):
            unit = metric(level, field.name).unit
            named = unit in (Unit.NAME, Unit.FLAG, Unit.PARTS)
            number = field.type.split(" ")[0] in ("int", "float") or field.type in (
                "Mapping[str, int]",
                "Mapping[str, float]",
            )
            assert number != named, (level, field.name)
