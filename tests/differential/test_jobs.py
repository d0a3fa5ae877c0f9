"""Real jobs give on Penstock what Spark's batch mode gives, however they are cut and changed.

`make test` runs each job once; `make differential SEEDS="1 2 3"` in every cut for each seed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.differential.jobs import JOBS
from tests.differential.jobs.job import Job
from tests.differential.runner import CUTS, Course

pytestmark = pytest.mark.spark

SEEDS = os.environ.get("PENSTOCK_DIFFERENTIAL_SEEDS", "")


def _courses(job: Job) -> list[Course]:
    if SEEDS:
        return [Course(cut, changes=3, seed=int(seed)) for seed in SEEDS.split() for cut in CUTS]
    number = JOBS.index(job)
    return [Course(CUTS[number % len(CUTS)], changes=number % 2, seed=number)]


CASES = [
    pytest.param(job, course, id=f"{job.name}: {course}")
    for job in JOBS
    for course in _courses(job)
]


@pytest.mark.parametrize(("job", "course"), CASES)
def test_a_job_gives_what_batch_mode_gives(
    spark: Any, tmp_path: Path, job: Job, course: Course
) -> None:
    job.check(spark, tmp_path, course)
