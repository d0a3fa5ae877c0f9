"""What a change costs on Spark: the changes, how they are made, and what is read off batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Dataflow, Memory
from penstock.plan import fusion
from penstock.plan.change import Change, ParallelismChange, Regrouping
from penstock.plan.plan import Pipeline, Plan
from penstock_lab import experiments
from penstock_lab.experiments.experiment import Data, Record, Setting
from penstock_lab.experiments.joker import change_cost as change_cost
from penstock_lab.experiments.joker import change_spark as change_spark
from penstock_lab.experiments.joker.change_cost import CUT, THREE, TWO
from penstock_lab.experiments.joker.change_spark import CEILING, KEYED, PLAIN, Changed
from penstock_lab.experiments.table import tabulate
from penstock_lab.experiments.verdict import Cell

EXPERIMENT = experiments.get("joker-16")
PARAMETERS = EXPERIMENT.parameters("spark", quick=False)
COUNTS = PARAMETERS["counts"]


# --- the changes --------------------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [False, True])
def test_the_region_goes_through_the_changes_of_the_seed(keyed: bool) -> None:
    graph = change_spark.flow(COUNTS, keyed).graph
    plans = change_spark.plans(COUNTS, keyed)
    for plan in plans:
        fusion.check(plan, graph)
        assert plan.slots <= change_spark.SLOTS
    kinds = [
        {type(a) for a in Change(old, new).actions if isinstance(a, Regrouping | ParallelismChange)}
        for old, new in pairwise(plans)
    ]
    assert kinds == [{Regrouping}, {Regrouping}, {ParallelismChange}, {ParallelismChange}]
    region = [p for p in plans[-2].pipelines if p.name != "numbers"]
    assert [p.name for p in region] == ["multiply-1", "multiply-4", "multiply-5"]
    assert sum(p.parallelism for p in region) == 6


def test_more_comes_than_all_replicas_could_carry() -> None:
    slowest = max(change_spark.waits(COUNTS).values())
    assert change_spark.MOST / slowest < change_spark.LOAD


def test_a_batch_has_as_much_work_for_an_instance_under_every_plan() -> None:
    costs = change_spark.waits(COUNTS)
    for plan in change_spark.plans(COUNTS, keyed=True):
        for one in plan.pipelines[1:]:
            assert one.admission is not None
            row = sum(costs.get(name, 0.0) for name in one.operators)
            assert one.admission * row / one.parallelism == pytest.approx(0.5, rel=0.02)


def test_below_the_ceiling_the_state_has_all_its_parts_from_the_start() -> None:
    def parts(ceiling: int | None) -> set[int | None]:
        made = change_spark.plans(COUNTS, True, ceiling)
        return {plan.pipeline_of(change_spark.COUNT).ceiling for plan in made}

    assert parts(change_spark.MOST) == {3}
    assert parts(None) == {None}


# --- making them --------------------------------------------------------------------------------


class Engine:
    """Delivers ten rows whenever it is looked at; every change takes a little."""

    def __init__(self, told: list[Any]) -> None:
        self.told = told
        self.flow = SimpleNamespace(context=SimpleNamespace(delivered={}))
        self.observer = SimpleNamespace(outputs={})

    def start(self, graph: Any, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.told.append(folder.name)

    def observe(self) -> None:
        times = self.observer.outputs.setdefault(change_spark.SINK, [])
        times.append(time.time())
        delivered = self.flow.context.delivered
        delivered[change_spark.SINK] = delivered.get(change_spark.SINK, 0) + 10

    def apply(self, plan: Plan) -> None:
        time.sleep(0.02)
        self.told.append("apply")
        self.plan = plan

    def stop(self, drain: bool) -> None:
        self.told.append("drained" if drain else "stopped")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(change_spark, "on_spark", lambda slots: Engine(found))
    monkeypatch.setattr(change_spark, "HURRIED", 0.05)
    return found


def _by_hand(engine: Any, plan: Plan) -> None:
    engine.told.append("by hand")
    engine.plan = plan


@pytest.mark.parametrize("hand", [False, True])
def test_all_changes_are_made_once_for_nothing_and_then_recorded(
    told: list[Any], hand: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(change_spark, "by_hand", _by_hand)
    shares: list[float] = []
    records = Changed(COUNTS, (0.3, 0.6, 0.9, 1.2), 1.5, hand=hand)(
        Setting(1, tmp_path, shares.append)
    )
    way = ["by hand" if hand else "apply"] * 4
    assert told == ["warm", *way, "stopped", "run", *way, "stopped"]
    changes = [r for r in records if r["kind"] == "change"]
    assert len(changes) == 4
    assert all(c["at"] >= at for c, at in zip(changes, (0.3, 0.6, 0.9, 1.2), strict=True))
    assert all(c["seconds"] >= 0.02 for c in changes) is not hand
    assert "parallelism 2 -> 3" in changes[-1]["actions"][0]
    ticks = [r for r in records if r["kind"] == "tick"]
    assert ticks
    assert [t["delivered"] for t in ticks] == sorted(t["delivered"] for t in ticks)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_an_engine_is_stopped_whose_change_fails(
    told: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failing(engine: Any, plan: Plan) -> None:
        raise InterruptedError

    monkeypatch.setattr(change_spark, "by_hand", failing)
    with pytest.raises(InterruptedError):
        Changed(COUNTS, (0.3, 0.6, 0.9, 1.2), 1.5, hand=True)(Setting(1, tmp_path))
    assert told == ["warm", "stopped"]


@pytest.fixture
def counting(spark: Any, tmp_path: Path) -> Iterator[tuple[Any, Plan]]:
    from penstock.engines.spark.engine import SparkEngine
    from tests.engines.spark.flows import source

    flow = Dataflow("by-hand")
    rows = source(flow, limit=4000, load="400/s").map("same", _same, schema="key string")
    rows.key_by("key").aggregate("count", n="count(*)").sink("out", Memory())
    whole = Plan((Pipeline(("numbers",)), Pipeline(("same", "count", "out"))))
    engine = SparkEngine(spark=spark)
    engine.start(flow.graph, whole, tmp_path / "run")
    yield engine, whole
    engine.stop(drain=False)


def _same(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": row["key"]}


@pytest.mark.spark
def test_a_change_by_hand_starts_every_query_anew_and_loses_nothing(
    counting: tuple[Any, Plan],
) -> None:
    from tests.engines.spark.flows import until

    engine, _ = counting
    cut = Plan((Pipeline(("numbers",)), Pipeline(("same",)), Pipeline(("count", "out"))))
    more = cut.with_pipeline("same", parallelism=2).with_pipeline("count", parallelism=2)
    for plan in (cut, more):
        seen = len(engine.observer.outputs.get("out", ()))
        until(lambda: len(engine.observer.outputs.get("out", ())) > seen + 2, "batches")  # noqa: B023
        runs = {p.run for p in engine.pipelines.values()}
        change_spark.by_hand(engine, plan)
        assert engine.plan == plan
        assert not runs & {p.run for p in engine.pipelines.values()}
    assert engine.pipelines["count"].wired.partitions == 2
    until(lambda: engine.observe().rows_ingested >= 4000, "all records", 120)
    engine.stop()
    assert {row.key: row.n for row in engine.rows("out")} == {f"k{i}": 400 for i in range(10)}


# --- reading ------------------------------------------------------------------------------------

AT = (12.0, 24.0, 36.0, 54.0)


def batches(falls: Sequence[float], took: float) -> list[Record]:
    """A batch every 0.5 s, a hundred rows a second more after each change.

    falls: seconds after each change in which nothing comes out.
    """
    ticks, rows = [], 0
    for half in range(1, 145):
        at = half / 2
        passed = sum(at > change for change in AT)
        since = at - AT[passed - 1] if passed else 60.0
        if passed and since <= falls[passed - 1]:
            continue
        rows += 50 * (passed + 1)
        ticks.append({"kind": "tick", "at": at, "delivered": rows})
    actions = (["split a+b into a | b"], ["split b+c into b | c"],
               ["a: parallelism 1 -> 2"], ["a: parallelism 2 -> 3"])  # fmt: skip
    changes = [
        {"kind": "change", "at": at, "actions": action, "seconds": took}
        for at, action in zip(AT, actions, strict=True)
    ]
    return [*ticks, *changes]


def data(**cases: Sequence[Record]) -> Data:
    named = {"plain": PLAIN, "hand": f"{PLAIN}, by hand", "keyed": KEYED,
             "keyed_hand": f"{KEYED}, by hand", "ceiling": CEILING}  # fmt: skip
    records = ({"case": named[name], **r} for name, some in cases.items() for r in some)
    return Data(tuple(records), "spark", 1, PARAMETERS)


def cells(found: Data) -> dict[str, Cell]:
    """What is read off three rounds that are all the same."""
    records = tuple({**r, "round": number} for number in range(3) for r in found.records)
    rows = tabulate(EXPERIMENT, {"spark": replace(found, records=records)})
    cells = {row.claim.what: row.cells["spark"] for row in rows if "spark" in row.cells}
    return {what: replace(cell, spread=None) for what, cell in cells.items()}


def test_times_falls_and_gaps_are_those_of_their_kind_of_change() -> None:
    found = data(plain=batches((1.0, 2.0, 0.0, 0.0), 0.2), hand=batches((4.5,) * 4, 3.0))
    read = cells(found)
    plain = "waiting operators, "
    cut, two, three = (f"{plain}{kind}: " for kind in (CUT, TWO, THREE))
    # the second one is the worse: after 2 s of nothing two of six batches that were due are there
    assert change_cost.fall(found, PLAIN, found.of(PLAIN, "change")[1]) == pytest.approx(0.5)
    assert read[f"{cut}fall of throughput"] == Cell(pytest.approx(0.5), None, "differs")
    assert read[f"{cut}longest time without output"].value == pytest.approx(2.5)
    assert read[f"{cut}seconds that it took"].verdict == "same direction"
    assert read[f"{cut}that time beside the same by hand"].value == pytest.approx(2.5 / 5.0)
    assert read[f"{two}fall of throughput"] == Cell(0.0, None, "same direction")
    assert read[f"{three}fall of throughput"].verdict == "better"
    assert read[f"{three}seconds until more comes out"] == Cell(
        pytest.approx(0.5), pytest.approx(1 / 6), "better"
    )
    assert read[f"{three}that time beside the same by hand"].value == pytest.approx(0.1)
    assert read["waiting operators: usual time from one output to the next"].value == 0.5
    assert read[f"{plain}nothing changed: deepest fall of throughput"].value == pytest.approx(0.0)
    assert not [what for what in read if "state" in what], "not tried, so no cell"


def test_seconds_until_more_comes_out_begin_with_the_change_and_outlast_the_silence() -> None:
    slow = data(plain=batches((3.0, 3.0, 3.0, 3.0), 4.0))
    read = cells(slow)
    # nothing up to 3 s, and a batch at 3.5 s, with which the seconds end that had nothing
    assert read[f"waiting operators, {CUT}: seconds until more comes out"].value == 4.0
    assert read[f"waiting operators, {CUT}: seconds that it took"].verdict == "differs"
    never = [r for r in batches((0.0,) * 4, 0.1) if r["kind"] == "change" or r["at"] <= 12]
    level = [{"kind": "tick", "at": 12 + n / 2, "delivered": 1200 + 50 * n} for n in range(1, 97)]
    what = f"waiting operators, {TWO}: seconds until more comes out"
    assert cells(data(plain=[*never, *level]))[what].value == pytest.approx(17.5)


def test_a_fall_without_a_change_is_told_as_well() -> None:
    calm = batches((0.0,) * 4, 0.1)
    missing = [
        {**r, "delivered": r["delivered"] - 400} if r["kind"] == "tick" and r["at"] > 51 else r
        for r in calm
        if r["at"] not in (51.0, 51.5)
    ]
    what = "waiting operators, nothing changed: deepest fall of throughput"
    assert cells(data(plain=calm))[what].value == pytest.approx(0.0)
    assert cells(data(plain=missing))[what].value == pytest.approx(1 / 3)


def test_a_long_change_is_judged_by_its_worst_seconds() -> None:
    """Nothing comes out for 3 s after 4 of 7 s for which a change is made."""
    calm = [r for r in batches((0.0,) * 4, 0.1) if r["kind"] == "tick"]
    held = [{**r, "delivered": r["delivered"] - 250 * 6 * (r["at"] > 61)}
            for r in calm if not 58 < r["at"] <= 61]  # fmt: skip
    change = {"kind": "change", "at": 54.0, "actions": [], "seconds": 7.0}
    found = data(plain=[*held, change])
    assert change_cost.silence(found, PLAIN, change) == pytest.approx(3.5)
    # 250 rows after 3.5 s, where there were 400 a second
    assert change_cost.fall(found, PLAIN, change) == pytest.approx(1 - 250 / 3.5 / 400)


def test_state_below_the_ceiling_is_beside_the_keyed_changes_by_hand() -> None:
    found = data(keyed=batches((1.0, 1.0, 1.0, 1.0), 2.0), ceiling=batches((0.0,) * 4, 0.1),
                 keyed_hand=batches((2.5,) * 4, 3.0))  # fmt: skip
    read = cells(found)
    hand = f"{THREE}: that time beside the same by hand"
    assert read[f"the same with state that moves, {hand}"].value == pytest.approx(1.5 / 3)
    assert read[f"the same below the ceiling, {hand}"].value == pytest.approx(0.5 / 3)
    assert read[f"the same with state that moves, {THREE}: seconds that it took"].verdict == (
        "differs"
    )


def test_a_run_that_ends_before_its_last_change_is_not_judged_by_it() -> None:
    short = [r for r in batches((0.0,) * 4, 0.1) if r["at"] < 40]
    read = cells(data(plain=short))
    assert read[f"waiting operators, {THREE}: fall of throughput"].verdict == "not measured"
    assert read[f"waiting operators, {TWO}: fall of throughput"].value == 0.0


def test_the_picture_shows_throughput_with_its_changes_and_the_gaps() -> None:
    found = data(plain=batches((1.0,) * 4, 0.2), hand=batches((4.5,) * 4, 3.0))
    lines, gaps = EXPERIMENT.picture(found).panels
    assert [line.label for line in lines.lines] == [PLAIN, f"{PLAIN}, by hand"]
    assert lines.lines[0].x[-1] == 71.5
    assert lines.lines[0].y[-2:] == (500.0, 500.0)
    assert [mark.label for mark in lines.marks] == ["cut", "cut", "1 → 2", "2 → 3"]
    assert [bars.values for bars in gaps.bars] == [(1.5,) * 3, (5.0,) * 3]
