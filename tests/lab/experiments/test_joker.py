"""What Joker's and Es-Stream's experiments are made of, and how they are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.policies.es_stream import marginal_analysis
from penstock.policies.joker import split_gain
from penstock_lab import experiments
from penstock_lab.experiments.es_stream import common as es_stream
from penstock_lab.experiments.es_stream import figure_13 as es_stream_13
from penstock_lab.experiments.experiment import Data, Setting
from penstock_lab.experiments.joker import common as joker
from penstock_lab.experiments.joker import figure_5 as joker_5
from penstock_lab.experiments.joker import figure_8 as joker_8
from penstock_lab.experiments.joker import figure_10 as joker_10
from penstock_lab.experiments.joker import figure_11 as joker_11
from penstock_lab.experiments.joker import figure_12 as joker_12
from penstock_lab.experiments.joker import figure_16 as joker_16
from penstock_lab.experiments.joker import figure_18 as joker_18
from penstock_lab.experiments.joker.best_static import BestPlan
from penstock_lab.experiments.scenario import Scenario

OURS = [e for e in experiments.every() if e.name.startswith(("joker", "es-stream"))]


def test_what_a_tuple_costs_gives_the_rates_that_the_seed_prints() -> None:
    m = joker.MULTIPLICATION
    assert 1 / (joker.HOP + joker.FIXED + 256 * m) == pytest.approx(500)
    assert 1 / (joker.HOP + 12.5 * joker.FIXED + 4096 * m) == pytest.approx(80)
    hop, fixed = joker_10.HOP, joker_10.FIXED
    assert 1 / (hop + 12.5 * fixed + 4096 * m) == pytest.approx(80)
    assert 1 / (4 * hop + 6.5 * fixed + 2048 * m) == pytest.approx(1.04 * 80)


def test_replicas_are_in_each_others_way_as_the_seed_prints() -> None:
    whole = joker.HOP + joker.FIXED + 4096 * joker.MULTIPLICATION
    assert 13 * whole / (whole + 12 * joker.CROWDING) == pytest.approx(12)
    counting = joker_18.word_count(1.0)
    busiest = counting.model.cost("count").keys.shares(8).max()
    word = counting.model.cost("count").service.mean + 7 * joker_18.CROWDING
    assert 1 / (busiest * word) == pytest.approx(3200)


@pytest.mark.parametrize(("multiplications", "pays"), [(32, False), (64, True)])
def test_two_operators_are_cut_apart_from_64_multiplications_on(
    multiplications: int, pays: bool
) -> None:
    cost = joker.multiplying(multiplications).service.mean
    share = cost / (joker.HOP + 2 * cost)
    assert (split_gain.utility([share, share]) - 1 > joker.SEED.split_utility) is pays


def test_a_finer_grain_is_the_same_work_in_more_tuples() -> None:
    steps = {"multiply-1": joker.multiplying(4096)}
    graph = joker.workload("region-4", multiplications="4096")
    plain, fine = (joker.scenario(graph, steps, 1.0, grain=grain) for grain in (1.0, 8.0))
    for name in ("numbers", "multiply-1"):
        times = [s.model.cost(name).service.mean for s in (plain, fine)]
        assert times[0] == pytest.approx(8 * times[1])
    assert plain.model.hop == pytest.approx(8 * fine.model.hop)
    assert fine.load == f"{8 * 1.2 / joker.SOURCE:g}/s"


def _does(scenario: Scenario, parts: Sequence[Sequence[str]], counts: Sequence[int]) -> float:
    """Tuples a second of one region, cut into parts with so many instances each."""
    model = scenario.model
    source = model.cost("numbers").service.mean
    works = [
        model.hop + model.crowding * (n - 1) + sum(model.cost(name).service.mean for name in part)
        for part, n in zip(parts, counts, strict=True)
    ]
    slowest = max(w / n for w, n in zip(works, counts, strict=True))
    return min(1 / slowest, joker.THREADS / (sum(works) + source), 1 / source)


def _cuts(names: list[str]) -> Iterator[list[list[str]]]:
    for ends in itertools.product((False, True), repeat=len(names) - 1):
        parts = [[names[0]]]
        for name, cut in zip(names[1:], ends, strict=True):
            parts += [[name]] if cut else []
            parts[-1] += [] if cut else [name]
        yield parts


@pytest.mark.parametrize("threads", [4, 7])
@pytest.mark.parametrize("cost", [16, 256, 4096])
def test_the_best_static_plan_is_as_good_as_any_that_is_tried(
    threads: int, cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joker, "THREADS", threads)
    monkeypatch.setattr(BestPlan, "_share", lambda self, segment, instances: 1 / instances)
    scenario = joker_5.region(3, cost, 1.0)
    pipelines = [p for p in BestPlan(scenario).plan.pipelines if p.name != "numbers"]
    parts = [[n for n in p.operators if n != "results"] for p in pipelines]
    found = _does(scenario, parts, [p.parallelism for p in pipelines])
    names = [n for n in scenario.graph.topological if n.startswith("multiply")]
    tried = (
        _does(scenario, cuts, counts)
        for cuts in _cuts(names)
        for counts in itertools.product(range(1, threads + 2), repeat=len(cuts))
    )
    assert found == pytest.approx(max(tried))


def test_the_best_plan_of_a_reverse_tree_has_twice_the_threads_at_its_root() -> None:
    plan = BestPlan(joker_8.topology("reverse-tree", 4096, 1.0)).plan
    branch, root = plan.pipeline_of("from-north"), plan.pipeline_of("root")
    assert root.parallelism == pytest.approx(2 * branch.parallelism, abs=1)
    pairs = BestPlan(joker_8.topology("reverse-tree", 4096, 1.0, pairs=True)).plan
    assert pairs.pipeline_of("root").parallelism <= pairs.pipeline_of("from-north").parallelism + 1


def test_the_selectivity_region_sees_twelve_and_a_half_tuples_for_one() -> None:
    scenario = joker_10.selective(1.0)
    visits, rows = 0.0, 1.0
    work = 0.0
    for name in scenario.graph.topological:
        if name.startswith(("multiply", "select")):
            step = scenario.model.cost(name)
            visits, work = visits + rows, work + rows * step.service.mean
            rows *= step.selectivity
    assert visits == 12.5
    assert 1 / (work + scenario.model.hop) == pytest.approx(80)


def test_beta_is_the_one_of_fourteen_instances_at_1800() -> None:
    share = es_stream.SEED.share

    def total(app: es_stream.Application, rate: float) -> int:
        return sum(marginal_analysis.best_instances(rate * s, share) for s in app.services.values())

    assert total(es_stream.COUNT, 1800) == 14
    for app, seed in ((es_stream.COUNT, (24, 19)), (es_stream.TOP, (27, 23))):
        for rate, n in zip((3600, 2700), seed, strict=True):
            assert total(app, rate) == pytest.approx(n, rel=0.25)


def test_all_cores_carry_the_highest_rate() -> None:
    for app in (es_stream.COUNT, es_stream.TOP):
        cores = es_stream.NODES * es_stream.CORES
        assert cores / sum(app.services.values()) == pytest.approx(app.bottleneck)
    assert es_stream.TOP.even(18) == {"read": 5, "sold": 5, "count": 4, "rank": 4}


@pytest.mark.parametrize("app", [es_stream.COUNT, es_stream.TOP], ids=lambda a: a.name)
@pytest.mark.parametrize("rate", [900, 1800, 3600])
def test_enough_is_the_fewest_even_instances_that_keep_up(
    app: es_stream.Application, rate: int
) -> None:
    (each,) = set(app.enough(rate).values())
    loads = [rate * s for s in app.services.values()]
    assert max(loads) < each
    assert not max(loads) < each - 1


def test_the_best_deal_of_all_instances_keeps_up_with_the_highest_rate() -> None:
    app = es_stream.TOP
    scenario = es_stream.scenario(app, "1/s", 1.0, app.even(52), es_stream.NODES)
    plan = es_stream_13.dealt(scenario, app)
    deal = {n: plan.pipeline_of(n).parallelism for n in app.operators}
    assert sum(deal.values()) == 52
    assert min(k / app.services[n] for n, k in deal.items()) > app.bottleneck


def _data(changes: list[tuple[float, str]], rates: list[float]) -> Data:
    """Ten seconds under each plan, at a rate."""
    records: list[dict[str, Any]] = []
    for number, rate in enumerate(rates):
        for second in range(10):
            at = 10.0 * number + second + 1
            pipelines = {"multiply-1": {"rate_in": rate, "instances": 1}}
            records.append({"case": "seed", "kind": "tick", "at": at, "pipelines": pipelines})
    records += [
        {"case": "seed", "kind": "change", "at": at, "reason": reason} for at, reason in changes
    ]
    return Data(tuple(records), parameters={"profile": 10.0})


def test_attempts_are_measured_against_what_was_before_the_first_of_them() -> None:
    changes = [
        (10.0, "m is busy; split into a | b"),
        (20.0, "undone: rose 5 %; one more instance: 1 -> 2"),
        (30.0, "kept: rose 60 %; split into a | b"),
        (40.0, "undone: rose 0 %; nothing is left to try"),
    ]
    data = _data(changes, [100.0, 105.0, 160.0, 160.0, 160.0])
    assert joker_10.attempts(data) == pytest.approx([0.05, 0.6, 0.0])


def _changed(case: str, *changes: tuple[float, str]) -> tuple[dict[str, Any], ...]:
    """Changes by their time and reason."""
    return tuple(
        {"case": case, "kind": "change", "at": at, "reason": reason} for at, reason in changes
    )


def test_what_was_tried_stays_unless_the_next_change_undoes_it() -> None:
    changes = (
        (10.0, "m is busy; split into a | b"),
        (20.0, "undone: rose 5 %; one more instance: 1 -> 2"),
        (30.0, "kept: rose 60 %; split into a | b"),
        (40.0, "undone: rose 0 %; nothing is left to try"),
    )
    data = Data(_changed("seed", *changes))
    assert [(c["at"], stayed) for c, stayed in joker.tries(data, "seed")] == [
        (10.0, False),
        (20.0, True),
        (30.0, False),
    ]
    assert joker_10._reverted(data) == 2


def test_a_cut_that_stays_is_no_cut_that_is_taken_back() -> None:
    stays = ((10.0, "split into a | b"), (20.0, "kept: rose 11 %; one more instance: 1 -> 2"))
    goes = ((10.0, "split into a | b"), (15.0, "undone: rose 4 %; one more instance: 1 -> 2"))
    data = Data(_changed("unequal, 0.1", *stays) + _changed("unequal, 0.2", *goes))
    for case, kept in (("unequal, 0.1", 1), ("unequal, 0.2", 0)):
        assert joker_12._cuts(case)(data) == 1
        assert joker_12._cuts_kept(case)(data) == kept
    assert joker_12._longer(data) == pytest.approx(20 / 15)


def _briefly(name: str, case: str, scratch: Path) -> Data:
    """One case of an experiment in its smaller size."""
    one = experiments.get(name)
    parameters = one.parameters("simulator", True)
    job = next(c.job for c in one.made("simulator", parameters) if c.name == case)
    records = ({"case": case, **record} for record in job(Setting(1, scratch)))
    return Data(tuple(records), parameters=parameters)


@pytest.mark.extended
def test_a_short_run_also_measures_until_queues_are_worked_off(tmp_path: Path) -> None:
    """A sixth replica only works off what waits before five, and is taken back."""
    data = _briefly("joker-14", "unequal, 0.2", tmp_path)
    assert joker_12._steps("unequal, 0.2")(data) == 4


def test_what_brings_nothing_is_taken_back_as_in_the_seed(tmp_path: Path) -> None:
    """A thread that is busy for 0.64 of the time does all that comes, and two do no more."""
    data = _briefly("joker-11", "0.5", tmp_path)
    assert joker_11.most("0.5", 3)(data) == 2
    assert joker_11.most("0.5", 3, at_end=True)(data) == 1


def test_threads_that_look_for_tuples_count_as_busy_and_those_that_sleep_do_not(
    tmp_path: Path,
) -> None:
    """At 160 ktps of 500 a thread is above 0.5 only by the time for which it finds nothing."""
    data = _briefly("joker-11", "0.5", tmp_path)
    assert [joker_11.most("0.5", at)(data) for at in (1, 2)] == [1, 2]
    data = _briefly("joker-11", "asleep, 0.5", tmp_path / "asleep")
    assert [joker_11.most("asleep, 0.5", at)(data) for at in (2, 3)] == [1, 2]


def test_a_fall_is_that_of_the_change_that_is_meant_and_no_other() -> None:
    def emitted(at: float) -> float:
        """100 a second; nothing for 0.5 s from 20 s on, then 150, and nothing from 40 s on."""
        return 100 * min(at, 20) + 150 * max(0.0, min(at, 40) - 20.5)

    ticks = [
        {"case": "seed", "kind": "tick", "at": n / 4, "ingested": emitted(n / 4)}
        for n in range(200)
    ]
    changes = (
        (5.0, "m-1: parallelism 1 -> 2", "m-1 is busy; one more instance: 1 -> 2"),
        (20.0, "m-1: parallelism 2 -> 3", "kept: rose; one more instance: 2 -> 3"),
        (40.0, "m-1: parallelism 3 -> 2", "undone: rose 0 %; nothing is left to try"),
    )
    made = [
        {"case": "seed", "kind": "change", "at": at, "actions": [action], "reason": reason}
        for at, action, reason in changes
    ]
    data = Data((*ticks, *made))
    assert joker_16.fall(joker_16.third_replica)(data) == pytest.approx(0.25)
    assert joker_16.effect(joker_16.third_replica)(data) == pytest.approx(2.0)
    only_first = Data((*ticks, made[0]))
    assert joker_16.fall(joker_16.first_three)(only_first) == pytest.approx(0, abs=1e-9)
    assert joker_16.fall(joker_16.third_replica)(only_first) is None


@pytest.mark.parametrize("sending", [0.07, joker_12._SENDING, 1.0])
def test_a_cut_of_unequal_operators_brings_too_little_and_one_of_equal_ones_enough(
    sending: float,
) -> None:
    for shares, pays in (((0.75, 0.10), False), ((0.45, 0.40), True)):
        model = joker_12.shared(*shares, 1.0, 500.0, sending).model
        first = model.hop + model.cost("multiply-1").service.mean + model.send
        second = model.hop + model.cost("multiply-2").service.mean
        gain = 0.01 / max(first, second) - 1
        assert (gain > joker.SEED.improvement) is pays
