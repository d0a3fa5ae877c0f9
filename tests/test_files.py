from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.files import draft_of, replacing, write_json, write_text


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_as_a_whole(durable: bool, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_json(path, {"a": 1}, durable=durable)
    write_json(path, {"a": 2}, durable=durable)
    assert json.loads(path.read_text()) == {"a": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["plan.json"]


def test_an_error_leaves_the_old_content_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_text(path, "old")

    def fail() -> None:
        with replacing(path) as draft:
            draft.write_text("half of the n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert not draft_of(path).exists()


def test_what_is_not_json_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, object())
    assert path.read_text() == "1\n"


def test_a_reader_finds_the_old_content_while_the_new_is_written(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_text(path, "old")
    with replacing(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
