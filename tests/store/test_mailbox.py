from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.clock import Clock
from penstock.errors import InvalidInput, PenstockError, Refused, RunDirectoryError
from penstock.plan.decision import Decision
from penstock.plan.plan import Plan
from penstock.plan.request import Pause, Scale
from penstock.plan.transition import Transition
from penstock.policies.base.policy import Context
from penstock.policies.stela.policy import Stela
from penstock.store.history import decisions
from penstock.store.mailbox import Mailbox, Reply, ask
from penstock.store.turn import Tick, UserRequest
from penstock.testing import MemoryEngine
from tests.control.doubles import SlowEngine, flow, running


@pytest.fixture
def asker() -> Iterator[Callable[..., Future[Reply]]]:
    """Ask from another thread."""
    with ThreadPoolExecutor() as pool:
        yield lambda *given: pool.submit(ask, *given)


def left(run_dir: Path) -> list[str]:
    return sorted(p.name for p in (run_dir / "requests").iterdir())


def wait_for(mailbox: Mailbox, number: int = 1) -> None:
    pause = threading.Event()
    for _ in range(2000):
        if len(mailbox._waiting()) >= number:
            return
        pause.wait(0.005)
    raise AssertionError("nobody asks")


def ticked(tmp_path: Path, **outcome: Any) -> Tick:
    engine = MemoryEngine()
    engine.start(flow().graph, None, tmp_path / "engine")
    return Tick(1.0, engine.plan, engine.observe(), **outcome)


DONE = Transition(1.0, ("numbers: parallelism 1 -> 4",), 0.012, 0.0004, "asked: double=4")


# --- a flow that runs ---------------------------------------------------------------------------


def test_a_running_flow_changes_and_says_what_it_cost(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with running(tmp_path, engine):
        answer = ask(tmp_path, "double=4")
        assert engine.plan.pipeline_of("double").parallelism == 4
        assert answer.message == "numbers: parallelism 1 -> 4 (0.00 s, interrupted 0 ms)"
        assert answer.transition is not None
        assert answer.transition["reason"] == "asked: double=4"
        assert ask(tmp_path, "double=4") == Reply(True, "nothing to change: it is so already")
        assert ask(tmp_path, "split double, pause").transition is not None
        assert [p.admission for p in engine.plan.pipelines] == [0, None]
        assert ask(tmp_path, "resume").done
    assert left(tmp_path) == ["lock"]


def test_what_is_impossible_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    class Stubborn(MemoryEngine):
        def apply(self, plan: Plan, reason: str = "") -> Transition:
            if plan.executors > 1:
                raise Refused("this engine has one executor")
            return super().apply(plan, reason)

    engine = Stubborn()
    with running(tmp_path, engine):
        before = engine.plan
        for request, why in (
            ("dubble=2", "'dubble' is no operator of 'numbers'; did you mean 'double'"),
            ("double=0", "allows 1 or more"),
            ("split numbers", "nothing to split"),
            ("double=3, executors=2", "this engine has one executor"),
        ):
            with pytest.raises(Refused, match=why):
                ask(tmp_path, request)
        assert engine.plan == before
    refusals = [d["refused"] for d in decisions(tmp_path) if d["refused"]]
    assert len(refusals) == 4


def test_what_changes_no_plan_says_what_it_did_and_what_cannot_be_done_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scale_out(self: Stela, context: Context, executors: int) -> Decision:
        return Decision(None, f"nothing is congested, {executors} more would gain nothing")

    monkeypatch.setattr(Stela, "scale_out", scale_out)
    with running(tmp_path, MemoryEngine()):
        assert ask(tmp_path, "policy off").message == "the policy of this run is now: off"
        assert ask(tmp_path, "policy advise, double=4").message.startswith("numbers: parallelism")
        for request in ("scale-out 3", "double=2, scale-out 3"):
            with pytest.raises(Refused) as refused:
                ask(tmp_path, request)
            assert str(refused.value) == "nothing is congested, 3 more would gain nothing"
        assert ask(tmp_path, "double=4").message == "nothing to change: it is so already"


def test_a_second_change_while_one_is_under_way_is_refused(
    tmp_path: Path, asker: Callable[..., Future[Reply]]
) -> None:
    engine = SlowEngine()
    with running(tmp_path, engine):
        first = asker(tmp_path, "double=4")
        assert engine.changing.wait(timeout=20)
        second = asker(tmp_path, "double=8")
        while not any(name.endswith(".json") for name in left(tmp_path)):
            threading.Event().wait(0.005)
        engine.may_end.set()
        assert first.result(20).done
        with pytest.raises(Refused, match="another change was under way; nothing was changed"):
            second.result(20)
        assert engine.plan.pipeline_of("double").parallelism == 4
        assert ask(tmp_path, "double=8").done


# --- the side that answers ----------------------------------------------------------------------


def test_two_who_ask_at_once_are_served_one_after_the_other(
    tmp_path: Path, asker: Callable[..., Future[Reply]]
) -> None:
    with closing(Mailbox(tmp_path)) as mailbox:
        first = asker(tmp_path, "double=4")
        wait_for(mailbox)
        second = asker(tmp_path, "pause")
        wait_for(mailbox, 2)
        assert mailbox.take() == UserRequest("asked", Scale("double", 4))
        mailbox.settle(ticked(tmp_path, transition=DONE))
        message = "numbers: parallelism 1 -> 4 (0.01 s, interrupted 0 ms)"
        assert first.result(20) == Reply(True, message, DONE.to_json())
        assert mailbox.take() == UserRequest("asked", Pause())
        mailbox.settle(ticked(tmp_path))
        assert second.result(20).transition is None
        assert mailbox.take() is None


def test_whoever_comes_during_a_change_of_the_policys_is_refused_too(
    tmp_path: Path, asker: Callable[..., Future[Reply]]
) -> None:
    with closing(Mailbox(tmp_path)) as mailbox:
        assert mailbox.take() is None
        came = asker(tmp_path, "double=4")
        wait_for(mailbox)
        mailbox.settle(ticked(tmp_path))  # a turn without a change sends nobody away
        assert mailbox.waiting()
        mailbox.settle(ticked(tmp_path, transition=DONE))
        with pytest.raises(Refused, match="another change was under way"):
            came.result(20)


def test_what_was_asked_of_an_earlier_run_is_not_done_in_this_one(tmp_path: Path) -> None:
    folder = tmp_path / "requests"
    folder.mkdir()
    for name in ("1.json", "2.taken", "3.answer.json"):
        (folder / name).write_text('{"request": "double=4"}')
    with closing(Mailbox(tmp_path)) as mailbox:
        assert mailbox.take() is None
        assert left(tmp_path) == ["1.answer.json", "lock"]
        assert (
            "before this run began" in json.loads((folder / "1.answer.json").read_text())["message"]
        )


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"request": "faster"}', '{"request": 3}'])
def test_a_file_that_is_no_request_is_answered_and_the_next_one_served(
    tmp_path: Path, text: str
) -> None:
    with closing(Mailbox(tmp_path)) as mailbox:
        (tmp_path / "requests" / "1.json").write_text(text)
        (tmp_path / "requests" / "2.json").write_text('{"request": "double=4"}')
        assert mailbox.take() == UserRequest("asked", Scale("double", 4))
        answer = json.loads((tmp_path / "requests" / "1.answer.json").read_text())
        assert (answer["done"], answer["transition"]) == (False, None)


