"""The composition root: puts engine, policy, store and views together and runs a dataflow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from penstock import policies
from penstock.clock import Clock
from penstock.control import run_input
from penstock.control.guard import Guard
from penstock.control.loop import ControlSettings
from penstock.control.requests import ScriptedChange
from penstock.control.run import Run, RunSetup
from penstock.control.status import View
from penstock.control.summary import Summary
from penstock.dashboard.child_process import Beside
from penstock.dataflow import duration
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.dataflow.validation import check
from penstock.engines.port import Engine
from penstock.errors import InvalidInput
from penstock.plan import fusion
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.plan.request import Mode
from penstock.policies.base.policy import Policy
from penstock.policies.es_stream.commit_interval import Interval, WithBackup
from penstock.policies.stepwise.policy import Stepwise
from penstock.predict import profiling
from penstock.predict.profiling import Profiled, ProfilingRun
from penstock.store import run_directory, run_options
from penstock.store.run_options import RunOptions
from penstock.store.turn import Tick
from penstock.views.prometheus import Exporter

__all__ = ["Summary", "profile", "run"]


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
    changes: Iterable[str | ScriptedChange] = (),
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

    policy: a name with options, or a policy; plan: the first plan (None: the engine's default, or
    the last plan of a run directory that is resumed); master, conf: Spark's, if no `engine` is
    given; load: a load profile for every generator; changes: what to change at which second, as
    in `20s:count=4`; backup: bounds of the time between commits of state, as in `200ms..5s`,
    within which it follows the load; limits: the budget of a plan; guard: when the policy may
    change something; advise: the policy only says what it would change; run_dir: where everything
    is stored (None: a new directory in `runs`); metrics: a port of this machine on which
    Prometheus finds the last snapshot, or an `Exporter`, which is closed with the run; dashboard:
    likewise a port for the dashboard of the run, or a `Beside`; verify: compare the sinks with
    what the flow expects of them; drain: process everything that has arrived before the end; if
    False it is kept in the run directory, and nothing is compared; dead_letters_at_most: the share
    of rows that may become dead letters before views and summary raise an alarm; until: ends the
    run when it returns True for the last turn.

    While the flow runs, another process can change it with `penstock.ask`.

    A run ends early if all its generators have a limit and reach it.

    The first Ctrl-C ends the run early but orderly. The second stops at once, keeps what is in
    flight in the run directory, and raises `KeyboardInterrupt`. Invalid arguments raise before
    anything starts. A flow that fails raises `FlowFailed`.
    """
    if run_dir is not None:
        run_dir = run_directory.local(run_dir)
    graph = run_input.graph(flow, load)
    chosen = policies.get(policy) if isinstance(policy, str) else policy
    policy_text = run_options.policy(chosen)
    if backup is not None:
        interval = Interval.parse(backup) if isinstance(backup, str) else backup
        chosen = WithBackup(chosen, interval)
    length = None if seconds is None else duration.seconds(seconds)
    if length is not None and length <= 0:
        raise InvalidInput(f"a run must last longer than nothing, found '{seconds}'")
    at_most = run_input.dead_letter_limit(dead_letters_at_most)
    check(graph)
    changes = tuple(changes)
    script = run_input.script(changes, graph, length)
    mode = Mode.ADVISE if advise else Mode.ON
    settings = ControlSettings(limits or Limits(), guard or Guard(), mode)
    run_input.check_budget(settings.limits, graph, plan)
    if plan is not None:
        fusion.check(plan, graph)
    with _served(metrics, dashboard) as served:
        engine = engine or _spark(master, conf)
        clock = clock or Clock()
        options = RunOptions(
            time=clock.wall(),
            engine=engine.name,
            policy=policy_text,
            mode=mode.value,
            loads=run_options.loads(graph),
            seconds=length,
            changes=tuple(map(str, changes)),
            backup=None if backup is None else str(backup),
            limits=settings.limits,
            guard=settings.guard.times,
            quiet=tuple(map(str, settings.guard.quiet)),
        )
        setup = RunSetup(
            graph=graph,
            policy=chosen,
            plan=plan,
            engine=engine,
            run_dir=run_directory.choose(graph.name, run_dir, clock.wall()),
            options=options,
            clock=clock,
            settings=settings,
            script=script,
            views=served if view is None else (view, *served),
            seconds=length,
            until=until,
            verify=verify,
            drain=drain,
            dead_letters_at_most=at_most,
            fresh=run_dir is None,
            tell=_to_stderr if view is None else None,  # those served do not show trouble
        )
        return Run(setup).execute()


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


@contextmanager
def _served(
    metrics: int | Exporter | None, dashboard: int | Beside | None
) -> Iterator[tuple[View, ...]]:
    """The views that are served on a port, from before the start: a port in use raises at once."""
    with ExitStack() as stack:
        views: list[View] = []
        if metrics is not None:
            exporter = Exporter(metrics) if isinstance(metrics, int) else metrics
            views.append(stack.enter_context(closing(exporter)))
        if isinstance(dashboard, int):
            dashboard = Beside(dashboard)
            _to_stderr(f"dashboard at {dashboard.url}")
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


def _to_stderr(text: str) -> None:
    print(f"penstock: {text}", file=sys.stderr, flush=True)
