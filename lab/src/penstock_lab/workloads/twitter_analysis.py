"""Twitter sentiment analysis: eleven operators, eight deep.

Tweets are stored as they arrive. For English ones the mood is averaged by time slot, and their
hashtags are counted, ranked in parts and ranked as a whole. Records that are no tweets are stored,
too, and become dead letters of `language`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock_lab.workloads import meaning, ranking
from penstock_lab.workloads.lines import from_json, incomplete, read_json
from penstock_lab.workloads.posts import TWEET, Posts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLOT = 10_000
"""Length of a time slot in milliseconds."""

_TAGS = "filter(split(text, ' '), word -> word LIKE '#_%')"


def build(
    out: Path | str,
    *,
    load: str = "500/s",
    seed: int = 0,
    limit: int | None = None,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    top: int = 10,
    latency: str = "5s",
) -> Dataflow:
    """Build the dataflow; tweets, averages and rankings go to `out`; a rank's last row counts."""
    meaning.need("twitter-analysis", "py3langid", "vaderSentiment")
    flow = Dataflow("twitter-analysis")
    source = Generator(Posts(exponent, malformed, burst), "value string", load, seed, limit)
    tweets = flow.source("tweets", source)
    tweets.sink("store", Parquet(str(Path(out) / "store")))
    english = tweets.frame(
        "language",
        english_only,
        reject=incomplete(TWEET),
        schema=f"value string, {TWEET}",
        selectivity="workload-dependent",
        estimate=Estimate(1e-4, 0.6),
    )
    scored = english.map(
        "sentiment",
        score,
        schema="slot bigint, text string, score bigint",
        estimate=Estimate(1e-4),
    )
    average = scored.key_by("slot").aggregate(
        "average",
        n="count(*)",
        mean="sum(score) / count(*)",
        schema="slot bigint, n bigint, mean double",
        estimate=Estimate(1e-6, 0.01),
    )
    average.sink("averages", Parquet(str(Path(out) / "averages")))
    tags = scored.frame(
        "hashtags",
        lambda df: df.selectExpr(f"explode({_TAGS}) AS name", "slot").selectExpr(
            "name", "slot", f"{ranking.part('name')} AS part"
        ),
        schema=ranking.NAMED,
        selectivity="workload-dependent",
        estimate=Estimate(3e-6, 0.6),
    )
    ranking.rank(flow, tags, top, out)
    flow.constrain("language", "rank-all", latency=latency)
    flow.expect("store", lambda inputs: zip(inputs["tweets"]["value"].to_pylist(), strict=True))
    flow.expect("averages", averages, keys=("slot",))
    flow.expect(
        "ranking", lambda inputs: ranking.expected(hashtags(inputs), top), keys=("slot", "place")
    )
    return flow


def english_only(frame: DataFrame) -> DataFrame:
    """English tweets, and lines that are no tweets, which are rejected later.

    Spark parses the lines; the detector in Python gets the texts only.
    """
    from pyspark.sql.functions import expr, udf

    detected = udf(is_english, "boolean", useArrow=False)  # explicit, so not inferred
    return from_json(frame, TWEET).where(expr(incomplete(TWEET)) | detected("text"))


def is_english(text: str | None) -> bool:
    """True if there is a text and it is in English."""
    return text is not None and meaning.language(text) == "en"


def score(record: Mapping[str, Any]) -> dict[str, Any]:
    """The mood of a tweet."""
    text = record["text"]
    return {"slot": record["at"] // SLOT, "text": text, "score": meaning.mood(text)}


def averages(inputs: Mapping[str, Any]) -> Iterable[tuple[int, int, float]]:
    """Number of English tweets and their mean mood in every slot."""
    sums: dict[int, tuple[int, int]] = {}
    for tweet in _english(inputs):
        n, total = sums.get(tweet["at"] // SLOT, (0, 0))
        sums[tweet["at"] // SLOT] = (n + 1, total + meaning.mood(tweet["text"]))
    return ((slot, n, total / n) for slot, (n, total) in sums.items())


def hashtags(inputs: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Slot and name of every hashtag in English tweets."""
    for tweet in _english(inputs):
        for word in tweet["text"].split(" "):
            if len(word) > 1 and word.startswith("#"):
                yield tweet["at"] // SLOT, word


def _english(inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for tweet in read_json(inputs["tweets"]["value"], TWEET):
        if is_english(tweet["text"]):
            yield tweet
