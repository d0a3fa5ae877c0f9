"""The table of results in the README, from bench/results; run as a script it writes it there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_BETWEEN = re.compile(r"(<!-- results: [^>]* -->\n).*?(<!-- results end -->)", re.DOTALL)


def main() -> None:
    page = ROOT / "README.md"
    page.write_text(written(page.read_text()))


def written(page: str) -> str:
    """The page with the table as it is now."""
    return _BETWEEN.sub(lambda match: f"{match[1]}\n{table()}\n\n{match[2]}", page)


def table() -> str:
    """Every claim of every benchmark."""
    lines = ["| benchmark | claim | asked for | found | |", "|---|---|---|---|---|"]
    for file in sorted((ROOT / "bench" / "results").glob("*.json")):
        for claim in json.loads(file.read_text())["claims"]:
            verdict = "holds" if claim["holds"] else "**missed**"
            row = (file.stem, claim["claim"], _asked(claim), f"{claim['value']:.4g}", verdict)
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _asked(claim: dict[str, Any]) -> str:
    if claim["least"] is not None:
        return f"at least {claim['least']:g}"
    return f"at most {claim['most']:g}"


if __name__ == "__main__":
    main()
