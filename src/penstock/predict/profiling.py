"""Profiles a flow under stress: how to run it, when to stop, and the result."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import policies
from penstock.control import run_input
from penstock.control.guard import Guard
from penstock.control.summary import Summary
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.graph import Graph
from penstock.dataflow.validation import check
from penstock.errors import InvalidInput, Refused
from penstock.plan.plan import Plan
from penstock.policies.stepwise.policy import Stepwise
from penstock.policies.stepwise.profile import Profile
from penstock.policies.stepwise.profiling_state import StepwiseMemory
from penstock.predict import stress_load
from penstock.store.serialization import plain
from penstock.store.turn import Tick

PROFILE, PLAN = "profile.json", "plan.json"

GUARD = Guard(cooldown=0.0, settle=0.0, undo=0.0, horizon=math.inf)
"""Lets every trial through, except for bounds, budget and missing metrics."""

_CARRIED = 0.95
"""Share of the offered load above which the load may limit the throughput."""


@dataclass(frozen=True)
class Profiled:
    """The result of profiling.

    complete: False if the run ended before profiling was done; offered: rows per second that the
    sources offered, None if unknown; plan: the plan to run the flow with; seconds: how long
    profiling took.
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
        """True if the best plan carried all of the load, so a higher load may show more."""
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


class ProfilingRun:
    """A run that profiles a flow; call `done` after each turn of the loop.

    graph: the flow with generators that offer `load`, or ten times their own highest rate. Run it
    from `first_plan` under `policy` and `GUARD`, without a drain at the end: a backlog of that size
    would take longer to work off than the profile itself. Raises `InvalidInput` if the policy
    cannot profile or the load cannot be read.
    """

    def __init__(
        self, flow: Dataflow | Graph, policy: str | Stepwise = "stepwise", load: str | None = None
    ) -> None:
        chosen = policies.get(policy) if isinstance(policy, str) else policy
        if not isinstance(chosen, Stepwise):
            raise InvalidInput(f"the policy that profiles is 'stepwise', not '{chosen.name}'")
        graph = run_input.graph(flow, load)
        check(graph)
        self.policy = chosen
        self.graph = stress_load.stressed(graph, load)
        self._memory: StepwiseMemory | None = None

    def first_plan(self, executors: int) -> Plan:
        """Plan to start with: every operator alone, with one instance."""
        return stress_load.first_plan(self.graph, executors)

    @property
    def channel_rows(self) -> int | None:
        """Bound of the channels, in rows; None for the engine's default."""
        return stress_load.channel_rows(self.graph)

    def done(self, tick: Tick) -> bool:
        """True once the policy has a profile or cannot go on."""
        self._memory = found = tick.memory
        return found is not None and (found.profile is not None or found.stuck is not None)

    def result(self, summary: Summary) -> Profiled:
        """Profile found by the run, which is also written to its directory.

        Raises `Refused` if the run ended before the first round was observed.
        """
        memory = self._memory
        found = None if memory is None else memory.profile or self.policy.found(memory)
        if memory is None or found is None:
            why = (memory and memory.stuck) or ("the run ended before the first round was observed")
            name = self.graph.name
            raise Refused(f"profiling '{name}' found nothing: {why}; see {summary.run_dir}")
        throttled = found.final.throttle != 0
        plan = found.final.plan
        result = Profiled(
            flow=self.graph.name,
            profile=found,
            complete=memory.profile is not None,
            offered=stress_load.offered(self.graph),
            plan=plan if throttled else stress_load.relieved(plan, self.graph),
            seconds=summary.seconds,
            run_dir=summary.run_dir,
            interrupted=summary.interrupted,
        )
        _write(Path(summary.run_dir) / PROFILE, result.to_json())
        _write(Path(summary.run_dir) / PLAN, result.plan.to_json())
        return result


def read(path: Path) -> Profile:
    """Read a profile from a run directory or a file."""
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
        raise InvalidInput(f"'{file}' is not a profile: {error}") from None


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
