"""A run that only profiles: it ends when stepwise profiling is done."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import policies
from penstock.app import run
from penstock.clock import Clock
from penstock.control import run_input
from penstock.control.guard import Guard
from penstock.control.loop import Tick
from penstock.control.status import View
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.dataflow.validation import check
from penstock.engines.port import Engine
from penstock.errors import InvalidInput, Refused
from penstock.plan.limits import Limits
from penstock.plan.plan import Plan
from penstock.policies.stepwise.policy import Stepwise
from penstock.policies.stepwise.profile import Profile
from penstock.policies.stepwise.profiling_state import Campaign
from penstock.predict import stress_load
from penstock.store.serialization import plain

PROFILE, PLAN = "profile.json", "plan.json"

_GUARD = Guard(cooldown=0.0, settle=0.0, undo=0.0, horizon=math.inf)
"""Trying is what a profile is for: only bounds, budget and missing metrics stand against it."""

_CARRIED = 0.95  # of the load: then there may be more to carry


@dataclass(frozen=True)
class Profiled:
    """What came of profiling.

    complete: False if it was ended before it was done; offered: rows per second that were there to
    be taken, None where nobody knows; plan: to run the flow with; seconds: how long it took.
    """

    flow: str
    profile: Profile
    complete: bool
    offered: float | None
    plan: Plan
    seconds: float
    run_dir: str
    interrupted: bool = False

    @property
    def carried_all(self) -> bool:
        """Whether the best plan took all there was, so that the load and not the plan bounds it."""
        return self.offered is not None and (
            self.profile.final.throughput >= _CARRIED * self.offered
        )

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = plain(
            {
                "flow": self.flow,
                "complete": self.complete,
                "interrupted": self.interrupted,
                "seconds": round(self.seconds, 3),
                "offered": self.offered,
                "carried_all": self.carried_all,
                **self.profile.to_json(),
                "plan": self.plan.to_json(),
                "run_dir": self.run_dir,
            }
        )
        return shown


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
    """Find out how the instances of a flow should relate, and how much it carries at most.

    The flow starts with every operator alone and one instance each, under more load than it can
    carry: `load` for every generator, or ten times the highest rate of each one's own. It ends
    when profiling is done, or orderly with what was found so far after `seconds` or a Ctrl-C.
    `profile.json` and `plan.json` in the run directory keep what was found. executors: to profile
    with; limits: the largest plan to try; the rest is as in `penstock.run`.

    Raises `Refused` if the end came before anything was found.
    """
    chosen = policies.get(policy) if isinstance(policy, str) else policy
    if not isinstance(chosen, Stepwise):
        raise InvalidInput(f"the policy that profiles is 'stepwise', not '{chosen.name}'")
    graph = run_input.graph(flow, load)
    check(graph)
    graph = stress_load.stressed(graph, load)
    memory: Campaign | None = None

    def done(tick: Tick) -> bool:
        nonlocal memory
        memory = tick.memory
        return memory is not None and (memory.profile is not None or memory.stuck is not None)

    summary = run(
        graph,
        policy=chosen,
        plan=stress_load.first_plan(graph, executors),
        engine=engine or _spark(graph, master, conf),
        seconds=seconds,
        limits=limits,
        guard=_GUARD,
        run_dir=run_dir,
        view=view,
        drain=False,  # more came than the flow can carry: that would take as long again, or longer
        until=done,
        clock=clock,
    )
    found = None if memory is None else memory.profile or chosen.found(memory)
    if memory is None or found is None:
        why = (memory and memory.stuck) or "it was ended before the first round had been observed"
        raise Refused(f"profiling '{graph.name}' found nothing: {why}; see {summary.run_dir}")
    free = found.final.throttle == 0
    whole = Profiled(
        flow=graph.name,
        profile=found,
        complete=memory.profile is not None,
        offered=stress_load.offered(graph),
        plan=stress_load.relieved(found.final.plan, graph) if free else found.final.plan,
        seconds=summary.seconds,
        run_dir=summary.run_dir,
        interrupted=summary.interrupted,
    )
    _write(Path(summary.run_dir) / PROFILE, whole.to_json())
    _write(Path(summary.run_dir) / PLAN, whole.plan.to_json())
    return whole


def read(path: Path) -> Profile:
    """The profile in a run directory, or in a file."""
    file = path / PROFILE if path.is_dir() else path
    try:
        data = json.loads(file.read_text())
    except FileNotFoundError:
        if path.is_dir():
            how = "`penstock profile FLOW` makes one"
            raise InvalidInput(f"there is no profile in '{path}': {how}") from None
        raise InvalidInput(f"there is no profile '{path}'") from None
    except OSError as error:
        raise InvalidInput(f"cannot read the profile '{file}': {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"the profile '{file}' is not JSON") from None
    try:
        return Profile.from_json(data)
    except InvalidInput as error:
        raise InvalidInput(f"'{file}' is no profile: {error}") from None


def _spark(graph: Graph, master: str | None, conf: Mapping[str, str] | None) -> Engine:
    from penstock.engines.spark.engine import SparkEngine  # slow to load: only when needed

    rows = stress_load.channel_rows(graph)
    if rows is None:
        return SparkEngine(master=master, conf=conf)
    return SparkEngine(master=master, conf=conf, channel_rows=rows)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
