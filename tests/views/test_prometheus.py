from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.errors import InvalidInput
from penstock.metrics.catalog import CATALOG, Unit
from penstock.metrics.snapshot import (
    ChannelMetrics,
    ExecutorMetrics,
    InstanceMetrics,
    OperatorMetrics,
    PipelineMetrics,
)
from penstock.plan.decision import Decision
from penstock.store.turn import Review, Veto
from penstock.views.prometheus import Exporter, family

from . import statuses

Sample = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture(scope="module")
def served() -> Iterator[Exporter]:
    with closing(Exporter(0)) as made:  # closing takes half a second
        yield made


@pytest.fixture
def exporter(served: Exporter) -> Exporter:
    served._status, served._counts = None, Counter()
    return served


def scraped(exporter: Exporter) -> str:
    with urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def samples(exporter: Exporter) -> dict[Sample, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for one in text_string_to_metric_families(scraped(exporter))
        for sample in one.samples
    }


def value(found: dict[Sample, float], name: str, **labels: str) -> float | None:
    return found.get((name, frozenset({"flow": "wordcount", **labels}.items())))


def test_the_last_snapshot_is_served(exporter: Exporter) -> None:
    exporter.show(statuses.first())
    assert {name for name, _ in samples(exporter)} == {"penstock_run_info"}
    for second in (9.0, 10.0):
        exporter.show(statuses.status(second))
    found = samples(exporter)
    rows = float(statuses.snapshot(10.0).rows_ingested)
    assert value(found, "penstock_rows_ingested_total") == rows
    assert value(found, "penstock_elapsed_seconds") == 10.0
    assert value(found, "penstock_latency_mean_seconds", constraint="parse->count") == 0.84
    assert value(found, "penstock_latency_bound_seconds", constraint="parse->count") == 3.0
    p95 = statuses.snapshot(10.0).latency["parse->count"].p95
    labels = {"constraint": "parse->count", "quantile": "0.95"}
    assert value(found, "penstock_latency_seconds", **labels) == p95
    labels = {"pipeline": "tweets", "direction": "in"}
    rate = statuses.snapshot(10.0).pipelines["tweets"].rate_in
    assert value(found, "penstock_pipeline_rows_per_second", **labels) == rate
    assert value(found, "penstock_plan_instances", pipeline="count") == 4.0
    assert value(found, "penstock_changes_total") == 0.0


def test_what_was_not_measured_is_not_there(exporter: Exporter) -> None:
    exporter.show(statuses.status(10.0))
    tick = statuses.status(10.0).tick
    assert tick is not None
    nothing = PipelineMetrics("tweets", 2, rate_in=float("nan"))
    bare = replace(tick.snapshot, pipelines={"tweets": nothing}, rows_offered=None, load=None)
    exporter.show(replace(statuses.status(11.0), tick=replace(tick, snapshot=bare)))
    found = samples(exporter)
    of_pipeline = {name for name, labels in found if ("pipeline", "tweets") in labels}
    assert of_pipeline == {
        "penstock_plan_instances",
        "penstock_pipeline_parallelism",
        "penstock_pipeline_batches",
        "penstock_pipeline_in_batches",
    }
    assert value(found, "penstock_throughput_rows_per_second") is None
    assert value(found, "penstock_rows_offered_total") is None
    assert value(found, "penstock_load_ratio") is None


def test_what_has_no_bound_is_told_and_variation_only_where_it_was_measured(
    exporter: Exporter,
) -> None:
    tick = statuses.status(10.0).tick
    assert tick is not None
    stuck = PipelineMetrics("tweets", 1, rate_in=0.0, arrival_rate=9.0, service=1.0, wait=0.5)
    queued = PipelineMetrics(
        "count", 1, rate_in=1.0, arrival_rate=1.0, service=0.5, wait=0.5, arrival_cv=0.7
    )
    full = replace(tick.snapshot, pipelines={"tweets": stuck, "count": queued})
    exporter.show(replace(statuses.status(11.0), tick=replace(tick, snapshot=full)))
    found = samples(exporter)
    assert value(found, "penstock_pipeline_congestion", pipeline="tweets") == float("inf")
    assert value(found, "penstock_queue_kingman_seconds", pipeline="tweets") == float("inf")
    assert value(found, "penstock_queue_arrival_cv", pipeline="tweets") is None
    assert value(found, "penstock_queue_arrival_cv", pipeline="count") == 0.7
    assert value(found, "penstock_queue_service_cv", pipeline="count") is None


