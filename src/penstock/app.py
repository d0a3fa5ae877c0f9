"""Run a dataflow from its start to its summary."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock import policies
from penstock.clock import Clock
from penstock.control import dead_letters, run_input
from penstock.control.dead_letters import DeadLetters
from penstock.control.guard import Guard
from penstock.control.interrupts import Interrupts
from penstock.control.loop import Rules, Tick, control, taken_events
from penstock.control.requests import Asked
from penstock.control.scripted_changes import Script, Scripted
from penstock.control.status import Status, View
from penstock.control.summary import Summary
from penstock.control.tally import Tally
from penstock.dashboard.beside import Beside
from penstock.dataflow import duration
from penstock.dataflow.delivery import deliveries
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.dataflow.validation import check
from penstock.engines.abilities import Evidence, LatencyTotals, OwnTime, Transitions
from penstock.engines.port import Engine
from penstock.errors import InvalidInput
from penstock.metrics.events import Event, EventKind
from penstock.metrics.snapshot import Snapshot
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.plan.request import Mode
from penstock.policies.base.policy import Policy
from penstock.policies.es_stream.commit_interval import Interval, WithBackup
from penstock.policies.stepwise.policy import Stepwise
from penstock.predict import profiling
from penstock.predict.profiling import Profiled, ProfilingRun
from penstock.store import directory_choice, run_options
from penstock.store.history import History, keep_dataflow
from penstock.store.mailbox import Mailbox
from penstock.store.run_directory import local
from penstock.verify.exactness import Verdict
from penstock.verify.exactness import verify as verify_rows
from penstock.views.prometheus import Exporter

__all__ = ["Summary", "profile", "run"]

_TURN = 1.0
_SLICE = 0.1  # how long a Ctrl-C may go unseen


def run(
    flow: Dataflow | Graph,
    *,
    policy: str | Policy = "static",
    plan: Plan | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    load: str | None = None,
    seconds: float | str | None = None,
    changes: Iterable[str | Scripted] = (),
    backup: str | Interval | None = None,
    limits: Limits | None = None,
    guard: Guard | None = None,
    advise: bool = False,
    run_dir: str | Path | None = None,
    view: View | None = None,
    metrics: int | Exporter | None = None,
    dashboard: int | Beside | None = None,
    verify: bool = True,
    drain: bool = True,
    dead_letters_at_most: float | str = 0.1,
    until: Callable[[Tick], bool] | None = None,
    clock: Clock | None = None,
) -> Summary:
    """Run until `seconds` have passed or somebody asks to stop, drain, and sum up.

    policy: a name or a policy; plan: the one to start with (None: the engine's choice, or the
    last one of a run directory that is continued); master, conf: Spark's, where no `engine` is
    given; load: a profile for every generator; changes: what to change at which second, as in
    `20s:count=4`; backup: bounds of the time between commits of state, which then follows the
    load, as in `200ms..5s`; limits: what a plan may use at most; guard: when the policy may
    change something; advise: let it only say what it would change; run_dir: where everything
    is kept (None: a new directory in `runs`); metrics: a port of this machine at which Prometheus
    finds the last snapshot, or an `Exporter`, which is closed with the run; dashboard: likewise a
    port at which a browser finds the dashboard of the run, or a `Beside`; verify: compare the
    sinks with what the flow expects of them; drain: work off what has come before the end, else
    leave it in the run directory, and then nothing is compared; dead_letters_at_most: the share of
    the rows that may become dead letters before views and summary raise an alarm; until: looks at
    the last turn and says whether the run is to end.

    While the flow runs, `penstock.store.mailbox.ask` can ask it for changes from elsewhere.

    Generators with a limit end the run when they have given all.

    The first Ctrl-C ends the run early but orderly. The second stops at once, keeps in the run
    directory what is in flight, and raises `KeyboardInterrupt`. Everything wrong with the
    arguments raises before anything starts. A flow that fails raises `FlowFailed`.
    """
    if run_dir is not None:
        run_dir = local(run_dir)
    graph = run_input.graph(flow, load)
    chosen = policies.get(policy) if isinstance(policy, str) else policy
    named = run_options.policy(chosen)
    if backup is not None:
        interval = Interval.parse(backup) if isinstance(backup, str) else backup
        chosen = WithBackup(chosen, interval)
    lasting = None if seconds is None else duration.seconds(seconds)
    if lasting is not None and lasting <= 0:
        raise InvalidInput(f"a run must last longer than nothing, found '{seconds}'")
    at_most = dead_letters.limit(dead_letters_at_most)
    check(graph)
    changes = tuple(changes)
    script = run_input.script(changes, graph, lasting)
    rules = Rules(limits or Limits(), guard or Guard(), Mode.ADVISE if advise else Mode.ON)
    run_input.check_budget(rules.limits, graph, plan)
    if plan is not None:
        fusion.check(plan, graph)
    with _served(metrics, dashboard) as served:
        engine = engine or _spark(master, conf)
        clock = clock or Clock()
        home = directory_choice.choose(graph.name, run_dir, clock.wall())
        views = served if view is None else (view, *served)
        one = _Run(graph, chosen, plan, script, rules, engine, lasting, home, views, verify, clock)
        one.until, one.drains, one.dead_at_most = until, drain, at_most
        one.terms = run_options.Terms(
            time=clock.wall(),
            engine=engine.name,
            policy=named,
            mode=rules.mode.value,
            loads=run_options.loads(graph),
            seconds=lasting,
            changes=tuple(map(str, changes)),
            backup=None if backup is None else str(backup),
            limits=rules.limits,
            guard=run_options.guard(rules.guard),
            quiet=tuple(map(str, rules.guard.quiet)),
        )
        return one.whole(fresh=run_dir is None)


def profile(
    flow: Dataflow | Graph,
    *,
    policy: str | Stepwise = "stepwise",
    load: str | None = None,
    executors: int = 1,
    limits: Limits | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    seconds: float | str | None = None,
    run_dir: str | Path | None = None,
    view: View | None = None,
    clock: Clock | None = None,
) -> Profiled:
    """Find the best ratio of instances of a flow's pipelines, and its highest throughput.

    The flow starts with one instance of every operator, under more load than it can carry: `load`
    for every generator, or ten times the highest rate of each. It ends when profiling is done, or
    after `seconds` or a Ctrl-C with what was found so far. The run directory keeps the result in
    `profile.json` and `plan.json`. executors: number to profile with; limits: the largest plan to
    try; the other arguments are those of `run`.

    Raises `Refused` if the end came before anything was found.
    """
    trial = ProfilingRun(flow, policy, load)
    summary = run(
        trial.graph,
        policy=trial.policy,
        plan=trial.first_plan(executors),
        engine=engine or _spark(master, conf, trial.channel_rows),
        seconds=seconds,
        limits=limits,
        guard=profiling.GUARD,
        run_dir=run_dir,
        view=view,
        drain=False,
        until=trial.done,
        clock=clock,
    )
    return trial.result(summary)


class _Run:
    """One run and its phases."""

    def __init__(
        self,
        graph: Graph,
        policy: Policy,
        plan: Plan | None,
        script: Script,
        rules: Rules,
        engine: Engine,
        seconds: float | None,
        run_dir: Path,
        views: tuple[View, ...],
        verify: bool,
        clock: Clock,
    ) -> None:
        self.graph = graph
        self.policy = policy
        self.first_plan = plan
        self.script = script
        self.rules = rules
        self.engine = engine
        self.seconds = seconds
        self.run_dir = run_dir
        self.views = views
        self.verify = verify
        self.clock = clock
        self.tally = Tally(graph.constraints)
        self.began = clock.now()
        self.due = 0.0
        self.rows_before = 0
        self.dead_before = 0
        self.dead_at_most = 0.1
        self.rows_to_come = run_input.rows_to_come(graph)
        self.last: Tick | None = None
        self.interrupts = Interrupts()
        self.trouble: str | None = None
        self.until: Callable[[Tick], bool] | None = None
        self.drains = True
        self.terms: run_options.Terms | None = None

    def whole(self, fresh: bool) -> Summary:
        try:
            self.start(fresh)
            return self.phases()
        finally:
            for view in self.views:
                view.close()

    def start(self, fresh: bool) -> None:
        self.show("starting")
        try:
            self.engine.start(self.graph, self.first_plan, self.run_dir)
        except BaseException:
            with suppress(Exception):
                self.engine.stop(drain=False)
            if fresh:  # leave no directory behind that nobody asked for, unless it holds anything
                with suppress(OSError):
                    self.run_dir.rmdir()
            raise
        self.began = self.clock.now()
        found = self.engine.observe()
        self.rows_before, self.dead_before = found.rows_ingested, found.rows_dead

    def phases(self) -> Summary:
        # Spark's session puts a handler of its own in place, so ours comes after the start.
        with self.interrupts:
            tell = self.note if any(not isinstance(v, _SERVED) for v in self.views) else None
            history = History(self.run_dir, self.clock.wall, tell)
            with suppress(OSError):  # then the history has said that it cannot be written
                keep_dataflow(self.run_dir, self.graph)
                if self.terms is not None:
                    run_options.keep(self.run_dir, self.terms)
            kind = EventKind.RESUME if history.resumed else EventKind.START
            self.report(history, kind, f"{self.engine.name}, policy {self.policy.name}{self.hint}")
            try:
                self.steer(history)
                if self.drains:
                    self.report(history, EventKind.DRAIN, self.why_over())
                    self.drain(history)
                else:
                    self.show("stopping")
                    self.engine.stop(drain=False)
            except BaseException as error:
                self.report(history, EventKind.FAILED, f"{type(error).__name__}: {error}")
                with suppress(Exception):  # the first error is the one to tell
                    self.engine.stop(drain=False)
                raise
            else:
                drained = "drained" if self.drains else f"{self.why_over()}; not drained"
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
        _write(self.run_dir / "summary.json", summary.to_json())
        return summary

    def report(self, history: History, kind: EventKind, text: str) -> None:
        """Record the engine's latest events and one about the run as a whole."""
        for event in taken_events(self.engine):
            history.add_event(event)
        history.add_event(Event(self.now(), kind, " ".join(text.split())))

    def why_over(self) -> str:
        """Why the control loop ended."""
        if self.interrupts.finish:
            return "interrupted"
        if self.seconds is not None and self.now() >= self.seconds:
            return f"{duration.text(self.seconds)} are over"
        if self.until is not None and self.last is not None and self.until(self.last):
            return "its condition to end holds"
        return "all input is read"

    def note(self, trouble: str) -> None:
        self.trouble = trouble

    def now(self) -> float:
        return self.clock.now() - self.began

    @property
    def mode(self) -> Mode:
        return self.rules.mode if self.last is None else self.last.mode

    @property
    def hint(self) -> str:
        return "" if self.mode is Mode.ON else f" ({self.mode.value})"

    def steer(self, history: History) -> None:
        """The control loop, until the time is up or a Ctrl-C."""
        with closing(Mailbox(self.run_dir)) as mailbox:

            def wait() -> bool:
                return self.wait(lambda: mailbox.waiting() or self.script.due(self.now()))

            def asked(at: float) -> Asked | None:
                return mailbox.take() or self.script.take(at)

            def record(tick: Tick) -> None:
                mailbox.settle(tick)
                self.keep(tick, history, "running")

            control(
                self.engine,
                self.graph,
                self.policy,
                now=self.now,
                wait=wait,
                record=record,
                asked=asked,
                rules=self.rules,
                time_of_day=self.clock.time_of_day,
            )

    def wait(self, called: Callable[[], bool]) -> bool:
        """Sleep until the next turn, or until called; False if the run is over."""
        if self.now() >= self.due:
            self.due = max(self.due + _TURN, self.now())
        while True:
            if self.over():
                return False
            left = self.due - self.now()
            if left <= 0 or called():
                return True
            self.clock.sleep(min(left, _SLICE))

    def over(self) -> bool:
        """Its end is reached, somebody asked, time is up, or the generators have given all."""
        if self.until is not None and self.last is not None and self.until(self.last):
            return True
        if self.interrupts.finish or (self.seconds is not None and self.now() >= self.seconds):
            return True
        if self.last is None or self.rows_to_come is None:
            return False
        return self.last.snapshot.rows_ingested >= self.rows_to_come

    def drain(self, history: History) -> None:
        self.show("draining")
        if isinstance(self.engine, OwnTime):
            self.drain_in_turns(self.engine, history)
        else:
            self.drain_beside(history)
        if not self.interrupts.at_once:
            self.keep(self.observed(), history, "draining")

    def drain_in_turns(self, engine: OwnTime, history: History) -> None:
        """In turns of the engine's time, so that what is recorded is always the same.

        A Ctrl-C ends it: whoever simulates loses nothing by that. The longer it takes the longer
        are the turns, since an hour in turns of a second would be all records and no news.
        """
        asked, passed, turn = self.interrupts.count, 0.0, _TURN
        while not engine.drain_for(turn):
            if self.interrupts.at_once or self.interrupts.count > asked:
                self.show("stopping")
                self.engine.stop(drain=False)
                return
            self.keep(self.observed(), history, "draining")
            passed += turn
            turn = max(_TURN, passed / 100)
        self.engine.stop(drain=True)

    def drain_beside(self, history: History) -> None:
        """Stop the engine in a thread of its own, so that this one can go on watching."""
        stopping = _Stopping(self.engine)
        cut, shown = False, self.now()
        while not stopping.done(_SLICE):
            if self.interrupts.at_once and not cut:
                cut = True
                self.show("stopping")
                self.engine.stop(drain=False)
            if not cut and self.now() - shown >= _TURN:
                shown = self.now()
                self.keep(self.observed(), history, "draining")
        stopping.result()

    def observed(self) -> Tick:
        plan = self.engine.plan
        snapshot = self.engine.observe()
        events = taken_events(self.engine)
        return Tick(self.now(), plan, snapshot, mode=self.mode, events=events)

    def keep(self, tick: Tick, history: History, phase: str) -> None:
        history.append(tick)
        if isinstance(self.engine, Transitions):
            history.settle(self.engine.transitions())
        self.tally.add(tick, running=phase == "running")
        self.last = tick
        self.show(phase)

    def show(self, phase: str) -> None:
        if not self.views:
            return
        status = Status(
            graph=self.graph,
            engine=self.engine.name,
            policy=self.policy.name + self.hint,
            phase=phase,
            elapsed=self.now(),
            seconds=self.seconds,
            run_dir=self.run_dir,
            plan=None if self.last is None else self.engine.plan,
            tick=self.last,
            trouble=self.trouble,
            alarm=None if self.last is None else self.letters(self.last.snapshot).alarm,
        )
        for view in self.views:
            view.show(status)

    def letters(self, seen: Snapshot) -> DeadLetters:
        """The dead letters since this run began."""
        dead, entered = seen.rows_dead - self.dead_before, seen.rows_ingested - self.rows_before
        return DeadLetters(dead, entered, self.dead_at_most)

    def sum_up(self, ended: float) -> Summary:
        final = self.engine.observe()
        totals = self.engine.latency_totals() if isinstance(self.engine, LatencyTotals) else None
        settled = self.engine.transitions() if isinstance(self.engine, Transitions) else None
        verdict = self.verdict()
        return Summary(
            flow=self.graph.name,
            engine=self.engine.name,
            policy=self.policy.name,
            seconds=ended,
            rows_offered=final.rows_offered,
            rows_ingested=final.rows_ingested,
            rows_delivered=final.rows_delivered,
            rows_dead=final.rows_dead,
            rows_late=final.rows_late,
            dead_letters=self.letters(final),
            changes_left=self.script.left,
            rows_repeated=final.rows_repeated,
            delivery=deliveries(self.graph),
            throughput_mean=(final.rows_ingested - self.rows_before) / ended if ended > 0 else 0.0,
            throughput_last=self.tally.throughput_last,
            slot_seconds=self.tally.slot_seconds,
            plan=self.engine.plan,
            run_dir=str(self.run_dir),
            latency=self.tally.latency(totals),
            transitions=tuple(self.tally.transitions) if settled is None else settled,
            exact=verdict.exact,
            exact_reason=verdict.reason,
            interrupted=self.interrupts.finish,
            operators=self.tally.settled.operators if self.tally.settled else {},
        )

    def verdict(self) -> Verdict:
        if not self.verify or not self.drains:
            return Verdict(None, (), "not asked for")
        if not isinstance(self.engine, Evidence):
            return Verdict(None, (), f"the {self.engine.name} engine keeps no rows to compare")
        found = verify_rows(self.graph, self.engine.ingested(), self.engine.read_sink)
        _write(self.run_dir / "exactness.json", found.to_json())
        return found