def test_nobody_waits_in_a_directory_that_was_removed(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    (tmp_path / "requests" / "lock").unlink()
    (tmp_path / "requests").rmdir()
    assert not mailbox.waiting()
    assert mailbox.take() is None
    mailbox.close()
    mailbox.close()


def test_only_one_process_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.store.mailbox._POLL", 0.001)
    with closing(Mailbox(tmp_path)), pytest.raises(RunDirectoryError, match="another process"):
        Mailbox(tmp_path)


# --- the side that asks -------------------------------------------------------------------------


def test_where_nothing_runs_nothing_is_asked(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"there is no run directory '.*gone'"):
        ask(tmp_path / "gone", "pause")
    with pytest.raises(Refused, match=f"nothing is running in {tmp_path}"):
        ask(tmp_path, "pause")
    assert list(tmp_path.iterdir()) == []
    Mailbox(tmp_path).close()
    with pytest.raises(Refused, match=f"nothing is running in {tmp_path}"):
        ask(tmp_path, "pause")
    assert left(tmp_path) == ["lock"]


def test_what_cannot_be_read_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read the request 'faster'"):
        ask(tmp_path, "faster")


def test_a_request_that_nobody_takes_in_time_is_withdrawn(tmp_path: Path) -> None:
    with closing(Mailbox(tmp_path)) as mailbox:
        with pytest.raises(Refused, match=r"within 0.05 s; nothing was changed"):
            ask(tmp_path, "pause", 0.05)
        assert not mailbox.waiting()


def test_a_change_that_takes_too_long_is_not_called_refused(tmp_path: Path) -> None:
    with closing(Mailbox(tmp_path)) as mailbox:
        clock = Clock(sleep=lambda seconds: mailbox.take() and None)
        with pytest.raises(PenstockError, match="the change had begun") as told:
            ask(tmp_path, "pause", 0.05, clock)
        assert not isinstance(told.value, Refused)


def test_a_run_that_dies_leaves_nobody_waiting(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    clock = Clock(sleep=lambda seconds: mailbox._lock.close())
    with pytest.raises(Refused, match=f"nothing is running in {tmp_path} any more; nothing was"):
        ask(tmp_path, "pause", clock=clock)


def test_a_run_that_ends_sends_everybody_away(tmp_path: Path) -> None:
    for taken, why in ((False, "the flow has ended"), (True, "may or may not be in force")):
        mailbox = Mailbox(tmp_path)

        def end(seconds: float, mailbox: Mailbox = mailbox, taken: bool = taken) -> None:
            if taken:
                mailbox.take()
            mailbox.close()

        with pytest.raises(Refused, match=why):
            ask(tmp_path, "pause", clock=Clock(sleep=end))
        assert left(tmp_path) == ["lock"]
