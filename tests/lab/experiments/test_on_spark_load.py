"""Cases on Spark with static plans, replicas and recoveries, from made-up records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock_lab import experiments
from penstock_lab.experiments.es_stream import nodes_spark as nodes_spark
from penstock_lab.experiments.es_stream import recovery_spark as recovery_spark
from penstock_lab.experiments.experiment import Data, Experiment, Record, Setting
from penstock_lab.experiments.joker import fission_spark as joker_waiting
from penstock_lab.experiments.joker import load_spark as joker_spark
from penstock_lab.experiments.table import tabulate
from tests.lab.experiments.test_on_spark import (
    SHOWN,
    change,
    data,
    seconds,
    summary,
    tick,
    value,
)


def test_instances_come_and_go_with_the_load() -> None:
    def of(at: int) -> Record:
        many = 4 if 30 < at < 75 else 1
        return tick(at, {"numbers": (1, 1.0), "multiply-1": (many, 1.0)})

    cases = {"up and down, organic": [*seconds(96, of), summary(300.0)],
             "up and down, best static": [*seconds(96, of), summary(600.0)]}  # fmt: skip
    found = data("joker-11", cases)
    up = "up and down:"
    assert value("joker-11", found, f"{up} most instances beside those of the first rate")[0] == 4
    assert value("joker-11", found, f"{up} instances at the end beside the most")[0] == 0.25
    assert (
        value("joker-11", found, f"{up} share of the rows that has come through at the end")[0]
        == 0.9
    )
    assert value("joker-11", found, f"{up} thread hours beside the best static plan")[0] == 0.5
    assert joker_spark.threads(found.of("up and down, organic")[-1]) == 1


def _waiting(rate: float, pipelines: Sequence[str] = ("step-1",)) -> list[Record]:
    """A region that carries 60 rows a second up to the change at 20 s, then this."""

    def of(at: int) -> Record:
        ahead = dict.fromkeys(("orders", *pipelines[:-1]), (1, 2000.0))
        return tick(at, {**ahead, pipelines[-1]: (1, rate if at > 20 else 60.0)})

    return [*seconds(60, of), change(20.0), summary(100.0)]


def test_what_the_last_pipeline_takes_is_carried_whatever_the_source_takes() -> None:
    cases = {
        "fusion only": _waiting(150.0, ("step-1", "step-3")),
        "fission only": _waiting(300.0),
        "fusion first": _waiting(600.0, ("step-1", "step-2", "step-3")),
        "best static": _waiting(900.0),
    }
    found = data("joker-5", {f"{name}, 5 ms": records for name, records in cases.items()})
    for what, expected in (
        ("speed-up by fusion only, costly operators", 2.5),
        ("both beside fission only, costly operators", 2.0),
        ("speed-up of the best static plan, costly operators", 15.0),
        ("both beside the best static plan", 2 / 3),
    ):
        cell = next(
            row.cells["spark"]
            for row in tabulate(experiments.get("joker-5"), {"spark": found})
            if row.claim.what == what
        )
        assert cell.value == pytest.approx(expected), what


def test_of_several_static_plans_the_one_that_carries_most_is_kept(tmp_path: Path) -> None:
    tried: list[Path] = []

    def play(rate: float) -> Any:
        def carry_out(setting: Setting) -> list[Record]:
            tried.append(setting.scratch)
            setting.tell(0.5)
            return _waiting(rate)

        return carry_out

    told: list[float] = []
    best = joker_waiting.BestOf((play(300.0), play(900.0), play(600.0)))
    kept = best(Setting(1, tmp_path, told.append))
    assert joker_waiting.rate([r for r in kept if r["kind"] == "tick"]) == 900
    assert len(set(tried)) == 3
    assert told == pytest.approx([1 / 6, 3 / 6, 5 / 6])


def test_the_static_plans_take_the_slots_that_there_are() -> None:
    plays = joker_waiting.best(10.0, "5/s").plays
    plans = [p.plan for p in plays if p.plan is not None]
    assert max(plan.slots for plan in plans) == joker_waiting.SLOTS
    assert {len(plan.pipelines) for plan in plans} == {2, 4}


def test_a_partial_rollback_is_compared_by_direction() -> None:
    def took(taken: float) -> list[Record]:
        return [{"kind": "recovery", "seconds": taken, "each": [taken]}]

    taken = {"partial": (1.0, 1.5, 1.6), "global": (8.0, 9.0, 12.0)}
    cases = {
        f"{way}, {interval} s": took(one)
        for way, some in taken.items()
        for interval, one in zip((2, 4, 6), some, strict=True)
    }
    found = data("es-stream-18", cases)
    what = "recovery with an interval of 2 s, global beside partial rollback"
    assert value("es-stream-18", found, what) == (8.0, "same direction")
    rows = tabulate(experiments.get("es-stream-18"), {"spark": found})
    assert not [r for r in rows if "repartition" in r.claim.what and r.cells]


def test_only_the_keyed_pipeline_fails_in_a_partial_rollback() -> None:
    partial, whole = (recovery_spark.Fault(w, 2.0, 1).plan() for w in ("partial", "global"))
    assert {p.name: p.cadence for p in partial.pipelines} == {"rows": 0.0, "count": 2.0}
    assert {p.name: p.cadence for p in whole.pipelines} == {"rows": 2.0}


@pytest.mark.parametrize("experiment", SHOWN, ids=lambda e: e.name)
def test_a_table_of_nothing_tried_has_no_verdict_on_spark(experiment: Experiment) -> None:
    nothing = Data(({"case": "nobody", "kind": "tick", "at": 0.0},), "spark", 1,
                   experiment.parameters("spark", quick=False))  # fmt: skip
    rows = tabulate(experiment, {"spark": nothing})
    assert {cell.verdict for row in rows for cell in row.cells.values()} <= {"not measured"}