def test_every_part_of_a_snapshot_is_served(exporter: Exporter) -> None:
    status = statuses.status(10.0)
    assert status.tick is not None
    instances = (InstanceMetrics(0, 30, 0.2), InstanceMetrics(1, 10, None))
    one = PipelineMetrics(
        "tweets", 2, rate_in=50.0, arrival_rate=100.0, service=0.01, wait=0.5,
        parts={"work": 0.3}, instances=instances,
    )  # fmt: skip
    full = replace(
        status.tick.snapshot,
        pipelines={"tweets": one},
        operators={"parse": OperatorMetrics("parse", 40, 10, 40.0, 10.0, 0.01)},
        channels={"split>count": ChannelMetrics("split", "count", 7, None, 0.2)},
        executors={"1": ExecutorMetrics("1", 4, cpu=0.3, io_bytes=9.0, instances={"count": 2})},
        sinks={"counts": 12},
        slot_seconds=60.0,
    )
    exporter.show(replace(status, tick=replace(status.tick, snapshot=full)))
    found = samples(exporter)
    channel = {"writer": "split", "reader": "count", "pipeline": "count"}
    expected: list[tuple[float, str, dict[str, str]]] = [
        (40.0, "operator_rows_per_second", {"operator": "parse", "direction": "in"}),
        (10.0, "operator_rows_per_second", {"operator": "parse", "direction": "out"}),
        (0.01, "operator_service_seconds", {"operator": "parse"}),
        (0.25, "operator_selectivity", {"operator": "parse"}),
        (0.2, "operator_capacity_ratio", {"operator": "parse"}),
        (1.0, "operator_measured", {"operator": "parse"}),
        (0.5, "pipeline_utilisation", {"pipeline": "tweets"}),
        (2.0, "pipeline_congestion", {"pipeline": "tweets"}),
        (200.0, "pipeline_true_rows_per_second", {"pipeline": "tweets"}),
        (0.5, "pipeline_skew", {"pipeline": "tweets"}),
        (0.3, "pipeline_parts_seconds", {"pipeline": "tweets", "part": "work"}),
        (50.0, "queue_rows_per_second", {"pipeline": "tweets"}),
        (30.0, "instance_rows", {"pipeline": "tweets", "number": "0"}),
        (7.0, "channel_backlog_rows", channel),
        (0.2, "channel_latency_seconds", channel),
        (0.3, "executor_cpu_ratio", {"executor": "1"}),
        (9.0, "executor_io_bytes_per_second", {"executor": "1"}),
        (2.0, "executor_instances", {"executor": "1", "pipeline": "count"}),
        (12.0, "sink_rows_total", {"sink": "counts"}),
        (60.0, "slot_seconds_total", {}),
    ]
    for wanted, name, labels in expected:
        assert value(found, f"penstock_{name}", **labels) == pytest.approx(wanted), name
    assert value(found, "penstock_instance_busy_ratio", pipeline="tweets", number="1") is None


def test_strange_names_are_escaped(exporter: Exporter) -> None:
    strange = 'a "quoted"\\ name\nin two lines'
    status = statuses.status(10.0)
    assert status.tick is not None
    shot = replace(status.tick.snapshot, operators={strange: OperatorMetrics(strange, rate_in=1.0)})
    exporter.show(replace(status, tick=replace(status.tick, snapshot=shot)))
    labels = {"operator": strange, "direction": "in"}
    assert value(samples(exporter), "penstock_operator_rows_per_second", **labels) == 1.0


def test_what_happened_is_counted_once_a_turn(exporter: Exporter) -> None:
    changed = statuses.status(10.0, transition=statuses.TRANSITION)
    for _ in range(3):  # the same turn is shown again while nothing is new
        exporter.show(changed)
    vetoes = (Veto("budget", "too much"), Veto("quiet", "not now"))
    review = Review(Decision(None, "no"), Decision(None, "no"), vetoes)
    for second in (11.0, 12.0):
        status = statuses.status(second)
        assert status.tick is not None
        tick = replace(status.tick, review=review, refused="no", error="boom")
        exporter.show(replace(status, tick=tick))
    found = samples(exporter)
    assert value(found, "penstock_changes_total") == 1.0
    assert value(found, "penstock_refusals_total") == 2.0
    assert value(found, "penstock_policy_errors_total") == 2.0
    assert value(found, "penstock_vetoes_total", rule="budget") == 2.0
    assert value(found, "penstock_vetoes_total", rule="quiet") == 2.0


def test_every_number_of_the_vocabulary_has_a_good_name() -> None:
    kinds: dict[str, tuple[bool, str, Unit]] = {}
    for measure in CATALOG:
        found = family(measure)
        assert (found is None) == (measure.unit in (Unit.NAME, Unit.PARTS))
        if found is None:
            continue
        one, labels = found
        assert re.fullmatch(r"penstock(_[a-z0-9]+)+", one.name)
        assert not one.name.endswith("_total")
        same = kinds.setdefault(one.name, (one.total, one.meaning, measure.unit))
        assert same == (one.total, one.meaning, measure.unit)
        assert bool(labels) == (
            measure.name.endswith(("_in", "_out")) or "p5" <= measure.name < "pa"
        )


def test_help_is_what_the_vocabulary_says(exporter: Exporter) -> None:
    exporter.show(statuses.status(10.0))
    page = scraped(exporter)
    assert "# HELP penstock_pipeline_busy_ratio time in which a batch was running\n" in page
    both = "rows processed per second, over whole batches; rows put out per second"
    assert f"# HELP penstock_pipeline_rows_per_second {both}\n" in page
    assert "# TYPE penstock_rows_ingested_total counter\n" in page


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=rf"metrics at 127.0.0.1:{port}: Address already"):
            Exporter(port)


@pytest.mark.parametrize(
    ("port", "address", "why"),
    [(70000, "127.0.0.1", "70000 is no port"), (0, "203.0.113.1", "cannot serve metrics at 203")],
)
def test_a_place_that_is_none_is_told(port: int, address: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Exporter(port, address)


def test_it_listens_on_this_machine_only_and_lets_go_of_its_port() -> None:
    exporter = Exporter(0)
    assert exporter._server.server_address[0] == "127.0.0.1"
    exporter.close()
    exporter.close()
    with pytest.raises(URLError):
        scraped(exporter)
    socket.create_server(("127.0.0.1", exporter.port)).close()
