"""The story of a run: read from its directory whatever became of the run, told in words."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from penstock.app import run
from penstock.control.guard import Guard
from penstock.control.summary import LatencySummary
from penstock.dataflow.connectors import Discard, Generator
from penstock.dataflow.flow import Dataflow
from penstock.errors import InvalidInput, RunDirectoryError
from penstock.plan.decision import Decision
from penstock.policies.base.policy import Context
from penstock.report import document, prose
from penstock.report.choices import Choice, merged
from penstock.report.curves import curves
from penstock.report.page import page
from penstock.report.story import Story, story
from penstock.store import history, mailbox
from penstock.testing import MemoryEngine, fake_clock

from ..control.doubles import flow, running


def play(home: Path, seconds: float = 60, dataflow: Dataflow | None = None, **more: object) -> None:
    engine = MemoryEngine()
    clock = fake_clock(engine)
    given = {"changes": ["20s:double=4", "40s:double=2"], "policy": "static", **more}
    run(dataflow or flow(), engine=engine, seconds=seconds, run_dir=home, clock=clock, **given)  # type: ignore[arg-type]


@pytest.fixture
def told(tmp_path: Path) -> Story:
    play(tmp_path / "run")
    return story(tmp_path / "run")


def whole(found: Story) -> str:
    return " ".join(
        [*prose.happened(found), *prose.cost(found), *prose.gain(found), *prose.warnings(found)]
    )


class _Checker(HTMLParser):
    """Elements are closed in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href")
        ]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(found: Story) -> str:
    """The page, which must be well formed and need nothing from elsewhere."""
    written = page(found, 1.7e9)
    checker = _Checker()
    checker.feed(written)
    assert checker.open == []
    assert checker.links == []
    assert not checker.seen & {"script", "link", "iframe", "img", "object", "base", "form"}
    assert "http://" not in written
    assert "https://" not in written
    assert "url(" not in written
    assert "@import" not in written
    return written


# --- what is read -------------------------------------------------------------------------------


def test_a_finished_run(told: Story) -> None:
    assert (told.state, told.engine, told.policy) == ("finished", "memory", "static")
    assert told.seconds == pytest.approx(60, abs=0.5)
    assert [one.plan.slots for one in told.points][:: len(told.points) - 1] == [1, 2]
    assert [m.transition.changes for m in told.changes] == [
        ("numbers: parallelism 1 -> 4",),
        ("numbers: parallelism 4 -> 2",),
    ]
    assert [round(m.x) for m in told.changes] == [20, 40]
    first = told.changes[0]
    assert first.before is not None
    assert first.after is not None
    assert (first.before.instances, first.after.instances) == (1, 4)
    assert first.after.sustained == pytest.approx(1000, rel=0.05)


def test_slot_seconds_against_a_plan_of_the_peak(told: Story) -> None:
    assert told.slot_seconds == pytest.approx(20 + 20 * 4 + 20 * 2, abs=4)
    assert told.static_slot_seconds == pytest.approx(4 * told.seconds)
    assert told.slot_seconds == pytest.approx(told.outcome["slot_seconds"], rel=0.02)
    assert "It had 1 to 4 instances." in whole(told)
    assert "the run used 42 % less" in whole(told)


def test_decisions_that_say_the_same_are_one_and_are_all_counted(told: Story) -> None:
    assert [c.kind for c in told.choices] == ["kept", "changed", "kept", "changed", "kept"]
    asked = [*history.decisions(told.run_dir)]
    assert sum(c.times for c in told.choices) == len(asked)
    assert f"Of {len(asked)} decisions, {len(asked) - 2} left everything as it was and" in whole(
        told
    )


def test_what_changes_cost_is_summed_up(told: Story) -> None:
    assert "2 changes took" in whole(told)
    assert "nothing was replayed" in whole(told)


def test_a_run_without_changes_and_without_a_constraint(tmp_path: Path) -> None:
    made = Dataflow("plain")
    source = Generator(lambda rng, index, at: {"n": index}, "n bigint", "100/s")
    made.source("numbers", source).sink("out", Discard())
    play(tmp_path, 10, made, changes=())
    found = story(tmp_path)
    said = whole(found)
    assert "No latency was asked for." in said
    assert "The plan was never changed" in said
    assert "It had 1 instance all the time." in said
    assert [panel.y for panel in curves(found).panels] == ["rows/s", "instances", "rows"]
    checked(found)


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    with running(tmp_path / "run", MemoryEngine()):
        found = story(tmp_path / "run")
        assert found.state == "running"
        assert "The run goes on" in whole(found)
        checked(found)


