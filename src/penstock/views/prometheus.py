"""Exports the latest snapshot of a run to Prometheus over HTTP.

Every numeric metric of the catalog is named `penstock_` + level + name + base unit. Values that
were not measured are omitted, never 0; unbounded values are +Inf. A channel is labelled with its
two operators and the pipeline that reads it. Metrics are computed only during a scrape.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.control.status import Status
from penstock.errors import InvalidInput
from penstock.metrics import derived
from penstock.metrics.catalog import MetricDefinition, MetricLevel, Unit, metrics_of
from penstock.store.turn import Tick

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LOOPBACK = "127.0.0.1"


class Exporter:
    """A view that serves the metrics of a run over HTTP until it is closed."""

    def __init__(self, port: int, address: str = LOOPBACK) -> None:
        """port: 0 picks a free one (see `port`). Raises `InvalidInput` if it is taken."""
        from prometheus_client import CollectorRegistry, start_http_server

        if not 0 <= port <= 65535:
            raise InvalidInput(f"{port} is not a valid port for metrics: use 1 to 65535")
        self._status: Status | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            raise InvalidInput(
                f"cannot serve metrics at {address}:{port}: {error.strerror or error}"
            ) from None
        self.port = int(self._server.server_port)
        host = f"[{address}]" if ":" in address else address
        self.url = f"http://{host}:{self.port}/metrics"

    def show(self, status: Status) -> None:
        """Store the current status, and count changes, vetoes, errors and events."""
        before, self._status = self._status, status
        if status.tick is not None and (before is None or before.tick is not status.tick):
            counts = Counter(self._counts)  # a copy: a scrape may be reading the old one
            counts.update(_happened(status.tick))
            self._counts = counts

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._server.shutdown()
        with suppress(OSError):
            self._server.server_close()
        self._thread.join(5)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families of a scrape; called by the Prometheus registry."""
        status, counts = self._status, self._counts
        if status is None:
            return iter(())
        families = _Families(status.graph.name)
        _run(families, status)
        for (what, label), count in counts.items():
            counter, key = _COUNTERS[what]
            families.add(counter, count, {key: label} if key else {})
        if status.tick is not None:
            _snapshot(families, status.tick)
        return families.all()


@dataclass(frozen=True)
class Family:
    """A metric family: name without `_total`, help text, and whether it is a counter."""

    name: str
    meaning: str
    total: bool = False


_INFO = Family("penstock_run_info", "always 1; the labels say what runs")
_PLANNED = Family("penstock_plan_instances", "instances of a pipeline in the plan in force")
_EXECUTORS = Family("penstock_plan_executors", "executors in the plan in force")
_COUNTERS = {
    "changes": (Family("penstock_changes", "plan changes in this run", total=True), ""),
    "vetoes": (
        Family("penstock_vetoes", "changes vetoed by the guard, by rule", total=True),
        "rule",
    ),
    "refusals": (Family("penstock_refusals", "changes that were refused", total=True), ""),
    "errors": (Family("penstock_policy_errors", "turns with a policy failure", total=True), ""),
    "events": (Family("penstock_events", "events of the run, by kind", total=True), "kind"),
}


def family(measure: MetricDefinition) -> tuple[Family, dict[str, str]] | None:
    """Metric family and labels of a catalog metric; None if it is not numeric.

    Related metrics share a family: in and out (label `direction`), percentiles (label `quantile`).
    """
    if measure.unit in (Unit.NAME, Unit.PARTS):
        return None
    name, labels = measure.name, {}
    if name in ("rows_in", "rows_out", "rate_in", "rate_out"):
        name, labels["direction"] = name.split("_")
    if measure.level is MetricLevel.LATENCY and name in ("p50", "p95", "p99"):
        name, labels["quantile"] = "", f"0.{name[1:].rstrip('0')}"
    stem = _STEMS.get((measure.level, name)) or _with_unit(name, measure.unit)
    level = "" if measure.level is MetricLevel.FLOW else f"{measure.level}_"
    return Family(f"penstock_{level}{stem}", _meaning(measure), measure.total), labels


_STEMS = {
    (MetricLevel.FLOW, "at"): "elapsed_seconds",
    (MetricLevel.FLOW, "sinks"): "sink_rows",
}


def _with_unit(name: str, unit: Unit) -> str:
    stem = name.removesuffix("_rate").removesuffix("_seconds").removesuffix("_bytes")
    suffix = {
        Unit.RATE: "rows_per_second",
        Unit.SECONDS: "seconds",
        Unit.SLOT_SECONDS: "seconds",
        Unit.SHARE: "ratio",
        Unit.BYTES: "bytes",
        Unit.BYTE_RATE: "bytes_per_second",
    }.get(unit)
    if suffix is None:
        return name
    return suffix if stem in ("", "rate") else f"{stem}_{suffix}"


