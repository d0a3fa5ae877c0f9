"""Es-Stream's figures 9 to 12 and its recoveries, read from made-up records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import FlowFailed
from penstock.policies.shared import queueing
from penstock_lab import experiments
from penstock_lab.experiments.es_stream import best_static as es_stream_static
from penstock_lab.experiments.es_stream import chain_spark as es_stream_spark
from penstock_lab.experiments.es_stream import common as es_stream
from penstock_lab.experiments.es_stream import figure_9 as es_stream_9
from penstock_lab.experiments.es_stream import figure_18 as es_stream_18
from penstock_lab.experiments.es_stream import recovery_spark as recovery_spark
from penstock_lab.experiments.es_stream.common import COUNT, TOP
from penstock_lab.experiments.es_stream.recovery import Scaled, SimulatedFault, recovered
from penstock_lab.experiments.experiment import Data, Job, Record, Setting
from penstock_lab.experiments.play import Play
from penstock_lab.experiments.table import tabulate


def late(latencies: Mapping[str, float]) -> Data:
    """Ten seconds of each case, with a mean latency in milliseconds."""
    records = (
        {
            "case": case,
            "kind": "tick",
            "at": at,
            "slots": 9,
            "latency": {"all": {"mean": ms / 1000}},
        }
        for case, ms in latencies.items()
        for at in range(1, 11)
    )
    return Data(tuple(records), parameters={"rates": es_stream_9.RATES, "seconds": 10.0})


def everywhere(own: float, **others: float) -> Data:
    """As long at all rates, for both applications; others: of ways, else they take 5 ms."""
    cases = [c.name for c in es_stream_9.cases(es_stream_9.RATES, 10.0)]
    ways = {case: case.rsplit(", ", 2)[0] for case in cases}
    told = {"es-stream": own, **{name.replace("_", " "): ms for name, ms in others.items()}}
    return late({case: told.get(way, 5.0) for case, way in ways.items()})


def test_who_has_enough_for_the_highest_rate_is_drawn_and_judged() -> None:
    data = everywhere(2.0, drs_fixed=3.0, even_fixed=4.0, even=9.0)
    figure = es_stream_9.picture(data)
    lines = {line.label: line.y for line in figure.panels[-1].lines}
    assert lines["drs"] == pytest.approx((3.0,) * 4)
    assert lines["even"] == pytest.approx((4.0,) * 4)
    assert len(lines) == 6
    rows = {row.claim.what: row.cells["simulator"] for row in tabulate(
        es_stream_9.LATENCY, {"simulator": data}) if "simulator" in row.cells}  # fmt: skip
    what = "the fastest of drs, r-storm and even, with enough for 3,600/s, beside Es-Stream's"
    for rate in ("900", "3,600"):
        cell = rows[f"Top_N at {rate}/s: latency of {what}"]
        assert cell.value == pytest.approx(1.5)
        assert cell.verdict == "same direction"
        assert f"Top_N at {rate}/s: latency of dynamic allocation beside Es-Stream's" in rows
        assert f"Top_N at {rate}/s: latency of best static beside Es-Stream's" in rows


def test_a_rival_that_is_faster_at_one_rate_is_told() -> None:
    data = everywhere(2.0, **{"r-storm_fixed": 1.9})
    found = [row for row in tabulate(es_stream_9.LATENCY, {"simulator": data})
             if "the fastest of" in row.claim.what]  # fmt: skip
    assert len(found) == 8
    assert {row.cells["simulator"].verdict for row in found} == {"differs"}


def test_with_as_many_as_es_stream_no_operator_is_busy_for_much_more_than_half_the_time() -> None:
    for app, rate in ((COUNT, 1800), (TOP, 2700)):
        deal = app.even(es_stream_static.arrived(app, rate))
        busy = [rate * s / deal[n] for n, s in app.services.items()]
        assert max(busy) < 0.55


def test_work_of_5_9_ms_would_need_80_cores() -> None:
    assert sum(TOP.services.values()) == pytest.approx(0.0019, abs=0.00005)
    assert 0.0059 * TOP.bottleneck == pytest.approx(80, abs=0.5)


def test_ways_of_a_millisecond_are_those_of_the_same_plans() -> None:
    jobs = {c.name: c.job for c in es_stream_9.cases((1800,), 60.0)}
    for way in ("es-stream", "even as many", "r-storm as many"):
        near, far = (jobs[f"{way}{more}, COMMCount, 1800"] for more in ("", ", far"))
        assert isinstance(near, Play)
        assert isinstance(far, Play)
        assert far.scenario.model.between == 0.001
        model = replace(far.scenario.model, between=es_stream.BETWEEN)
        assert replace(far, scenario=replace(far.scenario, model=model)) == near


def test_the_best_static_plan_is_no_slower_than_that_of_es_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worse(*_: Any, **__: Any) -> dict[str, int]:
        return {"read": 7, "views": 4}

    monkeypatch.setattr(es_stream_static, "best_static", worse)
    job = es_stream_static.BestAllocation(COUNT, 1800, 20.0, 14)
    found = next(r for r in job(Setting(1, tmp_path)) if r["kind"] == "found")
    assert found == {"kind": "found", "read": 3, "views": 6, "count": 5}


def test_the_best_static_plan_on_spark_is_that_of_batches_of_queues_and_of_es_stream() -> None:
    best = es_stream_spark.best(140)
    assert best == es_stream_spark.formula(140) == {"read": 2, "views": 6, "count": 4}
    loads = {n: 140 * s for n, s in es_stream_spark.services().items()}
    servers = [queueing.Server(n, load, 1, 12) for n, load in loads.items()]
    assert queueing.best(servers, 12).instances == best
    assert sum(es_stream_spark.services().values()) == pytest.approx(0.048)


def test_a_pause_on_spark_is_told_beside_the_median() -> None:
    def case(way: str, times: Iterable[float], mean: Callable[[float], float]) -> list[Record]:
        deal = {n: {"instances": 2} for n in COUNT.operators}
        return [{"case": f"{way}, rising", "kind": "tick", "at": at, "pipelines": deal,
                 "latency": {"all": {"mean": mean(at)}}} for at in times]  # fmt: skip

    seconds = range(1, 91)
    records = [*case("es-stream", seconds, lambda at: 3.0),
               *case("best static", [s for s in seconds if not 66 < s < 70],
                     lambda at: 9.0 if at > 69 else 2.4)]  # fmt: skip
    data = Data(tuple(records), "spark")
    rows = {row.claim.what: row.cells["spark"].value for row in tabulate(
        es_stream_9.LATENCY, {"spark": data}) if "spark" in row.cells}  # fmt: skip
    told = "waiting operators, rising rate:"
    assert rows[f"{told} longest time between two measurements at the highest, es-stream"] == 1.0
    assert rows[f"{told} longest time between two measurements at the highest, best static"] == 4.0
    assert rows[f"{told} median latency of the best static plan beside Es-Stream's over all the "
                "time at the highest"] == pytest.approx(0.8)  # fmt: skip
    alike = [value for what, value in rows.items() if "operators, of three, of which" in what]
    assert alike == [3.0]


# --- recovery -----------------------------------------------------------------------------------


def test_a_recovery_ends_when_no_more_waits_than_a_hundredth_of_a_second_of_its_own_rate() -> None:
    class Waiting:
        """A hundred tuples wait, and fifty leave a second."""

        now = 4.0

        def advance(self, seconds: float) -> None:
            self.now += seconds

        def observe(self) -> Any:
            waiting = round(100 - 50 * (self.now - 4.0))
            return SimpleNamespace(pipelines={"count": SimpleNamespace(backlog_rows=waiting)})

    for rate, taken in ((1800, 1.64), (900, 1.82)):
        found = recovered(cast(Any, Waiting()), 4.0, rate)
        assert found == pytest.approx(taken, abs=0.03)


@pytest.mark.extended
def test_who_was_scaled_does_again_what_came_since_its_backup_on_cores_that_others_use_too(
    tmp_path: Path,
) -> None:
    def took(job: Job) -> float:
        scratch = tmp_path / type(job).__name__  # one for each dataflow
        return float(next(iter(job(Setting(1, scratch))))["seconds"])

    short, long = took(Scaled(1.0)), took(Scaled(3.0))
    # 1,800 tuples/s keep five counters busy for 0.21 of the time, which they catch up with too
    busy = 1800 * COUNT.services["count"] / 5
    alone = busy / (1 - busy)
    assert alone < (long - short) / 2 < 2 * alone
    # of one that failed alone there is a core for all that it does again
    assert took(SimulatedFault("partial", 3.0)) < long < took(SimulatedFault("global", 3.0))
    read = took(Scaled(1.0, 900, 160e6)) - took(Scaled(1.0, 900))
    assert read == pytest.approx(160e6 / (13 * 12.5e6), rel=0.25)


def test_deviations_are_those_of_scaling_where_it_was_tried() -> None:
    def of(**ways: tuple[float, float]) -> Data:
        told = {
            f"{w}, {i} s": s for w, pair in ways.items() for i, s in zip((1, 2), pair, strict=True)
        }
        records = ({"case": c, "kind": "recovery", "seconds": s} for c, s in told.items())
        return Data(tuple(records), parameters={"intervals": (1.0, 2.0)})

    both = of(partial=(1.0, 2.0), **{"global": (2.0, 8.0)})
    assert es_stream_18.over_intervals(both) == pytest.approx(6.0)
    scaled = of(partial=(1.0, 2.0), scaled=(1.0, 3.0), **{"global": (2.0, 8.0)})
    assert es_stream_18.over_intervals(scaled) == pytest.approx(3.0)


def test_more_machines_and_fewer_links_are_tried_and_read_apart() -> None:
    size: dict[str, Any] = {"intervals": (1.0, 2.0), "parallelism": (1,), "states": (10, 20)}
    names = [case.name for case in es_stream_18.cases(**size)]
    slow = {"global on 5 machines, 2 s": 9.0, "partial over 4 links, 20 MB": 3.0}
    usual = {"1 s": 1.0, "2 s": 2.0, "10 MB": 1.0, "20 MB": 2.0}
    took = {name: slow.get(name, usual.get(name.split(", ")[1])) for name in names}
    records = tuple(
        {"case": name, "kind": "recovery", "seconds": some}
        for name, some in took.items()
        if some is not None  # else it is a repartition
    )
    data = Data(records, parameters=size)
    rows = {row.claim.what: row.cells["simulator"].value
            for row in tabulate(es_stream_18.FIGURE_18, {"simulator": data})}  # fmt: skip
    over = "standard deviation of recovery times over"
    both = "global beside partial rollback"
    assert rows[f"{over} intervals, {both}"] == pytest.approx(1.0)
    assert rows[f"{over} intervals, {both}, with 5 machines at work"] == pytest.approx(8.0)
    assert rows[f"{over} intervals, {both}, with 13 machines at work"] == pytest.approx(1.0)
    assert rows[f"{over} sizes of state, {both}, with 8 links"] == pytest.approx(1.0)
    assert rows[f"{over} sizes of state, {both}, with 4 links"] == pytest.approx(0.5)


def test_arithmetic_is_given_and_a_recovery_that_does_not_grow_differs() -> None:
    def took(taken: float) -> Record:
        return {"kind": "recovery", "seconds": taken, "each": [taken]}

    cases = {"partial, 2 s": took(2.0), "partial, 4 s": took(1.7),
             "global, 2 s": took(2.5), "global, 4 s": took(6.5)}  # fmt: skip
    records = tuple(
        {"case": name, "round": number, **record}
        for number in range(3)
        for name, record in cases.items()
    )
    data = Data(records, "spark", 1, {"intervals": (2.0, 4.0), "faults": 1})
    experiment = experiments.get("es-stream-18")
    rows = {row.claim.what: row for row in tabulate(experiment, {"spark": data})}
    grows = "rollback: for each second that the interval is longer, recovery is longer by"
    partial, whole = rows[f"partial {grows}"], rows[f"global {grows}"]
    assert partial.cells["spark"].verdict == "differs"
    assert "one batch of the keyed operator" in partial.why
    assert (whole.cells["spark"].verdict, whole.why) == ("same direction", "")
    simulated = [c for c in experiment.claims if c.only != "spark" and c.basis != "varied"]
    assert all(c.basis == "given" or c.given_on == "simulator" for c in simulated)
    assert partial.claim.basis == "found", "on Spark it is measured"


class Logs:
    """Spark's two logs of a query, written by steps that happen whenever somebody waits."""

    def __init__(self, home: Path) -> None:
        self.home, self.steps = home, iter(())
        for name in ("offsets", "commits"):
            (home / name).mkdir()

    def begin(self, batch: int, row: int) -> None:
        line = f'e1_0:{{"row": {row}, "of": "wait>count"}}'
        (self.home / "offsets" / f"{batch}").write_text(f"v1\n{{}}\n{line}")

    def end(self, batch: int) -> None:
        (self.home / "commits" / f"{batch}").write_text("v1\n{}")

    def sleep(self, seconds: float) -> None:
        for step in next(self.steps):
            step()

    steps: Iterator[Iterable[Callable[[], None]]]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Logs:
    """Batches 0 and 1 are done, with 400 rows each."""
    made = Logs(tmp_path)
    for batch in (0, 1):
        made.begin(batch, 400 * (batch + 1))
        made.end(batch)
    monkeypatch.setattr(time, "sleep", made.sleep)
    return made