def test_a_run_that_was_killed(tmp_path: Path) -> None:
    play(tmp_path)
    (tmp_path / "summary.json").unlink()
    found = story(tmp_path)
    assert found.state == "unfinished"
    assert "did not come to its end" in whole(found)
    assert found.latency == story(tmp_path).latency
    checked(found)


def test_a_run_that_was_killed_before_anything_was_measured(tmp_path: Path) -> None:
    history.keep_dataflow(tmp_path, flow().graph)
    found = story(tmp_path)
    assert (found.state, found.points, found.last) == ("unfinished", (), None)
    assert "Nothing was measured" in whole(found)
    checked(found)
    assert document.write(found).page.exists()


def test_a_run_that_was_continued_goes_on_where_it_ended(tmp_path: Path) -> None:
    play(tmp_path, 30, changes=())
    play(tmp_path, 20, changes=())
    found = story(tmp_path)
    assert found.seconds == pytest.approx(50, abs=1)
    assert [round(x) for x in found.resumed] == [31]
    xs = [p.x for p in found.points]
    assert xs == sorted(xs)
    assert len(found.terms) == 2
    assert "stopped and continued once" in whole(found)
    assert found.slot_seconds == pytest.approx(50, abs=1)
    checked(found)


def test_a_summary_of_a_run_before_is_not_that_of_the_last(tmp_path: Path) -> None:
    play(tmp_path, 30, changes=())
    before = (tmp_path / "summary.json").read_text()
    play(tmp_path, 10, changes=())
    assert story(tmp_path).state == "finished"
    (tmp_path / "summary.json").write_text(before)
    assert story(tmp_path).state == "unfinished"


def test_files_that_are_broken_are_as_if_not_there(tmp_path: Path) -> None:
    play(tmp_path)
    for name in ("summary.json", "exactness.json", "asked.jsonl"):
        (tmp_path / name).write_text("{")
    found = story(tmp_path)
    assert (found.state, found.terms) == ("unfinished", ())
    assert "What was asked for is not known" in whole(found)


def test_a_long_history_is_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.report.story.MOST", 20)
    play(tmp_path)
    found = story(tmp_path)
    assert 10 <= len(found.points) <= 21
    assert len(found.changes) == 2
    assert found.slot_seconds == pytest.approx(140, rel=0.15)


def test_a_wrong_directory_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="there is no run directory"):
        story(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="is a file"):
        story(tmp_path / "file")
    with pytest.raises(RunDirectoryError, match="holds no run that can be read"):
        story(tmp_path)
    head = {"version": 0, "flow": "x", "fingerprint": "", "engine": "", "run": "", "created": 1}
    (tmp_path / "run.json").write_text(json.dumps(head))
    with pytest.raises(RunDirectoryError, match="written in layout 0"):
        story(tmp_path)


# --- what is said -------------------------------------------------------------------------------


class Wrong:
    """Wants what the guard holds back, then fails."""

    name = "wrong"

    def decide(self, context: Context, memory: object) -> tuple[Decision, object]:
        if context.now > 12:
            raise ValueError("out of ideas")
        plan = context.plan.with_pipeline("numbers", parallelism=context.plan.slots % 2 + 1)
        return Decision(plan, f"busy {context.now:.2f} > 0.80", {"busy": context.now}), memory


def test_vetoes_and_errors_are_told_with_their_reasons(tmp_path: Path) -> None:
    play(tmp_path, 20, changes=(), policy=Wrong(), guard=Guard(cooldown=5))
    found = story(tmp_path)
    kinds = {c.kind for c in found.choices}
    assert kinds == {"changed", "vetoed", "error"}
    vetoed = next(c for c in found.choices if c.kind == "vetoed")
    assert vetoed.times > 1
    assert vetoed.against.startswith("cool-down: ")
    assert "The policy failed" in whole(found)
    written = checked(found)
    assert "out of ideas" in written
    assert "cool-down" in written


def test_a_bound_that_was_missed_and_dead_letters_are_warned_of(told: Story) -> None:
    last = told.points[-1]
    dead = replace(last, snapshot=replace(last.snapshot, rows_dead=1234))
    missed = {"numbers->double": LatencySummary(1.0, 2.0, 1.9, 3.0, 4.0, 0.25)}
    found = replace(told, points=(*told.points[:-1], dead), latency=missed)
    assert "numbers to double: the bound of 1.00 s was missed in 75 % of the windows." in whole(
        found
    )
    assert "1,234 rows became dead letters" in whole(found)
    assert 'class="bad"' in checked(found)


