"""What would become of a run: the same answer each time, and worse under more load."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.app import run
from penstock.control.blackout_periods import Quiet
from penstock.control.guard import Guard
from penstock.dataflow.load_profile import parse
from penstock.errors import InvalidInput
from penstock.plan.limits import Limits
from penstock.predict import model_file, whatif
from penstock.predict.calibration import fit
from penstock.predict.model_file import FittedModel
from penstock.predict.observations import read_run
from penstock.predict.whatif import Question
from penstock.store import history, run_options
from tests.predict.recorded import BATCH, flow, simulated


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("whatif") / "run", flow(), policy="threshold")


@cache
def fitted(run_dir: Path) -> FittedModel:
    return model_file.from_calibration(fit([read_run(run_dir)]))


def asked(run_dir: Path, load: str, **more: Any) -> whatif.Prediction:
    return whatif.ask(run_dir, Question(load, seconds=30.0, **more), fitted(run_dir), run=run)


@pytest.mark.extended
def test_the_same_question_has_the_same_answer(run_dir: Path) -> None:
    first, again = (asked(run_dir, "50/s", policy="ds2", seed=3) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert first.steered.policy == "ds2"
    assert first.alone.policy == "static"
    assert first.alone.plan == [*history.recorded_snapshots(run_dir)][-1].plan


def test_more_load_never_makes_it_better(run_dir: Path) -> None:
    answers = [asked(run_dir, f"{rate}/s", policy="static").alone for rate in (20, 80, 160, 2000)]
    late = [one.latency["call->compute"].mean or 0.0 for one in answers]
    assert late == sorted(late)
    assert [one.throughput for one in answers] == sorted(one.throughput for one in answers)
    waited = read_run(run_dir).today.snapshot.pipelines["read"].backlog_rows or 0
    assert answers[0].throughput == pytest.approx(20 + waited / 30, rel=0.05)
    assert answers[-1].throughput < 1500  # four instances, two processors, 6.2 ms a row
    for one in answers:
        assert one.slot_seconds == pytest.approx(30 * one.plan.slots)  # and nothing afterwards
    assert answers[-1].offered == 2000


def test_batches_larger_than_any_recorded_are_called_a_guess(run_dir: Path) -> None:
    few = fitted(run_dir).batch.few
    assert few is not None
    small, large = (asked(run_dir, load, policy="static") for load in ("20/s", "2000/s"))
    assert small.alone.task <= 2 * few < large.alone.task
    assert not any("is not known" in note for note in small.notes)
    assert any(f"recorded had {few:,.0f}: the cost of a row" in note for note in large.notes)
    assert large.to_json()["left_alone"]["largest_task"] == round(large.alone.task)


def test_the_load_of_the_run_is_scaled(run_dir: Path) -> None:
    base = parse(run_options.read(run_dir)[-1].loads["read"])
    rate = base.rate(100.0)
    twice = asked(run_dir, "x2", policy="static")
    assert twice.alone.offered == pytest.approx(2 * rate, rel=0.01)
    half = asked(run_dir, "x0.5", policy="static")
    assert half.alone.offered == pytest.approx(rate / 2, rel=0.01)


@pytest.mark.extended
def test_the_load_goes_on_from_where_the_run_is(tmp_path: Path) -> None:
    run_dir = simulated(tmp_path, flow(), changes=(), load="ramp:10-70@60s", seconds=40)
    at = read_run(run_dir).today.snapshot.at
    assert at == pytest.approx(40, abs=1)
    answer = whatif.ask(run_dir, Question("x1", seconds=10.0), run=run)
    # 1 row a second more every second, then
    assert answer.alone.offered == pytest.approx(10 + at + 5, abs=0.2)
    assert answer.load["read"].endswith("s on")
    asked_for = whatif.ask(run_dir, Question("ramp:10-70@60s", seconds=10.0), run=run)
    assert asked_for.alone.offered == pytest.approx(15, abs=0.2)


def test_rows_that_wait_today_are_worked_off_and_are_late(tmp_path: Path) -> None:
    paced = replace(BATCH, pace=1.0)
    run_dir = simulated(tmp_path, flow(), batch=paced, changes=(), load="400/s", seconds=40)
    today = read_run(run_dir).today.snapshot
    waiting = today.pipelines["read"].backlog_rows or 0
    assert waiting > 5000  # one instance does some 100 a second
    answer = whatif.ask(run_dir, Question("5/s", seconds=20.0), run=run).alone
    assert answer.offered == 5
    assert answer.throughput > 50
    late = answer.latency["call->compute"].mean
    assert late is not None
    assert late > waiting / 400 / 2


def test_the_limits_and_the_guard_of_the_run_hold(tmp_path: Path) -> None:
    options: dict[str, Any] = {"changes": (), "load": "60/s", "seconds": 40, "policy": "threshold"}
    free = simulated(tmp_path / "free", flow(), **options)
    question = Question("x10", seconds=60.0)
    assert whatif.ask(free, question, run=run).steered.plan.slots > 2
    bound = simulated(tmp_path / "bound", flow(), limits=Limits(slots=2), **options)
    answer = whatif.ask(bound, question, run=run).steered
    assert answer.plan.slots == 2
    quiet = Guard(quiet=(Quiet(30.0, 600.0),))
    still = simulated(tmp_path / "still", flow(), guard=quiet, **options)
    before = read_run(still).plan
    assert whatif.ask(still, question, run=run).steered.plan == before
    over = Guard(quiet=(Quiet(1.0, 35.0),))
    awake = simulated(tmp_path / "awake", flow(), guard=over, **options)
    assert whatif.ask(awake, question, run=run).steered.plan.slots > 2


def test_a_run_that_does_not_say_its_load_is_taken_as_measured(tmp_path: Path) -> None:
    run_dir = simulated(tmp_path, flow(), changes=(), load="40/s", seconds=40)
    (run_dir / run_options.FILE).unlink()
    answer = whatif.ask(run_dir, Question("x3", seconds=10.0), run=run)
    assert answer.alone.offered == pytest.approx(120, rel=0.05)
    assert answer.steered is answer.alone  # nobody is known to decide
    assert answer.quality is not None


def test_the_policy_of_the_run_decides_unless_another_is_named(run_dir: Path) -> None:
    assert asked(run_dir, "x1").steered.policy == "threshold"
    assert asked(run_dir, "x1", policy="static").steered.policy == "static"


def test_more_machines_are_there_for_a_policy_that_asks_for_them(run_dir: Path) -> None:
    answer = asked(run_dir, "200/s", nodes=3)
    assert answer.nodes == 3
    assert answer.alone.plan.executors == 1
    assert answer.steered.plan.executors <= 3


@pytest.mark.parametrize(
    ("load", "more", "message"),
    [
        ("x", {}, "cannot read the load 'x'"),
        ("x-2", {}, "cannot read the load 'x-2'"),
        ("fast", {}, "cannot read the load 'fast'"),
        ("x2", {"policy": "nobody"}, "nobody"),
        ("x2", {"nodes": 0}, "a cluster needs at least one machine, found 0"),
    ],
)
def test_what_cannot_be_asked_is_told(
    run_dir: Path, load: str, more: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as told:
        asked(run_dir, load, **more)
    assert "\n" not in str(told.value)
