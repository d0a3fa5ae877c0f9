"""What a simulation leaves in its run directory, so that it can be gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from penstock import files
from penstock.dataflow.graph import Graph
from penstock.engines.simulator.records import Records
from penstock.engines.simulator.simulation import Simulation
from penstock.errors import RunDirectoryError


class Store:
    """The file `simulator.json` of a run directory."""

    def __init__(self, run_dir: Path, graph: Graph) -> None:
        self._file = run_dir / "simulator.json"
        self._graph = graph
        self._starts = 0

    def read(self) -> dict[str, Any]:
        """What is there; empty if nothing is."""
        kept: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}
        if kept and kept["fingerprint"] != self._graph.fingerprint:
            raise RunDirectoryError(
                f"{self._file.parent} belongs to another dataflow or version, '{kept['flow']}'; "
                "use another run directory"
            )
        self._starts = kept.get("starts", 0)
        return kept

    def restore(self, sim: Simulation, kept: dict[str, Any]) -> None:
        """Bring a new simulation to where the last one stopped."""
        if not kept:
            return
        sim.now = kept["clock"]
        sim.delivered.update(kept["delivered"])
        sim.ledger.seen.update(kept["seen"])
        sim.ledger.made.update(kept["made"])
        for name, mark in kept["sources"].items():
            sim.sources[name].go_to(mark)
            sim.sources[name].put_back(_records(mark["back"]))
        for writer, reader, records in kept["queues"]:
            sim.network.queues[writer, reader].put(_records(records))

    def write(self, sim: Simulation) -> None:
        """Keep where a simulation stands; nothing may be inside its pipelines."""
        data = {
            "flow": self._graph.name,
            "fingerprint": self._graph.fingerprint,
            "starts": self._starts + 1,
            "plan": sim.plan.to_json(),
            "clock": sim.now,
            "delivered": dict(sim.delivered),
            "seen": dict(sim.ledger.seen),
            "made": dict(sim.ledger.made),
            "sources": {
                name: {**source.mark(), "back": _columns(source.given_back())}
                for name, source in sim.sources.items()
            },
            "queues": [
                [*edge, _columns(queue.all())]
                for edge, queue in sim.network.queues.items()
                if len(queue)
            ],
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(self._file, data, indent=None)


def _columns(records: Records) -> dict[str, Any]:
    births = {name: b.tolist() for name, b in records.births.items()}
    keys = {name: k.tolist() for name, k in records.keys.items()}
    return {"time": records.time.tolist(), "births": births, "keys": keys}


def _records(data: dict[str, Any]) -> Records:
    births = {name: np.array(b, dtype=np.float64) for name, b in data["births"].items()}
    keys = {name: np.array(k, dtype=np.intp) for name, k in data.get("keys", {}).items()}
    return Records(np.array(data["time"], dtype=np.float64), births, keys)