def struck(
    logs: Logs, *steps: Iterable[Callable[[], None]], failure: FlowFailed | None = None
) -> Record | None:
    """A fault, where one step happens each time that somebody waits."""
    logs.steps = iter(steps)
    pipeline: Any = SimpleNamespace(
        checkpoint=logs.home,
        wired=SimpleNamespace(epoch=1),
        query=SimpleNamespace(stop=lambda: None),
    )
    plan = SimpleNamespace(pipeline_of=lambda operator: SimpleNamespace(name=operator))
    engine: Any = SimpleNamespace(plan=plan, pipelines={"count": pipeline}, failure=failure)
    return recovery_spark.recovered(engine, 600)


def test_a_flow_that_was_given_up_is_not_waited_for(logs: Logs) -> None:
    begun = [lambda: logs.begin(2, 1200)]
    with pytest.raises(FlowFailed, match="four times"):
        struck(logs, begun, [], failure=FlowFailed("it failed four times"))


def test_a_batch_that_is_done_when_its_query_comes_back_was_recovered(logs: Logs) -> None:
    found = struck(logs, [lambda: logs.begin(2, 1200)], [], [], [lambda: logs.end(2)])
    assert found is not None
    assert found["rows"] == 400
    assert 0 <= found["seconds"] < 5


def test_a_fault_after_the_commit_does_not_count_though_the_next_batch_is_cut_off(
    logs: Logs,
) -> None:
    quick = [lambda: logs.end(2), lambda: logs.begin(3, 1600)]
    assert struck(logs, [lambda: logs.begin(2, 1200)], quick) is None


def test_a_batch_with_what_was_left_behind_is_not_hit(logs: Logs) -> None:
    usual = [lambda: logs.end(2), lambda: logs.begin(3, 2400)]
    found = struck(logs, [lambda: logs.begin(2, 2000)], usual, [], [lambda: logs.end(3)])
    assert found is not None
    assert found["rows"] == 400


def test_five_faults_at_three_intervals_are_asked_for() -> None:
    size = experiments.get("es-stream-18").spark_size
    assert (len(size["intervals"]), size["faults"]) == (3, 5)
