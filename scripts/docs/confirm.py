"""Repeat cases of the simulated results in docs/results: `confirm.py [--cases N] [NAME ...]`.

A result is stale when the code that its cases reach is no longer the code that made it. Where that
code was only tidied up it need not be made anew: a simulated case depends on its seed alone, so it
gives the same records again. This repeats some cases of each result (all without `--cases`). If
the digests of their records are those in the manifest, it notes there the code as it is now, and
how many cases were repeated. Without names it takes the results whose code has changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import records
from penstock_lab import experiments
from penstock_lab.experiments import code, provenance
from penstock_lab.experiments.experiment import Case, Experiment, Setting
from results import HOME


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
    file = HOME / experiment.name / "manifest.json"
    manifest = json.loads(file.read_text())
    told = manifest["engines"]["simulator"]
    cases = experiment.made("simulator", told["parameters"])
    some = spread(cases, count or len(cases))
    for case in some:
        found = records.digests(repeated(case, told["seed"]))  # it may record other cases, too
        if any(told["records"].get(name) != digest for name, digest in found.items()):
            print(f"{experiment.name}: '{case.name}' has other records now: run it anew")
            return False
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
    """The records that a case gives now."""
    with TemporaryDirectory() as scratch:
        return [{"case": case.name, **one} for one in case.job(Setting(seed, Path(scratch)))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