@pytest.mark.parametrize(
    ("exact", "words"),
    [
        (True, "hold exactly what the input says"),
        (False, "do not hold what the input says: 3 rows too few"),
        (None, "was not checked: 3 rows too few"),
    ],
)
def test_whether_the_result_is_exact(told: Story, exact: bool | None, words: str) -> None:
    reason = {"reason": "3 rows too few"}
    assert words in whole(replace(told, outcome={"exact": exact}, exactness=reason))


def test_shares_are_not_rounded_to_what_they_are_not() -> None:
    shares = (0.0, 0.004, 0.5, 0.995, 0.99999, 1.0, None)
    shown = ["0 %", "less than 1 %", "50 %", "99.5 %", "99.99 %", "100 %", "-"]
    assert [prose._percent(share) for share in shares] == shown


# --- the page -----------------------------------------------------------------------------------


def test_the_page_has_all_parts(told: Story) -> None:
    written = checked(told)
    for title in ("What was asked", "What happened", "Decisions", "Changes, what", "Warnings"):
        assert f"<h2>{title}" in written
    assert "numbers: parallelism 1 -&gt; 4" in written
    assert "100/s" in written
    assert written.count("<svg") == 3
    assert "prefers-color-scheme:dark" in written
    assert "@media print" in written


def test_nothing_in_a_name_or_a_reason_becomes_markup(tmp_path: Path) -> None:
    evil = "\"><script>alert(1)</script><b a='"

    class Evil:
        name = evil

        def decide(self, context: Context, memory: object) -> tuple[Decision, object]:
            more = context.plan.with_pipeline("numbers", parallelism=context.plan.slots % 3 + 1)
            return Decision(more, evil + "\x1b[31m", {evil: 1.0}), memory

    play(tmp_path, 30, changes=(), policy=Evil())
    written = (tmp_path / history.DATAFLOW).read_text()  # names are checked, files are not
    names = written.replace('"double"', json.dumps(evil)).replace('"out"', '"out\\u001b[0m"')
    (tmp_path / history.DATAFLOW).write_text(names)
    found = story(tmp_path)
    assert found.changes
    assert evil in found.graph
    shown = checked(found)
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert "&lt;script&gt;alert(1)" in shown


def test_more_rows_than_a_page_can_hold_are_counted(
    told: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.report.page.MOST", 2)
    assert "and 1 more, which are in the history." in checked(told)


def test_the_report_is_a_page_with_pictures_beside_it(told: Story, tmp_path: Path) -> None:
    written = document.write(told, tmp_path / "mine.html", 1.7e9)
    assert written.page.read_text() == page(told, 1.7e9)
    assert [p.name for p in written.pictures] == ["mine-dataflow.png", "mine-course.png"]
    assert all(p.read_bytes()[:4] == b"\x89PNG" for p in written.pictures)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "mine-course.png",
        "mine-dataflow.png",
        "mine.html",
    ]
    assert document.write(told).page == told.run_dir / "report.html"


def test_the_page_does_without_matplotlib(told: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    written = document.write(told)
    assert written.page.exists()
    assert written.pictures == ()
    assert "pip install" in written.missing


def test_where_no_report_can_be_written(told: Story, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a directory"):
        document.write(told, tmp_path)
    with pytest.raises(InvalidInput, match="No such file"):
        document.write(told, tmp_path / "nowhere" / "x.html")


def test_reading_disturbs_nothing(told: Story) -> None:
    before = {p: p.read_bytes() for p in told.run_dir.rglob("*") if p.is_file()}
    story(told.run_dir)
    assert {p: p.read_bytes() for p in told.run_dir.rglob("*") if p.is_file()} == before
    assert not mailbox.is_running(told.run_dir)


def test_decisions_that_differ_in_their_numbers_only_are_merged_once_others_are_left_out() -> None:
    def one(x: float, kind: str, reason: str, against: str = "") -> Choice:
        return Choice(x, x, 1, kind, reason, {"busy": x}, against)

    told = [
        one(1, "vetoed", "busy 0.91 > 0.80", "cool-down: 4.0 s"),
        one(2, "vetoed", "busy 0.93 > 0.80", "cool-down: 3.0 s"),
        one(3, "vetoed", "busy 0.93 > 0.80", "undo: 3.0 s"),
        one(4, "changed", "busy 0.93 > 0.80"),
        one(5, "changed", "busy 0.94 > 0.80"),
    ]
    found = [(c.x, c.until, c.times, c.numbers["busy"]) for c in merged(told)]
    assert found == [(1, 2, 2, 2), (3, 3, 1, 3), (4, 4, 1, 4), (5, 5, 1, 5)]
