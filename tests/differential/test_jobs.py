"""Real jobs give on Penstock what Spark's batch mode gives, however they are cut and changed.

`make test` runs some of the jobs once; `make differential SEEDS="1 2 3"` all of them, in every
cut for each seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.differential.jobs import EVERY_TIME, JOBS
from tests.differential.jobs.job import Job
from tests.differential.runner import CUTS, Course

pytestmark = pytest.mark.spark

SEEDS = os.environ.get("PENSTOCK_DIFFERENTIAL_SEEDS", "")


def _cases() -> Iterator[Any]:
    """Every cut for each seed; without seeds, one cut for each job of `EVERY_TIME`."""
    if SEEDS:
        courses = [Course(cut, 3, int(seed)) for seed in SEEDS.split() for cut in CUTS]
        chosen = [(job, course) for job in JOBS for course in courses]
    else:
        chosen = [
            (job, Course(CUTS[number % 3], changes=number % 2, seed=number))
            for number, job in enumerate(EVERY_TIME)
        ]
    for job, course in chosen:
        yield pytest.param(job, course, id=f"{job.name}: {course}")


@pytest.mark.parametrize(("job", "course"), [*_cases()])
def test_a_job_gives_what_batch_mode_gives(
    spark: Any, tmp_path: Path, job: Job, course: Course
) -> None:
    job.check(spark, tmp_path, course)
