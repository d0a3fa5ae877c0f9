"""A fitted model as a file: JSON that a person can read and change.

    kind, version   "penstock model", 1
    flow            the dataflow it is of; runs: the run directories it was fitted from
    operators       by name: seconds of a row on an idle machine, cv of that time, cpu: the share
                    of it on a processor, selectivity; with state also touch: seconds for each
                    key in a batch, and keys: number, skew, bytes, and how they were dealt to
                    instances
    batch           seconds of a batch, as in `model.MicroBatch`
    machine         slots of an executor, and the processors that they share
    timing          seconds that changes take, as in `model.Timing`
    quality, notes  how well it explains what it was fitted from, and what could not be fitted

Only operators, batch and machine are needed to simulate; what is left out of them is 0.
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
class Fitted:
    """What a simulation needs of a model file."""

    flow: str
    steps: Mapping[str, OperatorCost]
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
        """A model of a dataflow. Raises `InvalidInput` where it was fitted to another one."""
        strange = sorted({o.name for o in graph.operators} ^ set(self.steps))
        if strange:
            raise InvalidInput(
                f"the model was fitted to '{self.flow}', not to '{graph.name}': "
                f"only one of them has an operator '{strange[0]}'"
            )
        node = self.node
        if cores is not None:  # machines of the same kind
            share = (node.processors or node.cores) / node.cores
            node = Machine(cores=cores, processors=share * cores)
        return Model(
            self.steps,
            nodes=nodes,
            node=node,
            arrivals=arrivals or Deterministic(),
            queue=None,
            timing=self.timing,
            batch=self.batch,
        )


def of(calibration: Calibration) -> Fitted:
    """What a simulation needs of a calibration."""
    return Fitted(
        calibration.graph.name,
        calibration.steps,
        calibration.batch,
        calibration.node,
        calibration.timing,
    )


def to_json(calibration: Calibration, runs: Sequence[Path | str] = ()) -> dict[str, Any]:
    """The file's content."""
    return {
        "kind": KIND,
        "version": VERSION,
        "flow": calibration.graph.name,
        "runs": [str(run) for run in runs],
        "operators": {
            name: _operator(step, calibration.graph[name].stateful)
            for name, step in calibration.steps.items()
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


def _operator(step: OperatorCost, stateful: bool) -> dict[str, Any]:
    cv = getattr(
        step.service, "cv", 1.0 if isinstance(step.service, distributions.Exponential) else 0.0
    )
    found: dict[str, Any] = {
        "seconds": step.service.mean,
        "cv": cv,
        "cpu": round(step.cpu, 6),
        "selectivity": step.selectivity,
    }
    if stateful:
        keys = step.keys
        found["touch"] = step.touch
        found["keys"] = asdict(keys)
    return found


def read(path: Path | str) -> Fitted:
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


def from_json(data: Any) -> Fitted:
    """What `to_json` wrote. Raises `InvalidInput`."""
    if not isinstance(data, Mapping) or data.get("kind") != KIND:
        raise InvalidInput("this is no model; `penstock calibrate RUN_DIR --out FILE` writes one")
    if data.get("version") != VERSION:
        raise InvalidInput(
            f"it is of version {data.get('version')}, this reads version {VERSION}; "
            "calibrate the run again"
        )
    try:
        machine = data["machine"]
        return Fitted(
            str(data["flow"]),
            {name: _step(one) for name, one in data["operators"].items()},
            restored(MicroBatch, {**_NOTHING, **data["batch"]}),
            Machine(cores=machine["slots"], processors=machine.get("processors")),
            restored(Timing, data.get("timing", {})),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"something is missing or wrong: {error!r}") from None


_NOTHING = {"planning": 0.0, "log": 0.0, "commit": 0.0, "partition": 0.0, "task": 0.0}


def _step(data: Mapping[str, Any]) -> OperatorCost:
    return OperatorCost(
        distributions.of(float(data.get("seconds", 0.0)), float(data.get("cv", 0.0))),
        float(data.get("selectivity", 1.0)),
        restored(Keys, data["keys"]) if "keys" in data else Keys(),
        cpu=float(data.get("cpu", 1.0)),
        touch=float(data.get("touch", 0.0)),
    )
