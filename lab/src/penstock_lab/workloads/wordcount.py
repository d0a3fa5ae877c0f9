"""Word count: parses tweets in JSON, splits them into words and counts every word.

A record that is no tweet with a text becomes a dead letter of `parse`. Words are separated by
single spaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow, Stream
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads.tweets import Tweets

TWEET = "id bigint, user string, lang string, text string"

# A line of this form is JSON without escapes, so its text can be used as it is.
_SIMPLE = r'^\{"id":[1-9]?[0-9]+,"user":"\w+","lang":"\w+","text":"(?P<text>[^"\\\x00-\x1f]*)"\}$'


def build(
    out: Path | str,
    *,
    load: str = "5000/s",
    seed: int = 0,
    limit: int | None = None,
    words: int = 4000,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; counts go to `out`/counts as updates; the last row of a word counts."""
    flow = Dataflow("wordcount")
    source = Generator(Tweets(words, exponent, malformed, burst), "value string", load, seed, limit)
    count(flow, flow.source("tweets", source), out)
    flow.constrain("parse", "count", latency=latency)
    return flow


def count(flow: Dataflow, tweets: Stream, out: Path | str) -> None:
    """Append to a stream of tweets: parse, split, count and the sink."""
    texts = tweets.frame(
        "parse",
        lambda df: df.selectExpr("value", f"from_json(value, '{TWEET}').text AS text"),
        reject="text IS NULL",
        schema="value string, text string",
        estimate=Estimate(6e-6, 0.995),
    )
    found = texts.frame(
        "split",
        lambda df: df.selectExpr("explode(split(text, ' ')) AS word").where("word <> ''"),
        schema="word string",
        selectivity="workload-dependent",
        estimate=Estimate(3.5e-6, 10.25),
    )
    counts = found.key_by("word").aggregate(
        "count", n="count(*)", schema="word string, n bigint", estimate=Estimate(8e-6, 0.14)
    )
    counts.sink("counts", Parquet(str(Path(out) / "counts")))
    flow.expect("counts", expected, keys=("word",))


def expected(inputs: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """Every word and its number of occurrences in valid tweets."""
    counts: dict[str, int] = {}
    for batch in inputs["tweets"].to_batches(max_chunksize=100_000):
        counted = pc.value_counts(pc.list_flatten(pc.split_pattern(texts(batch["value"]), " ")))
        words, numbers = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        for word, number in zip(words, numbers, strict=True):
            if word:
                counts[word] = counts.get(word, 0) + number
    return counts.items()


def texts(lines: pa.Array) -> pa.Array:
    """The texts of the tweets that have one, in their order."""
    simple = pc.struct_field(pc.extract_regex(lines, pattern=_SIMPLE), "text")
    odd = np.flatnonzero(pc.is_null(simple).to_numpy(zero_copy_only=False))
    read = [_text(line) for line in lines.take(pa.array(odd)).to_pylist()]
    mask = np.zeros(len(lines), dtype=bool)
    mask[odd] = True
    return pc.replace_with_mask(simple, pa.array(mask), pa.array(read, pa.string())).drop_null()


def _text(line: str) -> str | None:
    try:
        tweet = json.loads(line)
    except ValueError:
        return None
    text = tweet.get("text") if isinstance(tweet, dict) else None
    return text if isinstance(text, str) else None
