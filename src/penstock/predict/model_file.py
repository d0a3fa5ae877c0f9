"""Reads and writes a fitted model as JSON that a person can edit.

    kind, version   "penstock model", 1
    flow            the dataflow; runs: the run directories it was fitted to
    operators       by name: seconds of a row on an idle machine, cv: its coefficient of
                    variation, cpu: the share of it on a processor, selectivity; with state also
                    touch: seconds for each distinct key in a batch, and keys: number, skew, bytes
                    and measured shares of the instances
    batch           seconds of a batch, see `model.MicroBatch`
    machine         slots of an executor, and the processors that they share
    timing          seconds that changes take, see `model.Timing`
    quality, notes  how well it explains the recorded batches, and what could not be fitted

Only operators, batch and machine are needed to simulate; what they leave out is 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.dataflow.graph import Graph
from penstock.engines.simulator import distributions
from penstock.engines.simulator.arrivals import Arrivals, Deterministic
from penstock.engines.simulator.model import Keys, Machine, MicroBatch, Model, OperatorCost, Timing
from penstock.errors import InvalidInput, PenstockError
from penstock.predict.calibration import Calibration
from penstock.store.serialization import restored

KIND, VERSION = "penstock model", 1


@dataclass(frozen=True)
class FittedModel:
    """The part of a model file that a simulation needs."""

    flow: str
    costs: Mapping[str, OperatorCost]
    batch: MicroBatch
    node: Machine
    timing: Timing = field(default_factory=Timing)

    def model(
        self,
        graph: Graph,
        nodes: int = 1,
        arrivals: Arrivals | None = None,
        cores: int | None = None,
    ) -> Model:
        """Return a model of a dataflow.

        cores: slots of a machine, if others than fitted; its processors change in proportion.
        Raises `InvalidInput` if it was fitted to another dataflow.
        """
        different = sorted({o.name for o in graph.operators} ^ set(self.costs))
        if different:
            raise InvalidInput(
                f"the model was fitted to '{self.flow}', not to '{graph.name}': "
                f"only one of them has an operator '{different[0]}'"
            )
        node = self.node
        if cores is not None:
            share = (node.processors or node.cores) / node.cores
            node = Machine(cores=cores, processors=share * cores)
        return Model(
            self.costs,
            nodes=nodes,
            node=node,
            arrivals=arrivals or Deterministic(),
            queue=None,
            timing=self.timing,
            batch=self.batch,
        )


def from_calibration(calibration: Calibration) -> FittedModel:
    """Return the part of a calibration that a simulation needs."""
    return FittedModel(
        calibration.graph.name,
        calibration.costs,
        calibration.batch,
        calibration.node,
        calibration.timing,
    )


def to_json(calibration: Calibration, runs: Sequence[Path | str] = ()) -> dict[str, Any]:
    """Content of a model file; runs: the run directories it was fitted to."""
    return {
        "kind": KIND,
        "version": VERSION,
        "flow": calibration.graph.name,
        "runs": [str(run) for run in runs],
        "operators": {
            name: _to_json(cost, calibration.graph[name].stateful)
            for name, cost in calibration.costs.items()
        },
        "batch": asdict(calibration.batch),
        "machine": {"slots": calibration.node.cores, "processors": calibration.node.processors},
        "timing": asdict(calibration.timing),
        "quality": {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(calibration.quality).items()
        },
        "notes": list(calibration.notes),
    }


def _to_json(cost: OperatorCost, stateful: bool) -> dict[str, Any]:
    cv = getattr(
        cost.service, "cv", 1.0 if isinstance(cost.service, distributions.Exponential) else 0.0
    )
    found: dict[str, Any] = {
        "seconds": cost.service.mean,
        "cv": cv,
        "cpu": round(cost.cpu, 6),
        "selectivity": cost.selectivity,
    }
    if stateful:
        keys = cost.keys
        found["touch"] = cost.touch
        found["keys"] = asdict(keys)
    return found


def read(path: Path | str) -> FittedModel:
    """Read a model file. Raises `InvalidInput`."""
    try:
        data = json.loads(Path(path).expanduser().read_text())
    except OSError as error:
        raise InvalidInput(f"cannot read the model file '{path}': {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"the model file '{path}' is not JSON") from None
    try:
        return from_json(data)
    except PenstockError as error:
        raise InvalidInput(f"the model file '{path}': {error}") from None


def from_json(data: Any) -> FittedModel:
    """Read what `to_json` wrote. Raises `InvalidInput`."""
    if not isinstance(data, Mapping) or data.get("kind") != KIND:
        raise InvalidInput("not a model; `penstock calibrate RUN_DIR --out FILE` writes one")
    if data.get("version") != VERSION:
        raise InvalidInput(
            f"it has version {data.get('version')}, this Penstock reads version {VERSION}; "
            "calibrate the run again"
        )
    try:
        machine = data["machine"]
        return FittedModel(
            str(data["flow"]),
            {name: _cost(one) for name, one in data["operators"].items()},
            restored(MicroBatch, {**_NO_COSTS, **data["batch"]}),
            Machine(cores=machine["slots"], processors=machine.get("processors")),
            restored(Timing, data.get("timing", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"a value is missing or wrong: {error!r}") from None


_NO_COSTS = {"planning": 0.0, "log": 0.0, "commit": 0.0, "partition": 0.0, "task": 0.0}


def _cost(data: Mapping[str, Any]) -> OperatorCost:
    return OperatorCost(
        distributions.of(float(data.get("seconds", 0.0)), float(data.get("cv", 0.0))),
        float(data.get("selectivity", 1.0)),
        restored(Keys, data["keys"]) if "keys" in data else Keys(),
        cpu=float(data.get("cpu", 1.0)),
        touch=float(data.get("touch", 0.0)),
    )
