"""Take results of `penstock experiment` into the documentation: `results.py DIRECTORY`.

docs/results keeps for every experiment what its directory has, the raw data and the pictures as
SVG packed. An experiment that is already there is replaced. Without a directory all that is there
is made again from its data, after the code that makes it has changed. What drew the pictures is
noted beside them: another version of matplotlib may draw other bytes.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock import experiments
from penstock.experiments.store import Store

HOME = Path(__file__).parents[2] / "docs" / "results"
DRAWN_BY = HOME / "matplotlib.txt"
_KEPT = ("manifest.json", "table.json", "table.md", "picture-*.png")
_PACKED = ("data-*.jsonl", "picture-*.svg")


def main(source: Path | None) -> None:
    with TemporaryDirectory() as aside:
        if source is None:
            source = Path(aside)
            for manifest in HOME.glob("*/manifest.json"):
                home = manifest.parent
                unpacked(home, source / home.name)
                Store(source / home.name).make(experiments.get(home.name))
        for manifest in sorted(source.glob("*/manifest.json")):
            taken(manifest.parent, HOME / manifest.parent.name)
    DRAWN_BY.write_text(version("matplotlib") + "\n")


def taken(source: Path, target: Path) -> None:
    """Copy one experiment."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for pattern in _KEPT:
        for file in sorted(source.glob(pattern)):
            shutil.copyfile(file, target / file.name)
    for pattern in _PACKED:
        for file in sorted(source.glob(pattern)):
            packed = gzip.compress(file.read_bytes(), mtime=0)
            (target / f"{file.name}.gz").write_bytes(packed)


def unpacked(source: Path, target: Path) -> None:
    """The other way: an experiment as `penstock experiment` left it, without what is made of it."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "manifest.json", target / "manifest.json")
    for data in sorted(source.glob("data-*.jsonl.gz")):
        (target / data.stem).write_bytes(gzip.decompress(data.read_bytes()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
