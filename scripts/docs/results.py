"""Take results of `penstock experiment` into the documentation: `results.py DIRECTORY`.

docs/results keeps of every experiment its manifest, its table, the pictures as packed SVG, and
those values of the raw data that the table and the pictures read (`records.py`), packed too.
Results of an engine replace older ones of the same engine; those of other engines stay. Without a
directory, tables and pictures are made again from the data in docs/results, as is needed after a
change of the code that makes them. A quick run never replaces a full one; quick.json notes how
long it took. matplotlib.txt has the version that drew the pictures: another one may draw other
bytes.
"""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import records
from penstock_lab import experiments
from penstock_lab.experiments.store import Store

HOME = Path(__file__).parents[2] / "docs" / "results"
DRAWN_BY = HOME / "matplotlib.txt"
QUICK = HOME / "quick.json"
_KEPT = ("table.json", "table.md", "picture-*.json")


def main(source: Path | None) -> None:
    for manifest in sorted((HOME if source is None else source).glob("*/manifest.json")):
        name = manifest.parent.name
        with TemporaryDirectory() as aside:
            made = Path(aside) / name
            if (HOME / name).exists():
                unpacked(HOME / name, made)
            if source is not None:
                laid_over(source / name, made)
            Store(made).make(experiments.get(name))
            taken(made, HOME / name)
    if source is not None:
        timed(source)
    DRAWN_BY.write_text(version("matplotlib") + "\n")


def laid_over(source: Path, target: Path) -> None:
    """Put what engines have completed in one directory in the place of what another one has."""
    target.mkdir(parents=True, exist_ok=True)
    new = json.loads((source / "manifest.json").read_text())
    kept = target / "manifest.json"
    engines = json.loads(kept.read_text())["engines"] if kept.exists() else {}
    for engine, told in new["engines"].items():
        if told["complete"] and (not is_quick(told) or is_quick(engines.get(engine, told))):
            engines[engine] = told
            shutil.copyfile(source / f"data-{engine}.jsonl", target / f"data-{engine}.jsonl")
    gone = json.loads(kept.read_text()).get("withdrawn", {}) if kept.exists() else {}
    gone = {engine: why for engine, why in gone.items() if engine not in engines}
    also = {"withdrawn": gone} if gone else {}
    whole = {**new, "engines": dict(sorted(engines.items())), **also}
    kept.write_text(json.dumps(whole, indent=2) + "\n")


def is_quick(told: Mapping[str, Any]) -> bool:
    """Whether a run was of the smaller size."""
    return "--quick" in told["command"].split()


def timed(source: Path) -> None:
    """Note how long quick runs took."""
    took = json.loads(QUICK.read_text()) if QUICK.exists() else {}
    for manifest in source.glob("*/manifest.json"):
        for told in json.loads(manifest.read_text())["engines"].values():
            if told["complete"] and is_quick(told):
                took[manifest.parent.name] = told["seconds"]
    if took:
        QUICK.write_text(json.dumps(dict(sorted(took.items())), indent=2) + "\n")


def taken(source: Path, target: Path) -> None:
    """Take one experiment: copy what is small, pack the rest, and prune its records."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for pattern in _KEPT:
        for file in sorted(source.glob(pattern)):
            shutil.copyfile(file, target / file.name)
    for file in sorted(source.glob("picture-*.svg")):
        (target / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    manifest = json.loads((source / "manifest.json").read_text())
    experiment, found = experiments.get(Store(source).name), Store(source).data()
    for engine, kept in records.needed(experiment, found).items():
        # The digests are of all records, so those of data that are pruned already stay.
        manifest["engines"][engine].setdefault("records", records.digests(found[engine].records))
        text = "".join(f"{records.line(record)}\n" for record in kept)
        (target / f"data-{engine}.jsonl.xz").write_bytes(lzma.compress(text.encode(), preset=9))
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def unpacked(source: Path, target: Path) -> None:
    """The other way: manifest and data as `penstock experiment` would read them."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "manifest.json", target / "manifest.json")
    for data in sorted(source.glob("data-*.jsonl.xz")):
        (target / data.stem).write_bytes(lzma.decompress(data.read_bytes()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
