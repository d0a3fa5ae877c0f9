"""Print which share of the statements of each package the last run with coverage has executed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from coverage import Coverage


def main() -> None:
    measured = Coverage()
    measured.load()
    statements: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for name in measured.get_data().measured_files():
        _, inside = name.rsplit("/src/", 1)
        package = ".".join(Path(inside).with_suffix("").parts[:2])
        _, lines, _, not_run, _ = measured.analysis2(name)
        for key in (package, "in total"):
            statements[key] += len(lines)
            missed[key] += len(not_run)
    for key in sorted(statements, key=lambda name: (name == "in total", name)):
        share = 1 - missed[key] / max(1, statements[key])
        print(f"{key:<28} {statements[key]:>6} statements  {100 * share:5.1f} % run")


if __name__ == "__main__":
    main()
