"""Run benchmarks: `python -m bench [--keep DIR] [NAME ...]`; all of them without a name.

Results are kept in bench/results/<name>.json, and bench/RESULTS.md is made from them. With --keep
the runs themselves stay too, in a folder for each benchmark.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.result import Result

NAMES = (
    *("wordcount", "hop", "memory", "overhead", "rescale", "partitions", "recovery"),
    *("simulator", "calibration", "policies"),
)
_HERE = Path(__file__).parent


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="where the runs stay")
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(NAMES))
    given = parser.parse_args(words)
    unknown = sorted(set(given.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown benchmark {unknown}; there are {', '.join(NAMES)}")
    results = _HERE / "results"
    results.mkdir(exist_ok=True)
    missed = 0
    for name in given.names or NAMES:
        print(f"== {name}", flush=True)
        began = time.time()
        with _folder(name, given.keep) as folder:
            module = import_module(f"bench.{name}")
            spark = _spark(module) if getattr(module, "SPARK", True) else None
            result: Result = module.run(spark, folder)
        kept: dict[str, Any] = {
            "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "python": platform.python_version(),
            "spark": version("pyspark"),
            "seconds": round(time.time() - began),
            **result.to_json(),
        }
        (results / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
        print(result.table())
        for claim in result.claims:
            print(claim, flush=True)
            missed += not claim.holds
    _write_page(results)
    return 1 if missed else 0


@contextmanager
def _folder(name: str, keep: Path | None) -> Iterator[Path]:
    """Where a benchmark may write: kept, or gone afterwards."""
    if keep is not None:
        (keep / name).mkdir(parents=True)
        yield keep / name
        return
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-bench-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _spark(module: Any) -> Any:
    """A session with the master that a benchmark asks for; the usual one if it asks for none."""
    from pyspark.sql import SparkSession

    from penstock.engines.spark.session.flow_session import own, session

    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
    return own(session(getattr(module, "MASTER", None)))  # both sides have the same settings


def _write_page(results: Path) -> None:
    """One page from everything that is kept, so that a partial run leaves the rest in place."""
    parts = ["# Benchmark results\n", "Made by `make bench`; ratios are within one run.\n"]
    for file in sorted(results.glob("*.json")):
        data = json.loads(file.read_text())
        result = Result(file.stem, data["about"], data["rows"])
        parts.append(f"## {file.stem}\n\n{data['about']}\n")
        parts.append(
            f"{data['when']}, {data['machine']}, Python {data['python']}, Spark {data['spark']}, "
            f"{data['seconds']} s.\n"
        )
        parts.append(result.table() + "\n")
        for claim in data["claims"]:
            bound = (
                f"at least {claim['least']}"
                if claim["least"] is not None
                else f"at most {claim['most']}"
            )
            word = "holds" if claim["holds"] else "**missed**"
            parts.append(f"- {claim['claim']}: {claim['value']} ({bound}): {word}")
        parts.append("")
    (_HERE / "RESULTS.md").write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
