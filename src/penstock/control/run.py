"""One run of a dataflow and its phases: start, control loop, drain, summary."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock import files
from penstock import log as logs
from penstock.clock import Clock
from penstock.control import resume, run_input
from penstock.control.interrupts import Interrupts
from penstock.control.loop import ControlSettings, control, take_events
from penstock.control.requests import Script
from penstock.control.status import Status, View
from penstock.control.summary import DeadLetters, RunTotals, Summary
from penstock.dataflow import duration
from penstock.dataflow.delivery import deliveries
from penstock.dataflow.graph import Graph
from penstock.engines.abilities import Evidence, LatencyTotals, OwnTime, Transitions
from penstock.engines.port import Engine
from penstock.metrics.events import Event, EventKind
from penstock.metrics.snapshot import Snapshot
from penstock.plan.plan import Plan
from penstock.plan.request import Mode
from penstock.policies.base.policy import Policy
from penstock.store import run_options
from penstock.store.history import History, keep_dataflow
from penstock.store.mailbox import Mailbox
from penstock.store.run_options import RunOptions
from penstock.store.turn import Tick, UserRequest
from penstock.verify.exactness import Verdict
from penstock.verify.exactness import verify as verify_rows

log = logging.getLogger(__name__)

_TURN = 1.0
"""Seconds from one turn of the loop to the next."""

_SLICE = 0.1
"""Seconds for which a Ctrl-C may go unnoticed."""


@dataclass(frozen=True)
class RunSetup:
    """Everything that a run needs; see `penstock.run` for the meaning of the options.

    fresh: the run directory was made for this run; tell: is called if the history cannot be
    written (None: the views show it).
    """

    graph: Graph
    policy: Policy
    plan: Plan | None
    engine: Engine
    run_dir: Path
    options: RunOptions
    clock: Clock
    settings: ControlSettings
    script: Script
    views: tuple[View, ...] = ()
    seconds: float | None = None
    until: Callable[[Tick], bool] | None = None
    verify: bool = True
    drain: bool = True
    dead_letters_at_most: float = 0.1
    fresh: bool = False
    tell: Callable[[str], None] | None = None


class Run:
    """One run and its phases."""

    def __init__(self, setup: RunSetup) -> None:
        self.setup = setup
        self.engine, self.graph, self.run_dir = setup.engine, setup.graph, setup.run_dir
        self.totals = RunTotals(setup.graph.constraints)
        self.interrupts = Interrupts()
        self.rows_to_come = run_input.rows_to_come(setup.graph)
        self.began = setup.clock.now()
        self.due = 0.0
        self.rows_before = self.dead_before = 0
        self.engine_at = 0.0
        self.last: Tick | None = None
        self.trouble: str | None = None

    def execute(self) -> Summary:
        """Run from the start of the engine to the summary."""
        try:
            with logs.buffered() as buffer:
                self.start()
                buffer.open(self.run_dir / logs.FILE)
                try:
                    return self.phases()
                except BaseException as error:
                    log.error("the run ended with %s: %s", type(error).__name__, error)
                    raise
        finally:
            for view in self.setup.views:
                view.close()

    # --- the phases -----------------------------------------------------------------------------

    def start(self) -> None:
        self.show("starting")
        try:
            self.engine.start(self.graph, self.setup.plan, self.run_dir)
        except BaseException:
            with suppress(Exception):
                self.engine.stop(drain=False)
            if self.setup.fresh:  # remove a directory that nobody asked for, if it is empty
                with suppress(OSError):
                    self.run_dir.rmdir()
            raise
        self.began = self.setup.clock.now()
        first = self.engine.observe()
        self.rows_before, self.dead_before = first.rows_ingested, first.rows_dead
        self.engine_at = first.at

    def phases(self) -> Summary:
        # Spark's session installs a signal handler of its own, so ours comes after the start.
        with self.interrupts:
            history = History(self.run_dir, self.setup.clock.wall, self.setup.tell or self.note)
            with suppress(OSError):  # then the history has reported that it cannot be written
                keep_dataflow(self.run_dir, self.graph)
                run_options.append(self.run_dir, self.setup.options)
            kind = EventKind.RESUME if history.resumed else EventKind.START
            who = f"{self.engine.name}, policy {self.setup.policy.name}{self.hint}"
            self.report(history, kind, who)
            try:
                self.steer(history)
                if self.setup.drain:
                    self.report(history, EventKind.DRAIN, self.why_over())
                    self.drain(history)
                else:
                    self.show("stopping")
                    self.engine.stop(drain=False)
            except BaseException as error:
                self.report(history, EventKind.FAILED, f"{type(error).__name__}: {error}")
                with suppress(Exception):  # the first error is the one to raise
                    self.engine.stop(drain=False)
                raise
            else:
                drained = "drained" if self.setup.drain else f"{self.why_over()}; not drained"
                self.report(history, EventKind.STOP, drained)
            finally:
                history.close()
            ended = self.now()
            if self.interrupts.at_once:
                raise KeyboardInterrupt(
                    f"stopped at once; what was in flight is kept in {self.run_dir}"
                )
            self.show("verifying")
            summary = self.sum_up(ended)
        files.write_json(self.run_dir / "summary.json", summary.to_json(), indent=2)
        return summary

    def steer(self, history: History) -> None:
        """Turn the control loop until the run is over."""
        script, policy = self.setup.script, self.setup.policy
        settings = self.setup.options.policy
        state, lost = resume.load(self.run_dir, policy, settings, self.engine_at)
        if lost is not None:
            self.report(history, EventKind.POLICY_RESET, f"{policy.name} starts afresh: {lost}")
        writer = resume.StateWriter(policy, settings)
        with closing(Mailbox(self.run_dir)) as mailbox:

            def wait() -> bool:
                return self.wait(lambda: mailbox.waiting() or script.due(self.now()))

            def requests(at: float) -> UserRequest | None:
                return mailbox.take() or script.take(at)

            def record(tick: Tick) -> None:
                mailbox.settle(tick)
                self.record(tick, history, "running")

            control(
                self.engine,
                self.graph,
                policy,
                now=self.now,
                wait=wait,
                record=record,
                requests=requests,
                settings=self.setup.settings,
                time_of_day=self.setup.clock.time_of_day,
                state=state,
                save=lambda state: history.save_loop_state(writer.dump(state)),
            )

    def wait(self, called: Callable[[], bool]) -> bool:
        """Sleep until the next turn or a request; False if the run is over."""
        if self.now() >= self.due:
            self.due = max(self.due + _TURN, self.now())
        while True:
            if self.over():
                return False
            left = self.due - self.now()
            if left <= 0 or called():
                return True
            self.setup.clock.sleep(min(left, _SLICE))

    def over(self) -> bool:
        """True if the run is to end: its condition holds, somebody stopped it, or it is done."""
        if self.condition_holds():
            return True
        seconds = self.setup.seconds
        if self.interrupts.finish or (seconds is not None and self.now() >= seconds):
            return True
        if self.last is None or self.rows_to_come is None:
            return False
        return self.last.snapshot.rows_ingested >= self.rows_to_come

    def condition_holds(self) -> bool:
        until = self.setup.until
        return until is not None and self.last is not None and until(self.last)

    def why_over(self) -> str:
        """Why the control loop ended."""
        if self.interrupts.finish:
            return "interrupted"
        seconds = self.setup.seconds
        if seconds is not None and self.now() >= seconds:
            return f"{duration.text(seconds)} are over"
        return "its condition to end holds" if self.condition_holds() else "all input is read"

    def drain(self, history: History) -> None:
        self.show("draining")
        if isinstance(self.engine, OwnTime):
            self.drain_in_turns(self.engine, history)
        else:
            self.drain_in_background(history)
        if not self.interrupts.at_once:
            self.record(self.observed(), history, "draining")

    def drain_in_turns(self, engine: OwnTime, history: History) -> None:
        """Drain in turns of the engine's own time, so that the same is recorded every time.

        A Ctrl-C ends it: nothing is lost by that in a simulation. The turns get longer with the
        time that has passed: an hour in turns of a second would be 3600 records without news.
        """
        interrupts, passed, turn = self.interrupts.count, 0.0, _TURN
        while not engine.drain_for(turn):
            if self.interrupts.at_once or self.interrupts.count > interrupts:
                self.show("stopping")
                self.engine.stop(drain=False)
                return
            self.record(self.observed(), history, "draining")
            passed += turn
            turn = max(_TURN, passed / 100)
        self.engine.stop(drain=True)

    def drain_in_background(self, history: History) -> None:
        """Stop the engine in another thread, and go on observing in this one."""
        stopping = _Stopping(self.engine)
        cut, shown = False, self.now()
        while not stopping.done(_SLICE):
            if self.interrupts.at_once and not cut:
                cut = True
                self.show("stopping")
                self.engine.stop(drain=False)
            if not cut and self.now() - shown >= _TURN:
                shown = self.now()
                self.record(self.observed(), history, "draining")
        stopping.result()

    # --- what is recorded and shown -------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the start of the run."""
        return self.setup.clock.now() - self.began

    @property
    def mode(self) -> Mode:
        return self.setup.settings.mode if self.last is None else self.last.mode

    @property
    def hint(self) -> str:
        return "" if self.mode is Mode.ON else f" ({self.mode.value})"

    def note(self, trouble: str) -> None:
        self.trouble = trouble

    def observed(self) -> Tick:
        """A turn without a decision."""
        plan, snapshot = self.engine.plan, self.engine.observe()
        return Tick(self.now(), plan, snapshot, mode=self.mode, events=take_events(self.engine))

    def record(self, tick: Tick, history: History, phase: str) -> None:
        for event in tick.events:
            _log_event(event)
        history.append(tick)
        if isinstance(self.engine, Transitions):
            history.settle(self.engine.transitions())
        self.totals.add(tick, running=phase == "running")
        self.last = tick
        self.show(phase)

    def report(self, history: History, kind: EventKind, text: str) -> None:
        """Record the engine's latest events, and one of the run itself."""
        own = Event(self.now(), kind, " ".join(text.split()))
        for event in (*take_events(self.engine), own):
            _log_event(event)
            history.add_event(event)
            self.totals.add_event(event)

    def show(self, phase: str) -> None:
        if not self.setup.views:
            return
        status = Status(
            graph=self.graph,
            engine=self.engine.name,
            policy=self.setup.policy.name + self.hint,
            phase=phase,
            elapsed=self.now(),
            seconds=self.setup.seconds,
            run_dir=self.run_dir,
            plan=None if self.last is None else self.engine.plan,
            tick=self.last,
            trouble=self.trouble,
            alarm=None if self.last is None else self.dead_letters(self.last.snapshot).alarm,
        )
        for view in self.setup.views:
            view.show(status)

    # --- the summary ----------------------------------------------------------------------------

    def dead_letters(self, snapshot: Snapshot) -> DeadLetters:
        """The dead letters since this run began."""
        dead = snapshot.rows_dead - self.dead_before
        entered = snapshot.rows_ingested - self.rows_before
        return DeadLetters(dead, entered, self.setup.dead_letters_at_most)

    def sum_up(self, ended: float) -> Summary:
        final = self.engine.observe()
        totals = self.engine.latency_totals() if isinstance(self.engine, LatencyTotals) else None
        settled = self.engine.transitions() if isinstance(self.engine, Transitions) else None
        verdict = self.verdict()
        return Summary(
            flow=self.graph.name,
            engine=self.engine.name,
            policy=self.setup.policy.name,
            seconds=ended,
            rows_offered=final.rows_offered,
            rows_ingested=final.rows_ingested,
            rows_delivered=final.rows_delivered,
            rows_dead=final.rows_dead,
            rows_late=final.rows_late,
            dead_letters=self.dead_letters(final),
            changes_left=self.setup.script.left,
            rows_repeated=final.rows_repeated,
            delivery=deliveries(self.graph),
            throughput_mean=(final.rows_ingested - self.rows_before) / ended if ended > 0 else 0.0,
            throughput_last=self.totals.throughput_last,
            slot_seconds=self.totals.slot_seconds,
            plan=self.engine.plan,
            run_dir=str(self.run_dir),
            latency=self.totals.latency(totals),
            transitions=tuple(self.totals.transitions) if settled is None else settled,
            events=self.totals.events,
            exact=verdict.exact,
            exact_reason=verdict.reason,
            interrupted=self.interrupts.finish,
            operators=self.totals.settled.operators if self.totals.settled else {},
        )

    def verdict(self) -> Verdict:
        """Whether the sinks hold exactly what the flow expects."""
        if not self.setup.verify or not self.setup.drain:
            return Verdict(None, (), "not asked for")
        if not isinstance(self.engine, Evidence):
            return Verdict(None, (), f"the {self.engine.name} engine keeps no rows to compare")
        found = verify_rows(self.graph, self.engine.ingested(), self.engine.read_sink)
        files.write_json(self.run_dir / "exactness.json", found.to_json(), indent=2)
        return found


def _log_event(event: Event) -> None:
    level = logging.WARNING if event.is_problem else logging.INFO
    what = event.kind if event.pipeline is None else f"{event.kind}: {event.pipeline}"
    log.log(level, "at %.1f s, %s: %s", event.at, what, event.text)


class _Stopping:
    """`engine.stop(drain=True)` in another thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._stop, name="penstock-drain", daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        try:
            self._engine.stop(drain=True)
        except BaseException as error:
            self._error = error

    def done(self, within: float) -> bool:
        self._thread.join(within)
        return not self._thread.is_alive()

    def result(self) -> None:
        if self._error is not None:
            raise self._error
