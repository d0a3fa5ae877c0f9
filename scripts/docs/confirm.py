"""Repeat cases of the simulated results in docs/results: `confirm.py [--cases N] [NAME ...]`.

A result is stale when the code that its cases reach is no longer the code that made it. Where that
code was only tidied up it need not be made anew: a simulated case depends on its seed alone, so it
gives the same records again. This repeats some cases of each result, all if nothing is said, and if
their records are the same notes the code as it is now in the manifest, and how many cases say so.
Without names it does so for results whose code has changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from penstock_lab import experiments
from penstock_lab.experiments import code, provenance
from penstock_lab.experiments.experiment import Case, Data, Experiment, Setting
from penstock_lab.experiments.store import Store
from results import HOME, unpacked


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments; those whose code has changed")
    parser.add_argument("--cases", type=int, help="how many cases of each (all)")
    given = parser.parse_args(words)
    names = given.names or [e.name for e in experiments.every() if is_stale(e)]
    failed = [name for name in names if not confirmed(experiments.get(name), given.cases)]
    return 1 if failed else 0


def is_stale(experiment: Experiment) -> bool:
    """Whether the simulated result of an experiment was made by other code."""
    file = HOME / experiment.name / "manifest.json"
    told = json.loads(file.read_text())["engines"].get("simulator") if file.exists() else None
    return told is not None and told.get("code") != code.digest(experiment, "simulator")


def confirmed(experiment: Experiment, count: int | None) -> bool:
    """Repeat cases of a result and note the code if their records are the same."""
    with TemporaryDirectory() as aside:
        unpacked(HOME / experiment.name, Path(aside))
        data = Store(Path(aside)).data()["simulator"]
    cases = experiment.made("simulator", data.parameters)
    some = spread(cases, count or len(cases))
    for case in some:
        found = repeated(case, data.seed)
        if found != stored(data, {one["case"] for one in found}):
            print(f"{experiment.name}: '{case.name}' has other records now: run it anew")
            return False
    file = HOME / experiment.name / "manifest.json"
    manifest = json.loads(file.read_text())
    told = manifest["engines"]["simulator"]
    told["code"] = code.digest(experiment, "simulator")
    told["confirmed"] = {"commit": provenance.commit(), "cases": len(some), "of": len(cases)}
    file.write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"{experiment.name}: the same in {len(some)} of {len(cases)} cases", flush=True)
    return True


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """So many of the cases, as far apart as they can be."""
    count = min(count, len(cases))
    return [cases[at * len(cases) // count] for at in range(count)]


def repeated(case: Case, seed: int) -> list[Any]:
    """The records that a case gives now, as they would be read back."""
    with TemporaryDirectory() as scratch:
        records = [*case.job(Setting(seed, Path(scratch)))]
    return [json.loads(json.dumps({"case": case.name, **one})) for one in records]


def stored(data: Data, cases: Collection[str]) -> list[Any]:
    """The records under some names: a case may record others beside its own."""
    return [one for one in data.records if one["case"] in cases]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