class _Stopping:
    """`engine.stop(drain=True)` in the background."""

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


_SERVED = (Exporter, Beside)  # they tell nobody what goes wrong beside the flow


@contextmanager
def _served(
    metrics: int | Exporter | None, dashboard: int | Beside | None
) -> Iterator[tuple[View, ...]]:
    """Served before anything starts, so that a port that is taken is told at once."""
    with ExitStack() as stack:
        views: list[View] = []
        if metrics is not None:
            exporter = Exporter(metrics) if isinstance(metrics, int) else metrics
            views.append(stack.enter_context(closing(exporter)))
        if isinstance(dashboard, int):
            dashboard = Beside(dashboard)
            print(f"penstock: dashboard at {dashboard.url}", file=sys.stderr, flush=True)
        if dashboard is not None:
            views.append(stack.enter_context(closing(dashboard)))
        yield tuple(views)


def _spark(
    master: str | None, conf: Mapping[str, str] | None, channel_rows: int | None = None
) -> Engine:
    from penstock.engines.spark.engine import SparkEngine  # slow to load: only when needed

    if channel_rows is None:
        return SparkEngine(master=master, conf=conf)
    return SparkEngine(master=master, conf=conf, channel_rows=channel_rows)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """Written beside and moved into place, so that a reader never sees half of it."""
    beside = path.with_suffix(".json.tmp")
    beside.write_text(json.dumps(value, indent=2) + "\n")
    beside.replace(path)
