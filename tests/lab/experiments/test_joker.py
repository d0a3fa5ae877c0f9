"""What Joker's and Es-Stream's experiments are made of, and how they are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.policies.es_stream import marginal_analysis
from penstock.policies.joker import splitting
from penstock_lab import experiments
from penstock_lab.experiments.es_stream import common as es_stream
from penstock_lab.experiments.es_stream import figure_13 as es_stream_13
from penstock_lab.experiments.experiment import Case, Data, Record, Setting
from penstock_lab.experiments.joker import common as joker
from penstock_lab.experiments.joker import figure_5 as joker_5
from penstock_lab.experiments.joker import figure_8 as joker_8
from penstock_lab.experiments.joker import figure_10 as joker_10
from penstock_lab.experiments.joker import figure_11 as joker_11
from penstock_lab.experiments.joker import figure_12 as joker_12
from penstock_lab.experiments.joker import figure_16 as joker_16
from penstock_lab.experiments.joker import figure_18 as joker_18
from penstock_lab.experiments.joker.best_static import Best
from penstock_lab.experiments.joker.draws import middle, repeated
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
    assert (splitting.utility([share, share]) - 1 > joker.SEED.split_utility) is pays


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
    monkeypatch.setattr(Best, "_share", lambda self, segment, instances: 1 / instances)
    scenario = joker_5.region(3, cost, 1.0)
    pipelines = [p for p in Best(scenario).plan.pipelines if p.name != "numbers"]
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
    plan = Best(joker_8.topology("reverse-tree", 4096, 1.0)).plan
    branch, root = plan.pipeline_of("from-north"), plan.pipeline_of("root")
    assert root.parallelism == pytest.approx(2 * branch.parallelism, abs=1)
    pairs = Best(joker_8.topology("reverse-tree", 4096, 1.0, pairs=True)).plan
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


def _emitting(case: str, rate: float, changed: float | None = None) -> list[Record]:
    """A minute in which the source emits so much, and a change of the plan."""
    found: list[Record] = [
        {"case": case, "kind": "tick", "at": float(at), "ingested": rate * at} for at in range(61)
    ]
    change = {"case": case, "kind": "change", "at": changed, "reason": "", "actions": []}
    return found if changed is None else [*found, change]


def test_no_plan_that_a_policy_ended_with_is_ahead_of_the_best_static_one() -> None:
    records = [
        *_emitting("best static, 64, draw 2", 100.0),
        *_emitting("seed, 64, draw 2", 102.0, changed=30.0),
        *_emitting("seed, 64", 300.0),  # another draw
        *_emitting("seed, 32, draw 2", 300.0),  # another flow
        *_emitting("restless, 64, draw 2", 300.0, changed=50.0),  # no static plan in the end
    ]
    data = Data(tuple(records))
    assert joker.after(data, "best static, 64, draw 2") == pytest.approx(102)
    assert joker.after(data, "seed, 64, draw 2") == pytest.approx(102)
    without = Data(tuple(r for r in records if r["case"] != "seed, 64, draw 2"))
    assert joker.after(without, "best static, 64, draw 2") == pytest.approx(100)


def test_the_ways_beside_a_best_static_plan_are_those_of_its_flow_and_draw() -> None:
    sizes = {"seconds": 60.0, "profile": 20.0, "draws": 2}
    names = [case.name for case in experiments.get("joker-14").made("simulator", sizes)]
    data = Data(tuple({"case": name, "kind": "tick", "at": 0.0} for name in names))
    found = joker.alike(data, "equal, best static")
    assert set(found) == {"equal, 0.2", "equal, 0.9", "equal, organic"}
    assert joker.alike(data, "equal, 0.2") == ()


def test_draws_are_other_chance_under_the_name_of_the_first(tmp_path: Path) -> None:
    seeds: list[int] = []

    def job(setting: Setting) -> list[Record]:
        seeds.append(setting.seed)
        return [{"kind": "tick", "at": 0.0, "value": [5.0, 1.0, 3.0][setting.seed % 1000]}]

    cases = [*repeated(Case("seed", job), 3), Case("once", job)]
    assert [c.name for c in cases] == ["seed", "seed, draw 2", "seed, draw 3", "once"]
    records = [{"case": c.name, **r} for c in cases[:3] for r in c.job(Setting(7, tmp_path))]
    assert seeds == [7000, 7001, 7002]
    once = {"case": "once", "kind": "tick", "at": 0.0, "value": 10.0}
    data = Data((*records, once), parameters={"draws": 3})

    def value(case: str, data: Data) -> float:
        return float(data.of(case)[-1]["value"])

    assert middle(lambda d: value("seed", d))(data) == 3
    assert middle(lambda d: value("once", d) - value("seed", d))(data) == 7
    assert middle(lambda d: float(len(d.cases)))(data) == 2
    assert middle(lambda d: None if value("seed", d) == 1 else 2.0)(data) is None


def test_ten_replicas_stay_and_eleven_do_not_if_tuples_are_dealt_as_keys_are() -> None:
    """How near the last ones are to the 10 % that are asked for, in figures 9 and 15."""
    for whole in (joker.HOP + joker.FIXED + 4096 * joker.MULTIPLICATION, 1 / joker_12._THREAD):

        def does(n: int, whole: float = whole) -> float:
            return 1 / (joker.KEYS.shares(n).max() * (whole + (n - 1) * joker.CROWDING))

        gains = {n: does(n) / does(n - 1) - 1 for n in range(2, 13)}
        assert all(gains[n] > 0.1 for n in range(2, 11))
        assert gains[10] == pytest.approx(0.106, abs=0.001)
        assert gains[11] < joker.SEED.improvement
        assert gains[12] > joker_8.LOWER


def test_the_cheap_region_of_figure_9_takes_a_quarter_of_the_costly_one() -> None:
    each = [joker.HOP + joker.FIXED + n * joker.MULTIPLICATION for n in (512, 4096)]
    assert each[0] / each[1] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("cost", joker_5.COSTS)
@pytest.mark.parametrize("operators", joker_5.LENGTHS)
def test_the_best_static_plan_of_a_long_region_cuts_nothing(operators: int, cost: int) -> None:
    plan = Best(joker_5.region(operators, cost, 1.0)).plan
    assert len(plan.pipelines) == 2


def test_the_counter_that_is_taken_back_is_told_with_what_it_brought() -> None:
    """Throughput by counters: 100, then 160, then 166, then as before."""
    changes = (
        (10.0, "count is busy; one more instance: 1 -> 2"),
        (20.0, "kept: rose 60 %; one more instance: 2 -> 3"),
        (30.0, "undone: rose 4 %; nothing is left to try"),
    )
    case = "seed, word count"
    ticks = [
        {"case": case, "kind": "tick", "at": float(at),
         "pipelines": {"count": {"rate_in": (100.0, 160.0, 166.4, 160.0)[(at - 1) // 10]}}}
        for at in range(1, 41)
    ]  # fmt: skip
    data = Data((*ticks, *_changed(case, *changes)), parameters={"profile": 10.0})
    assert joker_18._taken_back(data) == pytest.approx(0.04)


def test_a_change_takes_as_long_as_its_threads_take_to_stop(tmp_path: Path) -> None:
    """One thread for each of two cuts, three for the second replica, six for the third."""
    play = {c.name: c.job for c in joker_16.changes(85.0, 20.0)}["long queues"]
    made = [r for r in play(Setting(1, tmp_path)) if r["kind"] == "change"]
    stood = [round(change["interruption"] / joker_16.STOP) for change in made]
    assert stood == [1, 1, 3, 6]
    assert all(change["seconds"] < 1 for change in made)


def test_the_cheap_region_is_looked_at_for_every_cost() -> None:
    records = tuple(
        {"case": f"seed, {cost}", "kind": "tick", "at": 1.0,
         "pipelines": {"multiply-2": {"instances": n}}}
        for cost, n in ((32, 5), (64, 4), (4096, 3))
    )  # fmt: skip
    data = Data(records, parameters={"costs": (32, 64, 4096), "draws": 1})
    assert joker_8._cheap_ones(max)(data) == 5
    assert joker_8._cheap_ones(min)(data) == 3


@pytest.mark.parametrize("one", OURS, ids=lambda e: e.name)
def test_every_experiment_can_be_made_and_says_each_thing_once(one: Any) -> None:
    for quick in (True, False):
        cases = one.made("simulator", one.parameters("simulator", quick))
        assert len({c.name for c in cases}) == len(cases) > 1
    whats = [claim.what for claim in one.claims]
    assert len(set(whats)) == len(whats)
    if one.spark is not None:
        assert one.made("spark", one.parameters("spark", False))


def test_the_same_seed_gives_the_same_records_and_another_one_others(tmp_path: Any) -> None:
    case = experiments.get("es-stream-18").made(
        "simulator", {"intervals": (2.0,), "parallelism": (2,), "states": ()}
    )[1]
    found = [list(case.job(Setting(seed, tmp_path / str(at)))) for at, seed in enumerate((1, 1, 2))]
    assert found[0] == found[1]
    assert found[0][0]["seconds"] == pytest.approx(found[2][0]["seconds"], rel=0.2)


def test_a_change_in_the_last_seconds_counts_though_no_tick_follows() -> None:
    ticks = [
        {"case": "0.95", "kind": "tick", "at": at, "pipelines": {"multiply-1": {"instances": n}}}
        for at, n in ((88.0, 1), (90.0, 2), (98.033, 2))
    ]
    changes = [
        {"case": "0.95", "kind": "change", "at": at, "actions": [f"multiply-1: parallelism {to}"]}
        for at, to in ((89.0, "1 -> 2"), (98.033, "2 -> 3"))
    ]
    data = Data((*ticks, *changes), "spark", 1, {"step": 20.0})
    assert joker_11.most("0.95", 4)(data) == 3
    assert joker_11.most("0.95", 4, at_end=True)(data) == 3


def test_an_experiment_with_costs_of_its_own_says_so() -> None:
    costs = (joker_10.HOP, joker_10.FIXED, joker.HOP, joker.FIXED)
    assert [round(1000 * one, 2) for one in costs] == [1.64, 0.18, 1.25, 0.21]
    assert any("costs of its own" in note for note in joker_10.FIGURE_10.notes)
