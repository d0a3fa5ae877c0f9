"""The valve: what is turned is seen, and what a source says of it is heard."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Pipeline
from penstock.engines.spark.channels.valve import BatchSize, Valve, ValveFile, acknowledged
from tests.strategies import few


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.valve"


def test_every_turn_is_seen(path: Path) -> None:
    file = ValveFile(str(path))
    for turn in range(200):
        valve = Valve(parallelism=turn + 1, turn=turn)
        valve.save(path)
        if turn % 3:
            assert file.read() == valve


@few
@given(
    valve=st.builds(
        Valve,
        open=st.booleans(),
        parallelism=st.integers(1, 99),
        admission=st.none() | st.integers(1, 10**9),
        cadence=st.floats(0, 1e6),
        clocks=st.dictionaries(st.text(max_size=5), st.floats(0, 2e9), max_size=3),
        limits=st.dictionaries(st.text(max_size=5), st.integers(0, 2**62), max_size=3),
        turn=st.integers(0, 10**6),
    )
)
def test_a_valve_is_read_as_it_was_saved(
    tmp_path_factory: pytest.TempPathFactory, valve: Valve
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.valve"
    valve.save(path)
    assert ValveFile(str(path)).read() == valve


def test_a_missing_file_is_a_closed_valve(path: Path) -> None:
    file = ValveFile(str(path))
    assert file.read() == Valve(open=False)
    Valve(admission=5).save(path)
    assert file.read().open
    path.unlink()
    assert file.read() == Valve(open=False)


def test_a_source_has_to_see_a_closed_valve_twice(path: Path) -> None:
    Valve(open=False, turn=4).save(path)
    file = ValveFile(str(path))
    assert not acknowledged(path, "words", 4)
    file.acknowledge("words", 4)
    assert not acknowledged(path, "words", 4)
    file.acknowledge("words", 4)
    assert acknowledged(path, "words", 4)
    file.acknowledge("words", 4)
    assert acknowledged(path, "words", 4)


def test_another_turn_begins_to_count_anew(path: Path) -> None:
    file = ValveFile(str(path))
    for _ in range(2):
        file.acknowledge("words", 4)
    file.acknowledge("words", 6)
    assert not acknowledged(path, "words", 4)
    assert not acknowledged(path, "words", 6)
    file.acknowledge("words", 6)
    assert acknowledged(path, "words", 6)
    assert not acknowledged(path, "words", 4)


def test_what_was_said_of_an_earlier_valve_does_not_count(path: Path) -> None:
    # The turns of a pipeline that takes the place of another one begin at 0 again.
    closed = Valve(open=False, turn=1)
    closed.save(path)
    file = ValveFile(str(path))
    for _ in range(2):
        file.acknowledge("words", 1)
    replace(closed, open=True, turn=0).save(path)
    closed.save(path)
    assert not acknowledged(path, "words", 1)


def test_a_valve_leaves_what_is_said_of_others_alone(path: Path) -> None:
    other = path.with_name("more-words.valve")
    file = ValveFile(str(other))
    for _ in range(2):
        file.acknowledge("words", 1)
    Valve().save(path)
    assert acknowledged(other, "words", 1)


def test_sources_speak_for_themselves(path: Path) -> None:
    file = ValveFile(str(path))
    for _ in range(2):
        file.acknowledge("a>b-c", 1)
    names = ["a>b-c", "a-b>c", "a", "b-c"]
    assert [acknowledged(path, name, 1) for name in names] == [True, False, False, False]


def test_a_word_that_is_being_written_is_not_heard_yet(path: Path) -> None:
    path.with_name("words.valve.words.seen").write_text("")
    assert not acknowledged(path, "words", 0)


def test_saving_leaves_nothing_else_behind_and_disturbs_no_neighbour(path: Path) -> None:
    neighbour = path.with_suffix(".draft")
    neighbour.write_text("of someone else")
    Valve().save(path)
    assert sorted(p.name for p in path.parent.iterdir()) == ["words.draft", "words.valve"]
    assert neighbour.read_text() == "of someone else"


def test_the_reading_side_travels_and_starts_afresh(path: Path) -> None:
    Valve(open=False, turn=2).save(path)
    file = ValveFile(str(path))
    file.acknowledge("words", 2)
    shipped = pickle.loads(pickle.dumps(file))
    assert shipped.read() == Valve(open=False, turn=2)
    shipped.acknowledge("words", 2)
    assert not acknowledged(path, "words", 2)


def test_a_batch_is_as_long_as_a_window() -> None:
    pace = BatchSize(5.0)
    assert pace.admission(Pipeline(("a", "b"), 3)) is None
    assert pace.admission(Pipeline(("a", "b"), 3), python=True) == 150
    pace.learn(("a", "b"), 0.01)
    assert pace.admission(Pipeline(("a", "b"), 3)) == 1500
    assert pace.admission(Pipeline(("a", "b"), 3, admission=7)) == 7
    pace.learn(("a", "b"), 100.0)
    assert pace.admission(Pipeline(("a", "b"), 3)) == 1


def test_a_pipeline_that_is_cut_or_joined_needs_what_its_parts_needed() -> None:
    pace = BatchSize(1.0)
    pace.learn(("a", "b"), 0.02)
    pace.learn(("c",), 0.03)
    assert pace.admission(Pipeline(("a", "b", "c"), 1)) == 20
    assert pace.admission(Pipeline(("b",), 1)) == 50
    pace.learn(("a",), 0.005)
    pace.learn(("b",), 0.01)
    assert pace.admission(Pipeline(("a", "b", "c"), 1)) == round(1 / 0.045)
    assert pace.admission(Pipeline(("d",), 1)) is None


def test_who_begins_with_a_few_rows_takes_ever_more() -> None:
    pace, spec = BatchSize(5.0), Pipeline(("a",), 1)
    assert pace.enlarged_batch(spec, 50, 50, 0.1) == 500  # ten times as many at most
    assert pace.enlarged_batch(spec, 50, 50, 4.0) == 62
    assert pace.enlarged_batch(spec, 50, 50, 6.0) == 0
    assert pace.enlarged_batch(spec, 50, 10, 0.1) == 0  # it did not need what it might have had
    assert pace.enlarged_batch(spec, None, 50, 0.1) == 0
    assert pace.enlarged_batch(Pipeline(("a",), 1, admission=50), 50, 50, 0.1) == 0
    pace.learn(("a",), 0.01)
    assert pace.enlarged_batch(spec, 50, 50, 0.1) == 0  # by now it is known
