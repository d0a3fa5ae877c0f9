"""TwitterSentiment: the mood of tweets about what is popular, with two latency constraints.

Every hashtag of a tweet goes two ways. One way they are counted over slots of time (`hot-topics`),
and the merger tells, once, which topic is hot in which slot. The other way they wait in `filter`
until their topic is hot in their slot. Then the mood of their tweet is found and added up by topic.
So it does not matter which way is faster: a tweet passes if its topic is hot in its slot at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operator import Estimate
from penstock.workloads import meaning
from penstock.workloads.lines import parse_json, read_json
from penstock.workloads.posts import TWEET, Posts

SLOT = 5_000
MOST = 100
"""Instances that the three operators which scale may have."""

_TAGS = "array_distinct(filter(split(text, ' '), word -> word LIKE '#_%'))"


def build(
    out: Path | str,
    *,
    load: str = "days:200-600@60s",
    seed: int = 0,
    limit: int | None = None,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    hot: int = 20,
    topics_latency: str = "5s",
    sentiment_latency: str = "3s",
) -> Dataflow:
    """Write the dataflow; `hot` tweets of a slot make a topic hot, moods go to `out`/moods.

    The bounds in the seed are 215 and 30 ms, the first of them with windows of 200 ms.
    """
    meaning.need("twitter-sentiment", "vaderSentiment")
    flow = Dataflow("twitter-sentiment")
    source = Generator(Posts(exponent, malformed, burst), "value string", load, seed, limit)
    parsed = parse_json(flow.source("tweets", source), "parse", TWEET)
    topics = parsed.frame(
        "topics",
        lambda df: df.selectExpr(
            f"explode({_TAGS}) AS topic", f"at div {SLOT} AS slot", "id", "text"
        ),
        schema="topic string, slot bigint, id bigint, text string",
        selectivity="workload-dependent",
        estimate=Estimate(3e-6, 0.6),
    )
    counts = topics.key_by("topic", "slot").aggregate(
        "hot-topics",
        n="count(*)",
        schema="topic string, slot bigint, n bigint",
        max_parallelism=MOST,
        estimate=Estimate(2e-6, 0.5),
    )
    found = counts.process_all(
        "merge",
        lambda: Merger(hot),
        takes_updates=True,
        schema="topic string, slot bigint",
        estimate=Estimate(5e-5, 0.05),
    )
    passed = topics.key_by("topic", "slot").join(
        "filter",
        found.key_by("topic", "slot"),
        schema="topic string, slot bigint, id bigint, text string",
        max_parallelism=MOST,
        estimate=Estimate(1e-5, 0.4),
    )
    moods = passed.map(
        "sentiment",
        mood,
        schema="topic string, mood string",
        max_parallelism=MOST,
        estimate=Estimate(1e-4),
    )
    tracked = moods.key_by("topic").aggregate(
        "track",
        *(f"count_if(mood = '{mood}') AS {mood}" for mood in MOODS),
        schema=f"topic string, {', '.join(f'{mood} bigint' for mood in MOODS)}",
        estimate=Estimate(2e-6, 0.2),
    )
    tracked.sink("moods", Parquet(str(Path(out) / "moods")))
    flow.constrain("hot-topics", "filter", latency=topics_latency)
    flow.constrain("filter", "sentiment", latency=sentiment_latency)
    flow.expect("moods", lambda inputs: expected(inputs, hot), keys=("topic",))
    return flow


MOODS = ("positive", "neutral", "negative")


def mood(record: Mapping[str, Any]) -> tuple[str, str]:
    """The topic of a tweet and its mood in a word."""
    return record["topic"], _word(meaning.mood(record["text"]))


@dataclass
class Merger:
    """The processor that brings all counts together and tells each hot topic of a slot once."""

    hot: int

    def init(self, handle: Any) -> None:
        self._told = handle.getMapState("told", "topic string, slot bigint", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        for row in rows:
            if row.n >= self.hot and not self._told.containsKey((row.topic, row.slot)):
                self._told.updateValue((row.topic, row.slot), (row.n,))
                yield row.topic, row.slot

    def close(self) -> None:
        pass


def expected(inputs: Mapping[str, Any], hot: int) -> Iterator[tuple[str, int, int, int]]:
    """The moods of all tweets about topics that were hot in the slot of the tweet."""
    tweets = [
        ((topic, tweet["at"] // SLOT), tweet["text"])
        for tweet in read_json(inputs["tweets"]["value"], TWEET)
        for topic in dict.fromkeys(w for w in tweet["text"].split(" ") if w[:1] == "#" and w[1:])
    ]
    counts = Counter(place for place, _ in tweets)
    moods: dict[str, Counter[str]] = {}
    for place, text in tweets:
        if counts[place] >= hot:
            moods.setdefault(place[0], Counter())[_word(meaning.mood(text))] += 1
    for topic, found in moods.items():
        yield topic, found["positive"], found["neutral"], found["negative"]


def _word(score: int) -> str:
    """As the library suggests: beyond a twentieth of the scale a text has a mood."""
    return "positive" if score >= 500 else "negative" if score <= -500 else "neutral"
