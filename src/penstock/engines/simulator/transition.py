"""What a change of plan costs on a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.engines.simulator.simulation import Simulation
from penstock.plan.change import Ceiling, Change, Executors, Regroup, Rescale


@dataclass(frozen=True)
class Cost:
    """What passes before the new plan is in force, and what stands still when it is.

    phases: seconds under the old plan, by name; pauses: seconds by pipeline of the new plan.
    """

    phases: Mapping[str, float]
    pauses: Mapping[str, float]
    state_rows: int = 0
    state_bytes: int = 0
    keys_moved: float | None = None

    @property
    def preparation(self) -> float:
        return sum(self.phases.values())

    @property
    def interruption(self) -> float:
        return max(self.pauses.values(), default=0.0)


def cost(sim: Simulation, change: Change) -> Cost:
    """What a change would cost now.

    New executors and instances are started while the flow goes on as before. State that another
    number of instances puts elsewhere is moved while its pipeline stands still; a pipeline that
    is regrouped is restarted and reads all its state.
    """
    timing = sim.model.timing
    phases: dict[str, float] = {}
    pauses: dict[str, float] = {}
    rows, size, shares = 0, 0.0, []
    for action in change.actions:
        match action:
            case Executors(before, after) if after > before:
                phases["executors"] = timing.executor_start
            case Rescale(name, before, after):
                if after > before:
                    phases["instances"] = timing.instance_start
                share = _moved(sim, name, before, after)
                if share:
                    held = sim.state(sim.stages[sim.plan.pipeline_of(name).name])
                    rows, size = rows + round(share * held[0]), size + share * held[1]
                    shares.append(share)
                    pause = share * held[1] / timing.state_rate + timing.restart
                    pauses[change.after.pipeline_of(name).name] = pause
            case Ceiling(name):
                pauses.setdefault(change.after.pipeline_of(name).name, timing.restart)
            case Regroup(_, after):
                phases["instances"] = timing.instance_start
                for operators in after:
                    name = change.after.pipeline_of(operators[0]).name
                    read = _state(sim, operators)
                    pauses[name] = timing.restart + read / timing.state_rate
                    size += read
    return Cost(phases, pauses, rows, round(size), max(shares, default=None))


def _moved(sim: Simulation, name: str, before: int, after: int) -> float:
    stage = sim.stages.get(sim.plan.pipeline_of(name).name)
    if stage is None or stage.work.keyed is None:
        return 0.0
    return sim.model.step(stage.work.keyed).keys.moved(before, after)


def _state(sim: Simulation, operators: tuple[str, ...]) -> float:
    """Bytes of the state of some operators."""
    holders = {sim.plan.pipeline_of(name).name for name in operators if sim.graph[name].stateful}
    return sum(sim.state(sim.stages[name])[1] for name in holders)
