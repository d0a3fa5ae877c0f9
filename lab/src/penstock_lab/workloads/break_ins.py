"""Break-in detection: finds addresses in an ssh log that try passwords too fast.

Failed logins are selected and parsed, and the last ones of each address are kept. Enough of them
within a short time are an attempt to break in. A failure that cannot be parsed becomes a dead
letter of `parse`; any other broken line is ignored.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock.errors import InvalidInput
from penstock_lab.workloads.authlog import AuthLog
from penstock_lab.workloads.memo import Memo

FAILED = "Failed password for"

_ADDRESS = r" from ([0-9]+\.[0-9]+\.[0-9]+\.[0-9]+) port "


def build(
    out: Path | str,
    *,
    load: str = "2000/s",
    seed: int = 0,
    limit: int | None = None,
    addresses: int = 5_000,
    exponent: float = 0.5,
    malformed: float = 0.005,
    burst: float = 15,
    failures: int = 10,
    within: int = 2_000,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; `failures` of an address `within` milliseconds go to `out`/attempts."""
    if failures < 2:
        raise InvalidInput(f"{failures} failures have no time between them: at least 2 are needed")
    flow = Dataflow("break-ins")
    entries = AuthLog(addresses, exponent, malformed, burst)
    source = Generator(entries, "value string", load, seed, limit)
    failed = flow.source("log", source).frame(
        "failures",
        lambda df: df.where(f"value LIKE '%{FAILED}%'"),
        schema="value string",
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.3),
    )
    parsed = failed.frame(
        "parse",
        lambda df: df.selectExpr(
            "value",
            f"nullif(regexp_extract(value, r'{_ADDRESS}', 1), '') AS address",
            "unix_millis(try_to_timestamp(split(value, ' ')[0])) AS at",
        ),
        reject="address IS NULL OR at IS NULL",
        schema="value string, address string, at bigint",
        estimate=Estimate(6e-6),
    )
    windows = parsed.key_by("address").process(
        "window",
        lambda: Window(failures),
        schema="address string, at bigint, n bigint, first bigint",
        estimate=Estimate(5e-5),
    )
    enough = windows.frame(
        "cut-off",
        lambda df: df.where(f"n = {failures}"),
        schema="address string, at bigint, n bigint, first bigint",
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.8),
    )
    attempts = enough.frame(
        "difference",
        lambda df: df.selectExpr("address", "at", "at - first AS span").where(f"span <= {within}"),
        schema="address string, at bigint, span bigint",
        selectivity="workload-dependent",
        estimate=Estimate(1e-6, 0.3),
    )
    attempts.sink("attempts", Parquet(str(Path(out) / "attempts")))
    flow.constrain("failures", "difference", latency=latency)
    flow.expect("attempts", lambda inputs: expected(inputs, failures, within))
    return flow


@dataclass
class Window:
    """Processor that keeps the times of the last failures of an address."""

    size: int

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "times", [])

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        times = self._memo.read()
        for row in rows:
            times = [*times, row.at][-self.size :]
            yield key[0], row.at, len(times), times[0]
        self._memo.write(times)

    def close(self) -> None:
        pass


def expected(
    inputs: Mapping[str, Any], failures: int, within: int
) -> Iterator[tuple[str, int, int]]:
    """The attempts in all lines, in their order."""
    last: dict[str, deque[int]] = {}
    for line in inputs["log"]["value"].to_pylist():
        found = re.search(_ADDRESS, line) if FAILED in line else None
        if found is None:
            continue
        try:
            at = round(datetime.fromisoformat(line.split(" ")[0]).timestamp() * 1000)
        except ValueError:
            continue
        times = last.setdefault(found[1], deque(maxlen=failures))
        times.append(at)
        if len(times) == failures and at - times[0] <= within:
            yield found[1], at, at - times[0]
