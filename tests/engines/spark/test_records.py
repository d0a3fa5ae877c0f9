"""Python operators: good records pass in order, every bad one becomes exactly one letter."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from penstock.dataflow.operators import Arrow, Filter, FlatMap, Map
from penstock.engines.spark.channels.remote_files import FileStore
from penstock.engines.spark.queries.dead_letters import Desk, OperatorError
from penstock.engines.spark.queries.record_functions import RecordStep, RecordSteps
from tests.strategies import few

SCHEMA = pa.schema([("n", pa.int64())])
Batches = Iterator[pa.RecordBatch]


def batches(*values: Sequence[int]) -> Batches:
    return iter([pa.RecordBatch.from_pydict({"n": v}, SCHEMA) for v in values])


class Bench:
    """Runs stages and reads the letters they leave."""

    def __init__(self, folder: Path) -> None:
        self.dead = FileStore(str(folder))

    def stage(
        self, body: Any, schema: pa.Schema = SCHEMA, fails: bool = False, name: str = "step"
    ) -> RecordStep:
        return RecordStep(body, schema, Desk(name, "flow.py:12", fails, self.dead, 1))

    def run(self, body: Any, *values: Sequence[int], **options: Any) -> list[Any]:
        return column(self.stage(body, **options)(batches(*values)))

    def letters(self, name: str = "step") -> list[dict[str, Any]]:
        box = self.dead.child(name)
        files = sorted(Path(box.path()).rglob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]

    def put_aside(self, name: str = "step") -> list[int]:
        return [letter["record"]["n"] for letter in self.letters(name)]


def column(found: Batches, name: str = "n") -> list[Any]:
    return [value for batch in found for value in batch[name].to_pylist()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def inverse(record: dict[str, Any]) -> dict[str, Any]:
    return {"n": 100 // record["n"]}


def per_batch(function: Callable[[int], int]) -> Callable[[Batches], Batches]:
    """An Arrow function that fails on a batch with any bad record in it."""

    def run(found: Batches) -> Batches:
        for batch in found:
            made = [function(n) for n in batch["n"].to_pylist()]
            yield pa.RecordBatch.from_pydict({"n": made}, SCHEMA)

    return run


def hundredth(n: int) -> int:
    return 100 // n


# --- map, flat_map, filter ----------------------------------------------------------------------


def test_map_sends_one_record_on_for_each(bench: Bench) -> None:
    assert bench.run(Map(lambda r: {"n": r["n"] + 1}), [1, 2], [], [3]) == [2, 3, 4]
    assert bench.letters() == []


def test_flat_map_sends_any_number_on(bench: Bench) -> None:
    body = FlatMap(lambda r: ({"n": r["n"]} for _ in range(r["n"])))
    assert bench.run(body, [2, 0, 1], [3]) == [2, 2, 1, 3, 3, 3]


def test_filter_lets_true_records_pass(bench: Bench) -> None:
    assert bench.run(Filter(lambda r: r["n"] % 2), [1, 2, 3], [4], [5]) == [1, 3, 5]


@pytest.mark.parametrize("form", ["map", "flat-map", "filter", "arrow"])
def test_a_bad_record_becomes_one_letter_and_all_others_pass(bench: Bench, form: str) -> None:
    bodies: dict[str, Any] = {
        "map": Map(inverse),
        "flat-map": FlatMap(lambda r: [inverse(r)]),
        "filter": Filter(lambda r: 100 // r["n"]),
        "arrow": Arrow(per_batch(hundredth)),
    }
    found = bench.run(bodies[form], [1, 2, 0, 4], [5, 0])
    assert found == ([1, 2, 4, 5] if form == "filter" else [100, 50, 25, 20])
    letter = {
        "operator": "step",
        "error": "ZeroDivisionError: integer division or modulo by zero",
        "record": {"n": 0},
    }
    assert bench.letters() == [letter, letter]


@pytest.mark.parametrize("form", ["map", "flat-map", "filter", "arrow"])
def test_an_operator_that_is_set_to_fail_does(bench: Bench, form: str) -> None:
    bodies: dict[str, Any] = {
        "map": Map(inverse),
        "flat-map": FlatMap(lambda r: [inverse(r)]),
        "filter": Filter(lambda r: 100 // r["n"]),
        "arrow": Arrow(per_batch(hundredth)),
    }
    with pytest.raises(OperatorError) as failure:
        bench.run(bodies[form], [1, 2, 0, 4], fails=True)
    assert str(failure.value) == (
        "[penstock] operator 'step' (flow.py:12) cannot process a record: ZeroDivisionError: "
        'integer division or modulo by zero; the record: {"n": 0}'
    )
    assert bench.letters() == []


def test_a_flat_map_that_fails_half_way_sends_nothing_of_that_record(bench: Bench) -> None:
    def upto(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for n in range(record["n"]):
            if n == 2:
                raise ValueError("enough")
            yield {"n": n}

    assert bench.run(FlatMap(upto), [1, 3, 2]) == [0, 0, 1]
    assert bench.put_aside() == [3]


def test_records_may_be_given_back_as_tuples_in_column_order(bench: Bench) -> None:
    two = pa.schema([("n", pa.int64()), ("text", pa.string())])
    stage = bench.stage(Map(lambda r: (r["n"], str(r["n"]))), two)
    (batch,) = stage(batches([1, 2]))
    assert batch.to_pylist() == [{"n": 1, "text": "1"}, {"n": 2, "text": "2"}]


def test_a_column_that_is_left_out_is_null(bench: Bench) -> None:
    two = pa.schema([("n", pa.int64()), ("text", pa.string())])
    (batch,) = bench.stage(Map(lambda r: {"n": r["n"]}), two)(batches([1]))
    assert batch.to_pylist() == [{"n": 1, "text": None}]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"m": 1}, "KeyError: \"column ['m'] is not in the operator's schema ['n']\""),
        ((1, 2), "TypeError: expected a dictionary or a tuple of 1, got (1, 2)"),
        (None, "TypeError: expected a dictionary or a tuple of 1, got None"),
        (7, "TypeError: expected a dictionary or a tuple of 1, got 7"),
    ],
)
def test_a_result_of_the_wrong_shape_is_told_in_the_letter(
    bench: Bench, wrong: Any, error: str
) -> None:
    assert bench.run(Map(lambda r: wrong if r["n"] == 2 else r), [1, 2, 3]) == [1, 3]
    assert bench.letters() == [{"operator": "step", "error": error, "record": {"n": 2}}]


class Odd:
    """A value that fails in its own way when Arrow asks for it."""

    def __index__(self) -> int:
        raise LookupError("odd")


@pytest.mark.parametrize("wrong", ["text", 2**63, b"x", [1], Odd()])
def test_a_value_that_does_not_fit_the_schema_puts_only_its_record_aside(
    bench: Bench, wrong: Any
) -> None:
    body = Map(lambda r: {"n": wrong if r["n"] in (3, 6) else r["n"]})
    assert bench.run(body, [0, 1, 2, 3, 4, 5, 6]) == [0, 1, 2, 4, 5]
    assert bench.put_aside() == [3, 6]


def test_a_letter_holds_the_record_as_it_came(bench: Bench) -> None:
    def spoil(record: dict[str, Any]) -> dict[str, Any]:
        before = record["n"]
        record["n"] = "spoilt"
        if before == 2:
            raise ValueError
        if before != 3:
            record["n"] = before
        return record

    assert bench.run(Map(spoil), [1, 2, 3, 4]) == [1, 4]
    assert bench.put_aside() == [2, 3]

    def clear(record: dict[str, Any]) -> bool:
        record.clear()
        raise ValueError

    assert bench.run(Filter(clear), [8, 9], name="clear") == []
    assert bench.put_aside("clear") == [8, 9]


# --- Arrow --------------------------------------------------------------------------------------


def test_an_arrow_function_is_called_once_when_nothing_fails(bench: Bench) -> None:
    loaded = []

    def model(found: Batches) -> Batches:
        loaded.append("model")
        yield from found

    assert bench.run(Arrow(model), [1, 2], [3], [], [4]) == [1, 2, 3, 4]
    assert loaded == ["model"]


def test_an_arrow_function_fails_in_the_middle_and_nothing_else_is_lost(bench: Bench) -> None:
    body = Arrow(per_batch(hundredth))
    assert bench.run(body, [1, 2], [4, 0, 5, 10], [20, 25]) == [100, 50, 25, 20, 10, 5, 4]
    assert bench.put_aside() == [0]


def test_an_arrow_function_that_yields_before_it_fails_sends_nothing_twice(bench: Bench) -> None:
    def one_by_one(found: Batches) -> Batches:
        for batch in found:
            for n in batch["n"].to_pylist():
                yield pa.RecordBatch.from_pydict({"n": [100 // n]}, SCHEMA)

    assert bench.run(Arrow(one_by_one), [1, 2], [4, 5, 0, 10], [20]) == [100, 50, 25, 20, 10, 5]
    assert bench.put_aside() == [0]


def test_an_arrow_function_may_send_on_what_is_left_at_the_end(bench: Bench) -> None:
    def total(found: Batches) -> Batches:
        count = sum(batch.num_rows for batch in found)
        yield pa.RecordBatch.from_pydict({"n": [count]}, SCHEMA)

    assert bench.run(Arrow(total), [1, 2], [3]) == [3]
    assert bench.run(Arrow(total)) == [0]


def test_an_arrow_function_that_fails_without_a_record_names_the_operator(bench: Bench) -> None:
    def no_model(found: Batches) -> Batches:
        raise OSError("no model")

    def at_the_end(found: Batches) -> Batches:
        yield from found
        raise OSError("too late")

    def nothing(found: Batches) -> None:
        pass

    blame = r"operator 'step' \(flow.py:12\) failed, and no record can be blamed for it: "
    for function, error in (
        (no_model, "OSError: no model"),
        (at_the_end, "OSError: too late"),
        (nothing, "TypeError: 'NoneType' object is not iterable"),
    ):
        with pytest.raises(OperatorError, match=blame + error):
            bench.run(Arrow(function), [1], [2])
    assert bench.letters() == []


def test_what_an_arrow_function_yields_is_brought_into_the_schema(bench: Bench) -> None:
    def wider(found: Batches) -> Batches:
        for batch in found:
            yield pa.RecordBatch.from_arrays(
                [batch["n"].cast(pa.string()), batch["n"].cast(pa.int8())], names=["more", "n"]
            )

    (batch,) = bench.stage(Arrow(wider))(batches([1, 2]))
    assert batch.schema == SCHEMA
    assert batch["n"].to_pylist() == [1, 2]


def test_an_arrow_function_whose_output_has_the_wrong_columns_sends_letters(bench: Bench) -> None:
    def renamed(found: Batches) -> Batches:
        return (batch.rename_columns(["m"]) for batch in found)

    assert bench.run(Arrow(renamed), [1, 2, 3]) == []
    assert bench.put_aside() == [1, 2, 3]


def test_an_arrow_function_that_yields_something_else_sends_letters(bench: Bench) -> None:
    assert bench.run(Arrow(lambda found: (batch.to_pylist() for batch in found)), [1, 2]) == []
    assert {letter["error"] for letter in bench.letters()} == {
        "TypeError: an Arrow function yields record batches, got list"
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (Arrow(lambda found: (b.to_pandas() for b in found)), "makes a pandas DataFrame: an Arrow"),
        (Arrow(lambda found: iter([pa.Table.from_batches(found)])), "makes a pyarrow Table"),
        (Map(lambda record: pd.Series(record)), "makes a pandas Series: a record is a dictionary"),
        (FlatMap(lambda record: pd.DataFrame([record])), "makes a pandas DataFrame"),
        (FlatMap(lambda record: [pd.Series(record)]), "makes a pandas Series"),
    ],
)
def test_a_table_of_another_library_fails_the_operator_and_not_its_records(
    bench: Bench, body: Any, said: str
) -> None:
    with pytest.raises(OperatorError) as failure:
        bench.run(body, [1, 2], [3])
    assert str(failure.value).startswith("[penstock] operator 'step' (flow.py:12) ")
    assert said in str(failure.value)
    assert bench.letters() == []


# --- several stages -----------------------------------------------------------------------------


def test_stages_run_one_after_the_other_and_keep_their_own_letters(bench: Bench) -> None:
    stages = RecordSteps(
        (
            bench.stage(Map(inverse), name="first"),
            bench.stage(Arrow(per_batch(lambda n: hundredth(n - 50))), name="second"),
            bench.stage(Filter(lambda r: r["n"] > 0), name="third"),
        )
    )
    found = column(stages(batches([1, 0, 2], [50, 0], [1])))
    assert found == [2, 2]
    assert bench.put_aside("first") == [0, 0]
    assert bench.put_aside("second") == [50]
    assert bench.put_aside("third") == []


@pytest.mark.parametrize("caught", [False, True])
def test_the_failure_of_a_stage_is_not_taken_for_one_of_the_next(
    bench: Bench, caught: bool
) -> None:
    def patient(found: Batches) -> Batches:
        try:
            yield from found
        except Exception:
            if not caught:
                raise

    first = bench.stage(Map(inverse), fails=True, name="first")
    second = bench.stage(Arrow(patient), name="second")
    with pytest.raises(OperatorError, match="operator 'first'"):
        list(RecordSteps((first, second))(batches([1], [2, 0], [3])))
    assert bench.letters("second") == []


def test_stages_travel_to_another_process(bench: Bench) -> None:
    stages = RecordSteps((bench.stage(Map(lambda r: {"n": -r["n"]})), bench.stage(Filter(bool))))
    shipped = cloudpickle.loads(cloudpickle.dumps(stages))
    assert column(shipped(batches([1, 2]))) == [-1, -2]


# --- whatever is bad ----------------------------------------------------------------------------

BAD = st.sets(st.integers(0, 40))
SIZES = st.lists(st.integers(0, 12), max_size=4)
FORM = st.sampled_from(("map", "flat-map", "filter", "arrow", "vectors"))


@few
@given(bad=BAD, wrong=BAD, sizes=SIZES, form=FORM)
def test_output_and_letters_together_are_the_input(
    bad: set[int], wrong: set[int], sizes: list[int], form: str
) -> None:
    def checked(n: int) -> Any:
        if n in bad:
            raise ValueError(f"{n} is bad")
        return "wrong" if n in wrong and form != "filter" else n

    def vectors(found: Batches) -> Batches:
        for batch in found:
            if bad.intersection(batch["n"].to_pylist()):
                raise ValueError("somewhere in this batch")
            wrongs = pc.is_in(batch["n"], value_set=pa.array(sorted(wrong), pa.int64()))
            text = pc.if_else(wrongs, "wrong", batch["n"].cast(pa.string()))
            yield pa.RecordBatch.from_arrays([text], names=["n"])

    bodies: dict[str, Any] = {
        "map": Map(lambda r: {"n": checked(r["n"])}),
        "flat-map": FlatMap(lambda r: [(checked(r["n"]),)]),
        "filter": Filter(lambda r: checked(r["n"]) >= 0),
        "arrow": Arrow(per_batch(checked)),
        "vectors": Arrow(vectors),
    }
    parts, at = [], 0
    for size in sizes:
        parts.append(range(at, at + size))
        at += size
    lost = bad if form == "filter" else bad | wrong
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        assert bench.run(bodies[form], *map(list, parts)) == [n for n in range(at) if n not in lost]
        # within a batch, records that fail are seen before those whose results do not fit
        assert sorted(bench.put_aside()) == [n for n in range(at) if n in lost]
