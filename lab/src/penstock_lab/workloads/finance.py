"""Finance: volume-weighted average price per symbol and second, and bargains below it.

A second of a symbol ends with the symbol's first trade after it. A quote waits for the average of
its second; if it asks for less, it is a bargain, and its index is the saving from buying all of it,
in hundredths of a cent. A second without trades has no average, so its quotes are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads.lines import parse_commas, read_commas
from penstock_lab.workloads.market import QUOTE, TRADE, Market
from penstock_lab.workloads.memo import Memo

OFFER = "symbol string, second bigint, vwap bigint, ask bigint, size bigint"
"""Either an average price or a quote; the columns of the other are null."""


def build(
    out: Path | str,
    *,
    load: str = "400/s",
    seed: int = 0,
    limit: int | None = None,
    symbols: int = 50,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    latency: str = "5s",
) -> Dataflow:
    """Build the dataflow; trades and quotes each have the load, bargains go to `out`/bargains."""
    flow = Dataflow("finance")
    market = Market(symbols, exponent, malformed, burst)
    trades, quotes = (
        flow.source(name, Generator(market, "value string", load, seed + at, limit))
        for at, name in enumerate(("trades", "quotes"))
    )
    sums = (
        parse_commas(trades, "parse-trades", TRADE)
        .key_by("symbol")
        .process(
            "vwap",
            Averages,
            schema="symbol string, second bigint, value bigint, volume bigint",
            estimate=Estimate(5e-5, 0.2),
        )
    )
    averages = sums.frame(
        "price",
        lambda df: df.selectExpr(
            "symbol",
            "second",
            "100 * value div volume AS vwap",
            "CAST(NULL AS bigint) AS ask",
            "CAST(NULL AS bigint) AS size",
        ),
        schema=OFFER,
        estimate=Estimate(1e-6),
    )
    asked = parse_commas(quotes, "parse-quotes", QUOTE).frame(
        "asks",
        lambda df: df.selectExpr(
            "symbol", "at div 1000 AS second", "CAST(NULL AS bigint) AS vwap", "ask", "size"
        ),
        schema=OFFER,
        estimate=Estimate(1e-6),
    )
    found = (
        averages.union("offers", asked, schema=OFFER)
        .key_by("symbol")
        .process(
            "bargains",
            Bargains,
            schema="symbol string, second bigint, vwap bigint, ask bigint, saving bigint",
            estimate=Estimate(6e-5, 0.4),
        )
    )
    found.sink("found", Parquet(str(Path(out) / "bargains")))
    flow.constrain("parse-trades", "bargains", latency=latency)
    flow.expect("found", expected)
    return flow


class Averages:
    """Processor that adds up the trades of a symbol per second."""

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "second", [None, 0, 0])

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        second, value, volume = self._memo.read()
        for row in rows:
            if second != row.at // 1000:
                if second is not None:
                    yield key[0], second, value, volume
                second, value, volume = row.at // 1000, 0, 0
            value, volume = value + row.price * row.volume, volume + row.volume
        self._memo.write([second, value, volume])

    def close(self) -> None:
        pass


class Bargains:
    """Processor that matches the averages and quotes of a symbol.

    Both arrive in the order of their seconds, each at its own pace. A quote waits for an average of
    its second or a later one; an average is kept until a quote of a later second arrives.
    """

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "waiting", [[], []])

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        averages, quotes = self._memo.read()
        for row in rows:
            if row.vwap is None:
                quotes.append([row.second, row.ask, row.size])
            else:
                averages.append([row.second, row.vwap])
        known, last, waiting = dict(averages), max((s for s, _ in averages), default=-1), []
        for second, ask, size in quotes:
            if second > last:
                waiting.append([second, ask, size])
            elif second in known and known[second] > 100 * ask:
                saving = size * (known[second] - 100 * ask)
                yield key[0], second, known[second], ask, saving
        oldest = quotes[-1][0] if quotes else -1
        self._memo.write([[a for a in averages if a[0] >= oldest], waiting])

    def close(self) -> None:
        pass


def expected(inputs: Mapping[str, Any]) -> Iterator[tuple[str, int, int, int, int]]:
    """The bargains among all quotes, given the averages of all seconds that ended."""
    sums: dict[str, dict[int, tuple[int, int]]] = {}
    for trade in read_commas(inputs["trades"]["value"], TRADE):
        seconds = sums.setdefault(trade["symbol"], {})
        value, volume = seconds.get(trade["at"] // 1000, (0, 0))
        traded = value + trade["price"] * trade["volume"], volume + trade["volume"]
        seconds[trade["at"] // 1000] = traded
    for seconds in sums.values():
        seconds.pop(max(seconds))
    for quote in read_commas(inputs["quotes"]["value"], QUOTE):
        symbol, second, ask = quote["symbol"], quote["at"] // 1000, quote["ask"]
        value, volume = sums.get(symbol, {}).get(second, (0, 1))
        average = 100 * value // volume
        if average > 100 * ask:
            yield symbol, second, average, ask, quote["size"] * (average - 100 * ask)
