from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock import Profiled, profile
from penstock.cli import options
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput, InvalidPlan, Refused
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.predict.profiling import read
from penstock.testing import MemoryEngine, fake_clock

from ..control.doubles import Watcher

QUICK = "stepwise:observations=3,settle=0"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def chain(load: str = "300/s", *, most: int | None = None) -> Dataflow:
    flow = Dataflow("chain")
    source = Generator(lambda rng, index, at: {"n": index}, "n bigint", load, limit=50)
    stream = flow.source("in", source)
    stream = stream.map("a", lambda r: r, schema="n bigint", max_parallelism=most)
    stream.map("b", lambda r: r, schema="n bigint").sink("out", Discard())
    return flow


def engine(rate: float = 3000.0) -> MemoryEngine:
    return MemoryEngine({"a": 0.002, "b": 0.004}, rate=rate)


def profiled(flow: Dataflow, used: MemoryEngine, at: Any = None, **options: Any) -> Profiled:
    clock = fake_clock(used, at)
    return profile(flow, **{"policy": QUICK, "engine": used, "clock": clock, **options})


def test_a_flow_is_profiled_from_one_instance_each_to_the_best_plan() -> None:
    used, view = engine(), Watcher()
    found = profiled(chain(), used, view=view)
    assert (found.flow, found.complete, found.interrupted) == ("chain", True, False)
    assert found.profile.instances == {"a": 1, "b": 2}
    assert found.profile.rounds[0].throughput == pytest.approx(500, rel=0.01)
    assert found.profile.final.throughput == pytest.approx(3000, rel=0.01)
    sizes = {p.name: p.parallelism for p in found.plan.pipelines}
    assert (sizes["a"], sizes["b"]) == (6, 12)
    assert view.phases == ["starting", "running", "stopping", "verifying"]


def test_the_limits_that_the_stress_needs_are_not_in_the_plan_to_run() -> None:
    found = profiled(chain(), engine())
    assert found.profile.final.plan.pipeline_of("in").admission == 1500
    assert [p.admission for p in found.plan.pipelines] == [None, None, None]


def test_what_was_found_is_kept_and_read_again() -> None:
    found = profiled(chain(), engine(), run_dir="mine")
    kept = json.loads(Path("mine/profile.json").read_text())
    assert kept == found.to_json()
    assert list(kept["features"]) == ["in", "a", "b"]
    again = read(Path("mine"))
    assert again.to_json() == found.profile.to_json()
    assert again.final.plan == found.profile.final.plan
    assert (
        options.read_plan("mine/plan.json") == options.read_plan("mine/profile.json") == found.plan
    )


def test_whether_the_load_was_enough_is_told() -> None:
    assert profiled(chain("300/s"), engine(3000.0)).carried_all  # ten times its own
    bounded = profiled(chain("300/s", most=2), engine(3000.0))
    assert (bounded.offered, bounded.carried_all) == (3000, False)
    assert bounded.profile.final.throughput == pytest.approx(1000, rel=0.01)
    higher = profiled(chain("300/s"), engine(3000.0), load="9000/s")
    assert (higher.offered, higher.carried_all) == (9000, False)


def test_no_plan_is_beyond_the_budget() -> None:
    found = profiled(chain(), engine(), limits=Limits(slots=8))
    assert max(r.plan.slots for r in found.profile.rounds) == 8
    assert found.profile.final.throughput == pytest.approx(1000, rel=0.01)
    with pytest.raises(InvalidInput, match="the plan to start with is more than the budget"):
        profiled(chain(), engine(), limits=Limits(slots=2))


def test_ctrl_c_ends_it_with_what_was_found_so_far() -> None:
    found = profiled(chain(), engine(), {10.0: lambda: os.kill(os.getpid(), signal.SIGINT)})
    assert (found.complete, found.interrupted) == (False, True)
    assert len(found.profile.rounds) == 2
    assert found.profile.final.throughput == pytest.approx(1000, rel=0.01)
    assert json.loads((Path(found.run_dir) / "profile.json").read_text())["complete"] is False


def test_time_ends_it_too() -> None:
    found = profiled(chain(), engine(), seconds="10s")
    assert (found.complete, found.interrupted) == (False, False)
    assert len(found.profile.rounds) == 2


def test_an_end_before_the_first_round_is_refused_in_one_line() -> None:
    with pytest.raises(Refused, match="nothing: the run ended before the first round") as told:
        profiled(chain(), engine(), seconds=2, run_dir="mine")
    assert str(told.value).endswith("; see mine")
    assert not Path("mine/profile.json").exists()


def test_what_cannot_be_measured_ends_it_with_the_reason() -> None:
    nothing = MemoryEngine({"a": 0.002}, {"a": 0.0}, rate=3000.0)
    why = "found nothing: service time of b not measured; see "
    with pytest.raises(Refused, match=why):
        profiled(chain(), nothing)


def test_plans_that_are_refused_end_it_with_the_reason() -> None:
    class Stiff(MemoryEngine):
        def apply(self, plan: Plan, reason: str = "") -> Transition:
            raise InvalidPlan("no")

    stiff = Stiff({"a": 0.002, "b": 0.004}, rate=3000.0)
    with pytest.raises(
        Refused, match=r"found nothing: the plan of the round \(start\) was refused; see "
    ):
        profiled(chain(), stiff)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"policy": "static"}, "the policy that profiles is 'stepwise', not 'static'"),
        ({"policy": "stepwise:slices=1"}, "has no option 'slices', did you mean 'slice'"),
        ({"load": "fast"}, "cannot read the load 'fast'"),
        ({"seconds": 0}, "must last longer than nothing"),
    ],
)
def test_bad_words_are_told_before_anything_starts(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        profiled(chain(), engine(), **options)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a profile"),
        ("{}", "is not a profile: 'features' is missing"),
    ],
)
def test_what_is_no_profile_is_told_in_one_line(text: str, wrong: str) -> None:
    Path("profile.json").write_text(text)
    with pytest.raises(InvalidInput, match=wrong):
        read(Path("profile.json"))
    with pytest.raises(InvalidInput, match="there is no profile 'gone'"):
        read(Path("gone"))
