"""TwitterSentiment: moods of tweets about popular topics, with two latency constraints.

As in Nephele's figure 7, there are two copies of each tweet. One goes to `hot-topics`, which counts
hashtags over windows of 200 ms and reports each window when it ends. `merge` makes one list of
popular topics from all reports of a window and sends it to every filter. The other copy goes to
`filter`, which passes a tweet on if one of its topics is on the current list. Its mood is found
(`sentiment`) and added up by topic (`track`).

Two things differ from the paper, so that the result depends on the tweets alone, not on the speed
of a branch:

- The current list is that of the window before the tweet's own, by event time, and a filter lets a
  tweet wait until it has that list. In the paper it is the list that arrived last.
- Tweets are dealt to shards by their number (in the paper round-robin to tasks), and an instance of
  `hot-topics` or `filter` has some of the shards. Within a shard tweets come in order, so a window
  ends when a later tweet arrives, and a list is made when a window has ended in every shard. The
  last windows of an input get no list, since nothing arrives after them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.dataflow.connectors import Generator, Parquet
from penstock.dataflow.flow import Dataflow
from penstock.dataflow.operators import Estimate
from penstock.errors import InvalidInput
from penstock_lab.workloads import meaning
from penstock_lab.workloads.lines import parse_json, read_json
from penstock_lab.workloads.memo import Memo
from penstock_lab.workloads.posts import TWEET, Posts
from penstock_lab.workloads.ranking import best

WINDOW = 200
"""Length of a window in milliseconds."""

SHARDS = 16
"""Number of shards of tweets: the most instances of `hot-topics` and `filter` that have work."""

MOST = 100
"""Largest parallelism of the elastic operators in the paper."""

_TAGS = "array_distinct(filter(split(text, ' '), word -> word LIKE '#_%'))"

_DEALT = "shard bigint, window bigint, topics array<string>, text string"
"""A copy of a tweet, or a list of popular topics for a shard (without a text)."""


def build(
    out: Path | str,
    *,
    load: str = "days:200-600@60s",
    seed: int = 0,
    limit: int | None = None,
    exponent: float = 1.0,
    malformed: float = 0.005,
    burst: float = 20,
    popular: int = 10,
    shards: int = SHARDS,
    topics_latency: str = "5s",
    sentiment_latency: str = "3s",
) -> Dataflow:
    """Build the dataflow; a list has `popular` topics, moods go to `out`/moods.

    The bounds in the paper are 215 and 30 ms; these are for micro-batches.
    """
    meaning.need("twitter-sentiment", "vaderSentiment")
    if popular < 1 or shards < 1:
        raise InvalidInput(f"popular {popular}, shards {shards}: both have to be 1 or more")
    flow = Dataflow("twitter-sentiment")
    source = Generator(Posts(exponent, malformed, burst), "value string", load, seed, limit)
    parsed = parse_json(flow.source("tweets", source), "parse", TWEET)
    dealt = parsed.frame(
        "deal",
        lambda df: df.selectExpr(
            f"pmod(id, {shards}) AS shard",
            f"at div {WINDOW} AS window",
            f"{_TAGS} AS topics",
            "text",
        ),
        schema=_DEALT,
        estimate=Estimate(3e-6),
    )
    reports = dealt.key_by("shard").process(
        "hot-topics",
        HotTopics,
        schema="shard bigint, window bigint, closed bigint, counts string",
        max_parallelism=min(MOST, shards),
        selectivity="workload-dependent",
        estimate=Estimate(2e-5, 0.2),
    )
    lists = reports.process_all(
        "merge",
        lambda: Merger(shards, popular),
        schema=_DEALT,
        selectivity="workload-dependent",
        estimate=Estimate(5e-5),
    )
    passed = (
        dealt.union("copies", lists)
        .key_by("shard")
        .process(
            "filter",
            Filter,
            schema="topic string, text string",
            max_parallelism=min(MOST, shards),
            selectivity="workload-dependent",
            estimate=Estimate(2e-5, 0.3),
        )
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
    flow.expect("moods", lambda inputs: expected(inputs, shards, popular), keys=("topic",))
    return flow


MOODS = ("positive", "neutral", "negative")


def mood(record: Mapping[str, Any]) -> tuple[str, str]:
    """The topic of a tweet and its mood as a word."""
    return record["topic"], _word(meaning.mood(record["text"]))


class HotTopics:
    """Processor that counts the topics of a shard and reports each window when it ends."""

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "counts", {"window": None, "counts": {}})

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        held = self._memo.read()
        window, counts = held["window"], Counter(held["counts"])
        for row in rows:
            if row.window != window:  # the first report of a shard says with which window it begins
                yield key[0], window, row.window - 1, json.dumps(counts)
                window, counts = row.window, Counter()
            counts.update(row.topics)
        self._memo.write({"window": window, "counts": counts})

    def close(self) -> None:
        pass


@dataclass
class Merger:
    """Processor that makes the list of a window when it has ended in all shards."""

    shards: int
    popular: int

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "windows", {"closed": {}, "counts": {}})

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        held = self._memo.read()
        closed: dict[str, int] = held["closed"]
        windows = {int(window): Counter(counts) for window, counts in held["counts"].items()}
        for row in rows:
            closed[str(row.shard)] = row.closed
            if row.window is not None:
                windows.setdefault(row.window, Counter()).update(json.loads(row.counts))
        over = min(closed.values()) if len(closed) == self.shards else -1
        for window in sorted(one for one in windows if one <= over):
            topics = [*best(windows.pop(window), self.popular)]
            for shard in range(self.shards):
                yield shard, window, topics, None
        self._memo.write({"closed": closed, "counts": windows})

    def close(self) -> None:
        pass


class Filter:
    """Processor that passes on the tweets of a shard whose topics are popular.

    It keeps the lists that later tweets may need, and the tweets whose list has not arrived yet.
    """

    def init(self, handle: Any) -> None:
        self._memo = Memo(handle, "lists", {"last": -1, "seen": 0, "lists": {}, "waiting": []})

    def handleInputRows(self, key: Any, rows: Iterable[Any], timers: Any) -> Iterator[Any]:
        held = self._memo.read()
        last, seen, waiting = held["last"], held["seen"], held["waiting"]
        lists = {int(window): topics for window, topics in held["lists"].items()}
        for row in rows:
            if row.text is None:
                last = row.window
                lists[last] = row.topics
            else:
                seen = row.window
                waiting.append((seen, row.topics, row.text))
        ready = [tweet for tweet in waiting if tweet[0] - 1 <= last]
        for window, topics, text in ready:
            current = lists.get(window - 1, ())
            yield from ((topic, text) for topic in topics if topic in current)
        waiting = waiting[len(ready) :]
        oldest = (waiting[0][0] if waiting else seen) - 1
        needed = {window: topics for window, topics in lists.items() if window >= oldest}
        self._memo.write({"last": last, "seen": seen, "lists": needed, "waiting": waiting})

    def close(self) -> None:
        pass


def expected(
    inputs: Mapping[str, Any], shards: int, popular: int
) -> Iterator[tuple[str, int, int, int]]:
    """Moods of all tweets about topics on the list of the window before their own."""
    tweets = [
        (tweet["id"] % shards, tweet["at"] // WINDOW, _topics(tweet["text"]), tweet["text"])
        for tweet in read_json(inputs["tweets"]["value"], TWEET)
    ]
    newest: dict[int, int] = {}
    counts: dict[int, Counter[str]] = {}
    for shard, window, topics, _ in tweets:
        newest[shard] = window
        counts.setdefault(window, Counter()).update(topics)
    over = min(newest.values()) - 1 if len(newest) == shards else -1
    lists = {window: best(found, popular) for window, found in counts.items() if window <= over}
    moods: dict[str, Counter[str]] = {}
    for _, window, topics, text in tweets:
        for topic in topics:
            if topic in lists.get(window - 1, ()):
                moods.setdefault(topic, Counter())[_word(meaning.mood(text))] += 1
    for topic, told in moods.items():
        yield topic, told["positive"], told["neutral"], told["negative"]


def _topics(text: str) -> list[str]:
    """The distinct hashtags of a text."""
    return [*dict.fromkeys(word for word in text.split(" ") if word[:1] == "#" and word[1:])]


def _word(score: int) -> str:
    """Mood as a word; neutral within a twentieth of the scale, as the library suggests."""
    return "positive" if score >= 500 else "negative" if score <= -500 else "neutral"