def _meaning(measure: MetricDefinition) -> str:
    """Help text of a family that several metrics may share."""
    if measure.name in ("p50", "p95", "p99"):
        return "what the given share of rows did not exceed"
    other = {"in": "out", "out": "in"}.get(measure.name.rpartition("_")[2])
    if other is None:
        return measure.meaning
    names = [f"{measure.name.rpartition('_')[0]}_{way}" for way in ("in", "out")]
    return "; ".join(m.meaning for m in metrics_of(measure.level) if m.name in names)


class _Families:
    """Collects the metric families of a scrape."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._found: dict[str, Metric] = {}

    def all(self) -> Iterator[Metric]:
        return iter(self._found.values())

    def add(self, what: Family, value: Any, labels: Mapping[str, str]) -> None:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        if value is None or math.isnan(value):
            return
        found = self._found.get(what.name)
        if found is None:
            kind = CounterMetricFamily if what.total else GaugeMetricFamily
            found = kind(what.name, what.meaning, labels=("flow", *labels))
            self._found[what.name] = found
        found.add_metric((self._flow, *labels.values()), float(value))  # type: ignore[attr-defined]

    def add_all(
        self, level: MetricLevel, item: Any, labels: Mapping[str, str], **known: Any
    ) -> None:
        """Add all metrics of a level; known: values that `item` has no attribute for."""
        for measure in metrics_of(level):
            found = family(measure)
            if found is None:
                continue
            what, more = found
            value = known.get(measure.name, getattr(item, measure.name, None))
            if isinstance(value, Mapping):
                for name, one in value.items():
                    self.add(what, one, {**labels, **more, _KEYS[measure.name]: name})
            else:
                self.add(what, value, {**labels, **more})


_KEYS = {"sinks": "sink", "parts": "part", "instances": "pipeline", "state_parts": "pipeline"}


def _run(families: _Families, status: Status) -> None:
    words = {"engine": status.engine, "policy": status.policy, "phase": status.phase}
    families.add(_INFO, 1, words)
    if status.plan is not None:
        families.add(_EXECUTORS, status.plan.executors, {})
        for one in status.plan.pipelines:
            families.add(_PLANNED, one.parallelism, {"pipeline": one.name})


def _snapshot(families: _Families, tick: Tick) -> None:
    snapshot = tick.snapshot
    families.add_all(MetricLevel.FLOW, snapshot, {})
    parallelism = {name: p.parallelism for p in tick.plan.pipelines for name in p.operators}
    home = {name: p.name for p in tick.plan.pipelines for name in p.operators}
    for name, operator in snapshot.operators.items():
        capacity = derived.capacity(operator, parallelism[name]) if name in parallelism else None
        families.add_all(MetricLevel.OPERATOR, operator, {"operator": name}, capacity=capacity)
    for name, pipeline in snapshot.pipelines.items():
        labels = {"pipeline": name}
        families.add_all(
            MetricLevel.PIPELINE,
            pipeline,
            labels,
            utilisation=derived.utilisation(pipeline),
            at_work=derived.at_work(pipeline),
            congestion=derived.congestion(pipeline),
            true_rate=derived.true_rate(pipeline),
        )
        if (queue := derived.queue(pipeline)) is not None:
            families.add_all(MetricLevel.QUEUE, queue, labels)
        for one in pipeline.instances:
            own = {**labels, "number": str(one.index)}
            families.add_all(MetricLevel.INSTANCE, one, own, index=None, part=None)
    for channel in snapshot.channels.values():
        labels = {
            "writer": channel.writer,
            "reader": channel.reader,
            "pipeline": home.get(channel.reader, ""),
        }
        families.add_all(MetricLevel.CHANNEL, channel, labels)
    for name, executor in snapshot.executors.items():
        families.add_all(MetricLevel.EXECUTOR, executor, {"executor": name})
    for name, latency in snapshot.latency.items():
        families.add_all(MetricLevel.LATENCY, latency, {"constraint": name})


def _happened(tick: Tick) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    found["changes", ""] = int(tick.transition is not None)
    found["refusals", ""] = int(tick.refused is not None)
    found["errors", ""] = int(tick.error is not None)
    for veto in () if tick.review is None else tick.review.vetoes:
        found["vetoes", veto.rule] += 1
    for event in tick.events:
        found["events", event.kind] += 1
    return found
