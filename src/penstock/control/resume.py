"""Storing what the control loop knows, so that a resumed run decides as if it had not stopped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.control.loop import NEW, LoopState
from penstock.control.past_changes import AppliedChange, PastChanges, RefusedPlan
from penstock.errors import PenstockError
from penstock.metrics.snapshot import Snapshot
from penstock.plan.change import Change
from penstock.plan.plan import Plan
from penstock.plan.transition import Transition
from penstock.policies.base.memory import dump_memory, load_memory
from penstock.policies.base.policy import Policy
from penstock.store import history
from penstock.store.serialization import plain, restored

VERSION = 1
"""Of the stored form; a state of another version is not read."""

log = logging.getLogger(__name__)


class StateWriter:
    """Converts the state of the loop into JSON values, turn by turn.

    settings: the policy with its options, as a user writes it.
    """

    def __init__(self, policy: Policy, settings: str) -> None:
        self._policy, self._settings = policy, settings
        self._made: tuple[AppliedChange, ...] = ()
        self._made_json: list[Any] = []
        self._failed = False

    def dump(self, state: LoopState) -> dict[str, Any]:
        """The state without `recent`, which the history has."""
        if state.past.made != self._made:
            self._made = state.past.made
            self._made_json = [
                {"at": one.at, "change": one.change.to_json(), "transition": plain(one.transition)}
                for one in self._made
            ]
        memory = self._dump_memory(state.memory)
        refused = state.past.refused
        return {
            "version": VERSION,
            "policy": self._settings,
            "now": state.now,
            "snapshot_offset": state.snapshot_offset,
            "memory": memory,
            "memory_lost": memory is None and state.memory is not None,
            "made": self._made_json,
            "refused": None
            if refused is None
            else {**vars(refused), "plan": refused.plan.to_json()},
        }

    def _dump_memory(self, memory: Any) -> Any:
        try:
            return dump_memory(self._policy, memory)
        except Exception:  # a mistake in somebody's policy must not end the flow
            if not self._failed:
                log.exception("the memory of policy %r cannot be stored", self._policy.name)
            self._failed = True
            return None


def load(
    run_dir: Path, policy: Policy, settings: str, engine_at: float, keep: int = 120
) -> tuple[LoopState, str | None]:
    """The state with which the loop begins, and why the policy begins without memory, if it does.

    engine_at: the engine's clock now, on which the snapshots to come have their times. In a new
    run directory the state is a new one.
    """
    try:
        data = history.loop_state(run_dir)
    except PenstockError as error:
        return NEW, f"what the run before knew cannot be read: {error}"
    if data is None:
        return NEW, None
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        return NEW, f"what the run before knew was not written in version {VERSION} of its form"
    try:
        now, offset = float(data["now"]), float(data["snapshot_offset"])
        past = _load_past(data)
    except (PenstockError, KeyError, TypeError, ValueError) as error:
        return NEW, f"what the run before knew cannot be read: {error}"
    recent = _recent(run_dir, offset, keep)
    state = LoopState(now, None, past, recent, now - engine_at)
    if data["policy"] != settings:
        return state, f"the run before had policy {data['policy']}, this one has {settings}"
    if data["memory_lost"]:
        return state, f"policy '{policy.name}' does not store what it remembers"
    try:
        return replace(state, memory=load_memory(policy, data["memory"])), None
    except PenstockError as error:
        return state, str(error)


def _recent(run_dir: Path, offset: float, keep: int) -> tuple[Snapshot, ...]:
    """The last snapshots that the loop of the run before saw, with the loop's times."""
    times = history.turn_times(run_dir)
    of_run = [one.turn for one in times if one.run == times[-1].run and not one.ending][-keep:]
    if not of_run:
        return ()
    found = (one.snapshot for one in history.recorded_snapshots(run_dir, since=of_run[0]))
    return tuple(
        replace(one, at=one.at + offset) if offset else one for one in found if not one.ending
    )


def _load_past(data: Mapping[str, Any]) -> PastChanges:
    made = tuple(
        AppliedChange(
            one["at"], Change.from_json(one["change"]), restored(Transition, one["transition"])
        )
        for one in data["made"]
    )
    found = data["refused"]
    refused = found and RefusedPlan(found["at"], Plan.from_json(found["plan"]), found["why"])
    return PastChanges(made, refused)
