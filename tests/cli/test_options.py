from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli import options
from penstock.errors import PenstockError
from penstock.plan.plan import Pipeline, Plan

PLAN = Plan((Pipeline(("a", "b"), 2), Pipeline(("c",), 1, cadence=0.5)), executors=2)


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(PLAN.to_json()))
    assert options.read_plan(str(file)) == PLAN


def test_what_explain_prints_will_do(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"flow": "x", "plan": PLAN.to_json()}))
    assert options.read_plan(str(file)) == PLAN


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"{", "is not JSON: .* in line 1"),
        (b"\xff\xfe\x00", "is not text"),
        (b"[]", "a plan is written as"),
        (b'{"pipelines": [{"operators": ["a"], "parallelism": 0}]}', "parallelism 0 is below 1"),
        (b'{"pipelines": [{"operators": ["a"], "speed": 9}]}', "a pipeline is written as"),
        (b'{"pipelines": [{"operators": ["a"], "parallelism": "x"}]}', "is a whole number"),
        (b'{"pipelines": 7}', "a plan is written as"),
    ],
)
def test_a_bad_plan_file_is_told_in_one_line(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PenstockError, match=said) as caught:
        options.read_plan(str(file))
    assert "plan.json" in str(caught.value)
    assert "\n" not in str(caught.value)
