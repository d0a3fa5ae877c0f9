"""What would become of a run: the same answer each time, and worse under more load."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.control import history, terms, whatif
from penstock.control.whatif import Question
from penstock.engines.simulator import modelfile
from penstock.engines.simulator.calibration import fit
from penstock.engines.simulator.modelfile import Fitted
from penstock.engines.simulator.observed import recording
from penstock.errors import InvalidInput
from penstock.models.load import parse
from tests.engines.simulator.recorded import flow, simulated


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("whatif") / "run", flow(), policy="threshold")


@cache
def fitted(run_dir: Path) -> Fitted:
    return modelfile.of(fit([recording(run_dir)]))


def asked(run_dir: Path, load: str, **more: Any) -> whatif.Answer:
    return whatif.ask(run_dir, Question(load, seconds=30.0, **more), fitted(run_dir))


def test_the_same_question_has_the_same_answer(run_dir: Path) -> None:
    first, again = (asked(run_dir, "50/s", policy="ds2", seed=3) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert first.steered.policy == "ds2"
    assert first.alone.policy == "static"
    assert first.alone.plan == [*history.seen(run_dir)][-1].plan


def test_more_load_never_makes_it_better(run_dir: Path) -> None:
    answers = [asked(run_dir, f"{rate}/s", policy="static").alone for rate in (20, 80, 160, 2000)]
    late = [one.latency["call->compute"].mean or 0.0 for one in answers]
    assert late == sorted(late)
    assert [one.throughput for one in answers] == sorted(one.throughput for one in answers)
    assert answers[0].throughput == pytest.approx(20, rel=0.05)
    assert answers[-1].throughput < 1500  # four instances, two processors, 6.2 ms a row
    for one in answers:
        assert 29 <= one.slot_seconds / one.plan.slots < 40  # the last batch takes its time
    assert answers[-1].offered == 2000


def test_the_load_of_the_run_is_scaled(run_dir: Path) -> None:
    base = parse(terms.read(run_dir)[-1].loads["read"])
    twice = asked(run_dir, "x2", policy="static")
    assert twice.alone.offered == pytest.approx(2 * base.offered(30) / 30, rel=0.01)
    half = asked(run_dir, "x0.5", policy="static")
    assert half.alone.offered == pytest.approx(base.offered(30) / 2 / 30, rel=0.01)


def test_a_run_that_does_not_say_its_load_is_taken_as_measured(tmp_path: Path) -> None:
    run_dir = simulated(tmp_path, flow(), changes=(), load="40/s", seconds=40)
    (run_dir / terms.FILE).unlink()
    answer = whatif.ask(run_dir, Question("x3", seconds=10.0))
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
        ("x2", {"nodes": 0}, "a cluster of 0 machines cannot be"),
    ],
)
def test_what_cannot_be_asked_is_told(
    run_dir: Path, load: str, more: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as told:
        asked(run_dir, load, **more)
    assert "\n" not in str(told.value)
