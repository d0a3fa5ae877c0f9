"""Random queries give on Penstock what Spark's batch mode gives, however they are cut and changed.

`make test` tries the same few each time; `make differential EXAMPLES=50` tries others, so many for
each thing that a query may end with.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.differential import queries as q
from tests.differential.compare import difference, last_by_key
from tests.differential.data import tables_of
from tests.differential.interpret_batch import batch
from tests.differential.interpret_flow import flow
from tests.differential.jobs.job import session
from tests.differential.runner import CUTS, Course, play
from tests.differential.strategies import ENDINGS, any_query
from tests.strategies import few

EXAMPLES = int(os.environ.get("PENSTOCK_DIFFERENTIAL_EXAMPLES", "2"))
COURSES = st.builds(Course, st.sampled_from(CUTS), st.integers(0, 2), st.integers(0, 999))


@given(any_query())
@few
def test_every_random_query_is_a_valid_dataflow(query: q.Query) -> None:
    flow(query, Path("nowhere")).validate()
    assert tables_of(query)["one"].parts


@pytest.mark.spark
@pytest.mark.parametrize("ending", ENDINGS)
@given(st.data(), COURSES)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_a_random_query_gives_what_batch_mode_gives(
    spark: Any, tmp_path: Path, ending: str, data: st.DataObject, course: Course
) -> None:
    query = data.draw(any_query((ending,)), "query")
    note(f"{query}\n{course}")
    folder = tmp_path / "one"
    shutil.rmtree(folder, ignore_errors=True)  # of the example before this one
    user = session(spark, query.zone)
    tables = tables_of(query)
    frames = {
        name: table.frame(user, folder / "reference" / name, flush=True)
        for name, table in tables.items()
    }
    expected = batch(query, frames).collect()
    outcome = play(flow(query, folder), tables, folder, user, course)
    found = outcome.rows()
    if query.keys:
        found = last_by_key(found, query.keys)
    assert outcome.dead == 0
    assert not (text := difference(expected, found)), text
