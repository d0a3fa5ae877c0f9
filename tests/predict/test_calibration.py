"""A fit of a run whose truth is known finds it; what it cannot find it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engines.simulator.arrivals import Deterministic
from penstock.engines.simulator.batch_time import SharedProcessors
from penstock.engines.simulator.engine import SimulatorEngine
from penstock.engines.simulator.model import Keys, Machine, MicroBatch, Model
from penstock.errors import InvalidInput
from penstock.metrics.snapshot import PipelineMetrics, Snapshot
from penstock.plan.plan import Pipeline, Plan
from penstock.predict import batch_fit, calibration, model_file, observations
from penstock.predict.calibration import Calibration
from penstock.predict.least_squares import group_numbers, group_weights, nonnegative, robust
from penstock.store.history import History, keep_dataflow
from penstock.store.turn import Tick
from penstock.workloads import build
from tests.strategies import few

from .recorded import BATCH, CHANGES, NODE, STEPS, flow, simulated

TRUTH = replace(BATCH, row=5e-4)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    run_dir = simulated(tmp_path_factory.mktemp("plain") / "run", flow(), batch=TRUTH)
    return calibration.fit([observations.read_run(run_dir)])


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    batch = replace(TRUTH, state=0.01)
    changes = ("20s:split compute", "40s:read=2, compute=3", "60s:compute=2", "80s:compute=4")
    run_dir = tmp_path_factory.mktemp("keyed") / "run"
    plan = Plan((Pipeline(("read", "call", "compute", "count", "out"), 2, ceiling=4),))
    simulated(run_dir, flow(keyed=True), batch=batch, plan=plan, changes=changes)
    return calibration.fit([observations.read_run(run_dir)])


@pytest.mark.parametrize("name", ["planning", "log", "commit", "job", "partition", "task"])
def test_a_fit_finds_what_a_batch_costs(found: Calibration, name: str) -> None:
    assert getattr(found.batch, name) == pytest.approx(getattr(TRUTH, name), rel=0.05)


def test_a_fit_knows_how_much_a_channel_held_if_the_engine_noted_it(tmp_path: Path) -> None:
    run_dir = simulated(tmp_path / "run", flow())
    assert calibration.fit([observations.read_run(run_dir)]).batch.channel is None
    head = dict.fromkeys(("version", "flow", "fingerprint", "engine", "run", "created"), "")
    (run_dir / "run.json").write_text(json.dumps({**head, "settings": {"channel_rows": 500}}))
    assert calibration.fit([observations.read_run(run_dir)]).batch.channel == 500


def test_a_fit_finds_what_a_row_costs_on_its_way(found: Calibration) -> None:
    assert found.batch.row == pytest.approx(TRUTH.row, rel=0.15)


def test_a_row_costs_nothing_behind_those_that_were_seen_in_one_task(
    found: Calibration, tmp_path: Path
) -> None:
    few = found.batch.few
    assert few is not None
    most = max(one["rows"] / one["parallelism"] for one in found.residuals)
    assert few == pytest.approx(most, abs=0.1)
    long = replace(BATCH, row=0.01, few=10.0, pace=None)
    plan = Plan((Pipeline(("read", "call", "compute", "out"), 1, cadence=10.0),))
    steps = {**STEPS, "call": STEPS["read"], "compute": STEPS["read"]}
    for batch, seconds in ((long, 0.1), (replace(long, few=None), 4.0)):  # 400 rows every 10 s
        model = Model(steps, node=NODE, arrivals=Deterministic(), queue=None, batch=batch)
        engine = SimulatorEngine(model, load="40/s", seed=1, window=30.0)
        engine.start(flow(), plan, tmp_path / str(batch.few))
        engine.advance(60.0)
        took = engine.observe().pipelines["read"].batch_seconds
        assert took == pytest.approx(seconds, abs=0.25)


def test_a_fit_finds_what_operators_take_and_what_of_it_they_wait(found: Calibration) -> None:
    for name in ("call", "compute"):
        step, true = found.costs[name], STEPS[name]
        assert step.service.mean == pytest.approx(true.service.mean, rel=0.03)
        assert step.cpu == pytest.approx(true.cpu, abs=0.02)
        assert step.selectivity == true.selectivity


def test_a_fit_finds_slots_and_the_processors_that_they_share(found: Calibration) -> None:
    assert found.node.cores == NODE.cores
    assert found.node.processors == pytest.approx(2.0, abs=0.01)
    assert any("behaved as if it had 2" in note for note in found.notes)
    assert found.quality.typical < 0.03


@pytest.mark.parametrize(
    "aside",
    [
        pytest.param(0.0, marks=pytest.mark.extended),
        0.04,
        pytest.param(0.08, marks=pytest.mark.extended),
    ],
)
def test_a_fit_tells_what_batches_take_aside_from_too_few_processors(
    tmp_path: Path, aside: float
) -> None:
    short = MicroBatch(0.005, 0.003, 0.004, 0.001, task=0.01, job=0.02, aside=aside)
    changes = (*CHANGES, "80s:read=4, read.cadence=1s")
    simulated(tmp_path / "run", flow(), batch=short, changes=changes, seconds=120)
    made = calibration.fit([observations.read_run(tmp_path / "run")])
    assert (made.node.processors, made.batch.aside) == (2.0, aside)


def test_a_fit_finds_keys_and_what_their_state_costs(keyed: Calibration) -> None:
    count = keyed.costs["count"]
    assert count.keys.number == 500
    assert count.keys.skew == pytest.approx(0.8, abs=0.15)
    assert keyed.batch.state == pytest.approx(0.01, rel=0.2)
    assert keyed.batch.task == pytest.approx(TRUTH.task, rel=0.15)


@pytest.mark.extended
def test_a_fit_tells_what_keys_cost_from_what_rows_cost(tmp_path: Path) -> None:
    steps = {**STEPS, "count": replace(STEPS["count"], touch=0.001)}
    plan = Plan((Pipeline(("read", "call", "compute", "count", "out"), 2, ceiling=2),))
    load = "points:0=10,40=10,40=60,60=60,60=150,80=150,80=300"
    graph = flow(keyed=True)
    simulated(tmp_path / "run", graph, plan=plan, load=load, changes=(), steps=steps)
    count = calibration.fit([observations.read_run(tmp_path / "run")]).costs["count"]
    assert count.touch == pytest.approx(0.001, rel=0.1)
    assert count.service.mean == pytest.approx(0.0005, rel=0.15)


@pytest.mark.parametrize("idle", [pytest.param(0.0, marks=pytest.mark.extended), 0.6])
def test_a_fit_finds_what_writing_costs_and_what_of_a_task_is_waiting(
    tmp_path: Path, idle: float
) -> None:
    batch = replace(BATCH, row=0.0, task=0.02, output=0.06, state=0.03, idle=idle)
    changes = ("20s:split compute", "40s:read=2, compute=4", "60s:compute=1", "80s:compute=3")
    plan = Plan((Pipeline(("read", "call", "compute", "count", "out"), 4),))
    simulated(tmp_path / "run", flow(keyed=True), batch=batch, plan=plan, changes=changes)
    made = calibration.fit([observations.read_run(tmp_path / "run")])
    assert made.batch.idle == pytest.approx(idle, abs=0.21)  # the next best step is as good
    assert made.node.processors == 2.0
    assert made.batch.task == pytest.approx(batch.task, rel=0.15)
    assert made.batch.output == pytest.approx(batch.output, rel=0.15)


def test_few_windows_with_large_batches_tell_what_rows_cost() -> None:
    rng = np.random.default_rng(1)
    rows = np.array([*rng.integers(100, 200, 60), 1000, 1000, 1000, 60_000, 60_000, 60_000], float)
    keys = Keys(200, skew=1.0)
    columns = {
        "task": np.ones(len(rows)),
        "total": rows,
        "a key": np.array([keys.touched(n) for n in rows]),
    }
    truth = {"task": 0.05, "total": 2e-5, "a key": 5e-4}
    values = sum(truth[name] * column for name, column in columns.items())
    values *= rng.lognormal(0.0, 0.25, len(rows))
    groups = group_numbers([*(["few"] * 60), *(["some"] * 3), *(["many"] * 3)])
    weights = group_weights(groups) / values**2
    found = batch_fit._solved(columns, values, weights, [], {"total": 2.0}, groups)
    assert found["total"] == pytest.approx(truth["total"], rel=0.2)


def test_a_machine_has_no_fewer_processors_than_were_at_work(tmp_path: Path) -> None:
    made = observations.read_run(simulated(tmp_path / "run", flow(), seconds=40.0, changes=()))
    for used, least in ((None, 0.4), (1.0, 0.5), (1.7, 0.9), (2.3, 1.0)):
        moments = [replace(m, used=used) for m in made.windows]
        assert min(calibration._shares(moments, 2.0)) == least


def test_keys_that_come_up_are_those_that_are_drawn() -> None:
    keys = Keys(300, skew=1.1)
    shares = np.arange(1.0, 301) ** -1.1
    drawn = np.random.default_rng(1).choice(300, (200, 400), p=shares / shares.sum())
    mean = np.mean([len(set(row)) for row in drawn.tolist()])
    assert keys.touched(400) == pytest.approx(mean, rel=0.02)
    assert keys.touched(0) == 0
    assert Keys(1).touched(5) == 1


def test_a_fit_says_what_cannot_be_told_apart(tmp_path: Path) -> None:
    steady = simulated(tmp_path, flow(), changes=(), load="40/s", seconds=60)
    made = calibration.fit([observations.read_run(steady)])
    assert any("'partition' was always in the same proportion to 'job'" in n for n in made.notes)
    assert any("the plan never changed" in note for note in made.notes)
    # what is not told apart is still all there
    whole = TRUTH.job + TRUTH.partition
    assert made.batch.job + made.batch.partition == pytest.approx(whole, rel=0.02)


def test_what_processors_do_beside_tasks_is_told_where_it_was_measured(tmp_path: Path) -> None:
    made = observations.read_run(simulated(tmp_path / "run", flow(), seconds=40.0, changes=()))
    before = calibration.fit([made])
    moments = [replace(m, used=1.7, by_tasks=1.2) for m in made.windows]
    after = calibration.fit([replace(made, windows=tuple(moments))])
    told = "processors busy with work of no task, by plan: 0.50 (1.20 tasks)"
    assert set(after.notes) - set(before.notes) == {told}
    assert (after.batch, after.node, after.costs) == (before.batch, before.node, before.costs)


def test_processors_of_a_window_are_what_was_used_since_it_began() -> None:
    seen = [
        Snapshot(at, 5.0, None, 0, 0, 0, processor_seconds=seconds)
        for at, seconds in ((0.0, 10.0), (1.0, 11.0), (2.0, None), (5.1, 15.0), (6.0, 20.0))
    ]
    assert observations._used(seen) == {
        5.1: pytest.approx(5 / 5.1),
        6.0: pytest.approx(9 / 5),
    }


def test_a_fit_says_that_keys_were_with_one_instance_at_a_time(tmp_path: Path) -> None:
    plan = Plan((Pipeline(("read", "call", "compute", "count", "out"), 1),))
    simulated(tmp_path / "run", flow(keyed=True), plan=plan, changes=(), seconds=40.0)
    made = calibration.fit([observations.read_run(tmp_path / "run")])
    assert any("'count' always had one instance" in note for note in made.notes)


def test_plans_of_different_runs_are_different_ones(tmp_path: Path) -> None:
    run_dir = simulated(tmp_path / "run", flow(), seconds=40.0, changes=CHANGES[:1])
    made = observations.read_run(run_dir)
    plans = [m.plan for m in made.windows]
    both = [m.plan for m in calibration._all_windows([made, made])]
    assert both == [*plans, *(max(plans) + 1 + n for n in plans)]


def test_several_runs_are_fitted_together_and_tell_more(tmp_path: Path) -> None:
    plans = [Plan((Pipeline(("read", "call", "compute", "out"), n),)) for n in (1, 4)]
    runs = [
        simulated(tmp_path / str(n), flow(), plan=plan, changes=(), load="100/s", seconds=60)
        for n, plan in enumerate(plans)
    ]
    made = calibration.fit([observations.read_run(run) for run in runs])
    assert not any("'partition' was always" in note for note in made.notes)
    assert made.batch.partition == pytest.approx(BATCH.partition, rel=0.1)
    assert made.batch.job == pytest.approx(BATCH.job, rel=0.05)


def test_a_model_file_says_what_was_fitted(keyed: Calibration, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_text(json.dumps(model_file.to_json(keyed, ["a run"])))
    again = model_file.read(file)
    assert (again.flow, again.batch, again.node) == ("recorded", keyed.batch, keyed.node)
    for name, step in keyed.costs.items():
        assert again.costs[name].service == step.service
        assert again.costs[name].cpu == pytest.approx(step.cpu, abs=1e-6)
    assert again.costs["count"].keys == keyed.costs["count"].keys
    model = again.model(flow(keyed=True), nodes=3)
    assert (model.nodes, model.batch) == (3, keyed.batch)
    with pytest.raises(InvalidInput, match="fitted to 'recorded', not to 'linear'"):
        again.model(build("linear", tmp_path).graph)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "not a model"),
        (
            '{"kind": "penstock model", "version": 7}',
            "it has version 7, this Penstock reads version 1",
        ),
        ('{"kind": "penstock model", "version": 1, "flow": "x"}', "a value is missing or wrong"),
        (
            '{"kind": "penstock model", "version": 1, "flow": "x", "operators": {}, '
            '"machine": {"slots": 4}, "batch": {"task": -1}}',
            "task of a batch must be finite and not negative, found -1",
        ),
    ],
)
def test_a_file_that_is_no_model_is_told(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(InvalidInput, match=message) as told:
        model_file.read(tmp_path / "model.json")
    assert "\n" not in str(told.value)


# --- what cannot be fitted ----------------------------------------------------------------------


def kept(run_dir: Path, *pipelines: PipelineMetrics) -> Path:
    """A history of one turn."""
    run_dir.mkdir()
    keep_dataflow(run_dir, flow())
    plan = Plan((Pipeline(("read", "call", "compute", "out")),))
    snapshot = Snapshot(9.0, 5.0, None, 10, 10, 0, {p.name: p for p in pipelines})
    history = History(run_dir, lambda: 1.0, pytest.fail)
    history.append(Tick(9.0, plan, snapshot))
    history.close()
    return run_dir


def test_runs_without_anything_to_learn_from_are_told(tmp_path: Path) -> None:
    for folder, message in {
        tmp_path / "nowhere": "there is no run directory",
        tmp_path: "holds no history of a run",
        kept(tmp_path / "idle", PipelineMetrics("read", 1)): "has no batches",
        kept(
            tmp_path / "old", PipelineMetrics("read", 1, batches=3, rows_in=9, parts={"log": 0.1})
        ): "no settled window with measured tasks",
    }.items():
        with pytest.raises(InvalidInput, match=message) as told:
            observations.read_run(folder)
        assert "\n" not in str(told.value)


def test_runs_of_two_dataflows_are_not_fitted_together(tmp_path: Path) -> None:
    one = simulated(tmp_path / "1", flow(), changes=(), seconds=30)
    other = simulated(tmp_path / "2", flow(keyed=True), changes=(), seconds=30)
    with pytest.raises(InvalidInput, match="ran another dataflow"):
        calibration.fit([observations.read_run(one), observations.read_run(other)])


# --- least squares ------------------------------------------------------------------------------

numbers = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 3))


@few
@given(st.integers(1, 4), st.integers(1, 12), st.data())
def test_no_step_that_is_allowed_makes_the_squares_less(
    width: int, length: int, data: st.DataObject
) -> None:
    size = width * length
    columns = np.array(data.draw(st.lists(numbers, min_size=size, max_size=size)))
    columns = columns.reshape(length, width)
    values = np.array(data.draw(st.lists(numbers, min_size=length, max_size=length)))
    found = nonnegative(columns, values)
    assert (found >= 0).all()
    slope = columns.T @ (columns @ found - values)  # of half the squares
    scale = 1e-6 * (1 + float(np.abs(columns).sum() * (np.abs(values).sum() + 1)))
    assert (slope >= -scale).all()  # more of none helps
    assert (np.abs(slope[found > 1e-9]) <= scale).all()  # nor less of one that is there


@few
@given(st.lists(st.floats(0.1, 5), min_size=2, max_size=3), st.integers(0, 10**6))
def test_a_tenth_of_outliers_does_not_sway_the_fit(truth: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.uniform(0.5, 2.0, (80, len(truth)))
    values = columns @ np.array(truth) * rng.normal(1, 0.005, 80)
    values[:8] *= 5
    np.testing.assert_allclose(robust(columns, values), truth, rtol=0.15, atol=0.05)


# --- sharing processors -------------------------------------------------------------------------


@few
@given(st.integers(1, 40), st.floats(0, 5), st.floats(0, 20), st.floats(0.5, 16))
def test_tasks_slow_down_until_processors_are_just_enough(
    tasks: int, waits: float, others: float, processors: float
) -> None:
    machine = SharedProcessors(64, processors, others)
    slow = machine.stretch(tasks, waits)
    # others as so many tasks of the same kind: each has a processor for 1 of slow + waits seconds
    wanted = (tasks + others) / (slow + waits)
    assert slow >= 1
    if slow > 1:
        assert wanted == pytest.approx(processors)
    else:
        assert wanted <= processors * (1 + 1e-9)
    assert machine.stretch(tasks + 1, waits) >= slow >= machine.stretch(tasks, waits + 1)


def test_a_machine_of_unknown_processors_has_one_for_each(tmp_path: Path) -> None:
    assert SharedProcessors(4, 0.0, 9.0).stretch(8) == 1.0
    with pytest.raises(InvalidInput, match="a machine needs processors, found 0"):
        Machine(processors=0)
    with pytest.raises(InvalidInput, match="job of a batch must be finite and not negative"):
        MicroBatch(job=-1)
