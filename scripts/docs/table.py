"""The tables of results in the README, from bench/results and docs/results.

Run as a script it writes them there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock_lab.experiments.verdict import VERDICTS

ROOT = Path(__file__).parents[2]
_BETWEEN = re.compile(r"(<!-- results: [^>]* -->\n).*?(<!-- results end -->)", re.DOTALL)


def main() -> None:
    page = ROOT / "README.md"
    page.write_text(written(page.read_text()))


def written(page: str) -> str:
    """The page with the tables as they are now."""
    made = "\n\n".join(part for part in (table(), policies(), experiments()) if part)
    return _BETWEEN.sub(lambda match: f"{match[1]}\n{made}\n\n{match[2]}", page)


def table() -> str:
    """Every claim of every benchmark but that of the policies, which have a table of their own."""
    lines = ["| benchmark | claim | asked for | found | |", "|---|---|---|---|---|"]
    for file in sorted((ROOT / "bench" / "results").glob("*.json")):
        if file.stem == "policies":
            continue
        for claim in json.loads(file.read_text())["claims"]:
            verdict = "holds" if claim["holds"] else "**missed**"
            row = (file.stem, claim["claim"], _asked(claim), f"{claim['value']:.4g}", verdict)
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def policies() -> str:
    """A line for each policy, and how many of the claims hold."""
    data = json.loads((ROOT / "bench" / "results" / "policies.json").read_text())
    best, *rows = data["rows"]
    held = sum(claim["holds"] for claim in data["claims"])
    lines = [
        f"Policies on Spark, from one instance of each operator, beside the {best['policy']} "
        f"({held} of {len(data['claims'])} claims hold; what they are, and how they were measured, "
        "is in bench/RESULTS.md):",
        "",
        "| policy | throughput / best plan | instances | under 0.15 of the load | exact |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        cells = (
            row["policy"].partition(":")[0],
            f"{row['rows/s'] / best['rows/s']:.2f}",
            str(row["instances then"]),
            str(row["and under the small load"]),
            "yes" if row["exact"] else "**no**",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


_PLURAL = {"agrees": "agree", "differs": "differ"}
_WHERE = {"simulator": "simulated", "spark": "Spark"}


def experiments() -> str:
    """How the numbers of each paper and those found here compare; nothing if there are none."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for file in sorted((ROOT / "docs" / "results").glob("*/table.json")):
        found = json.loads(file.read_text())
        for engine in _WHERE:
            words = [r[engine]["verdict"] for r in found["rows"] if _compared(r, engine)]
            counts.setdefault((found["paper"], engine), Counter()).update(words)
    heads = ["paper", "where", "numbers", *(_PLURAL.get(word, word) for word in VERDICTS)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (paper, engine), found in sorted(counts.items()):
        cells = [found[word] for word in VERDICTS]
        shown = " | ".join(map(str, [sum(cells), *cells]))
        lines.append(f"| {paper} | {_WHERE[engine]} | {shown} |")
    said = (
        "The papers' experiments, repeated on a simulated cluster of their size and, as far as two "
        "cores can show them, on Spark (`penstock experiment`; sizes, and why numbers differ, are "
        "on the results page). *given* was put in and counts for nothing, *weaker* is less than "
        "half of the paper's effect, *one run* was measured once on Spark and is not judged:"
    )
    return "\n".join([said, "", *lines]) if counts else ""


def _compared(row: Mapping[str, Any], engine: str) -> bool:
    return row.get(engine, {}).get("verdict") in VERDICTS and row["said"] != "-"


def _asked(claim: dict[str, Any]) -> str:
    if claim["least"] is not None:
        return f"at least {claim['least']:g}"
    return f"at most {claim['most']:g}"


if __name__ == "__main__":
    main()
