"""TwitterSentiment: which tweets pass and what is told of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_lab.workloads import meaning, twitter_sentiment
from penstock_lab.workloads.posts import LANGUAGES
from tests.lab.workloads.doubles import Running

GOOD, BAD, PLAIN = "I love this", "this is awful", "this is it"


def tweets(*given: tuple[int, str], first: int = 0) -> dict[str, pa.Table]:
    """Tweets as (milliseconds, text), and two lines that are no tweets."""
    texts = [
        json.dumps({"id": first + i, "at": 1_700_000_000_000 + at, "text": text})
        for i, (at, text) in enumerate(given)
    ]
    return {"tweets": pa.table({"value": [*texts, "", '{"id":1,"at":5}']})}


def test_a_tweet_passes_if_its_topic_was_popular_in_the_window_before() -> None:
    found = twitter_sentiment.expected(
        tweets(
            (0, f"{GOOD} #sun"),  # before it there was no list
            (1, f"{PLAIN} #sun #sun #rain"),  # said twice, meant once
            (200, f"{BAD} #sun"),  # matched with the list of the first window: #sun
            (399, f"{GOOD} #rain"),  # less popular there
            (400, f"{GOOD} #rain"),  # in the second window it is first by name
            (600, PLAIN),
        ),
        shards=1,
        popular=1,
    )
    assert sorted(found) == [("#rain", 1, 0, 0), ("#sun", 0, 0, 1)]


def test_a_list_is_made_when_every_shard_has_gone_on() -> None:
    given = [(0, f"{GOOD} #sun"), (1, f"{GOOD} #sun"), (200, f"{GOOD} #sun"), (201, PLAIN)]
    assert not list(twitter_sentiment.expected(tweets(*given[:3]), shards=2, popular=1))
    assert list(twitter_sentiment.expected(tweets(*given), shards=2, popular=1))


def test_after_a_window_without_tweets_nothing_is_popular() -> None:
    given = [(0, f"{GOOD} #sun"), (400, f"{GOOD} #sun"), (600, f"{GOOD} #sun"), (800, PLAIN)]
    found = twitter_sentiment.expected(tweets(*given), shards=1, popular=1)
    assert list(found) == [("#sun", 1, 0, 0)], "that of 600 ms alone"


Tweet = tuple[int, int, tuple[str, ...]]
"""Milliseconds after the tweet before, the number of the id after the last, and topics."""

TWEETS = st.lists(
    st.tuples(
        st.integers(0, 250),
        st.integers(1, 4),
        st.lists(st.sampled_from(["#a", "#b", "#c"]), max_size=2).map(tuple),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(TWEETS, st.integers(1, 3), st.integers(1, 2), st.randoms(use_true_random=False))
def test_whatever_the_batches_are_the_operators_pass_what_is_expected(
    given: list[Tweet], shards: int, popular: int, chance: Any
) -> None:
    at, number, rows, values = 1_700_000_000_000, 0, [], []
    for later, more, topics in given:
        at, number = at + later, number + more
        text = " ".join([GOOD, *topics])
        values.append(json.dumps({"id": number, "at": at, "text": text}))
        rows.append(
            {
                "shard": number % shards,
                "window": at // twitter_sentiment.WINDOW,
                "topics": [*dict.fromkeys(topics)],
                "text": text,
            }
        )
    expected = twitter_sentiment.expected({"tweets": pa.table({"value": values})}, shards, popular)
    counting = Running(twitter_sentiment.HotTopics, ("shard",))
    merging = Running(lambda: twitter_sentiment.Merger(shards, popular), ())
    passing = Running(twitter_sentiment.Filter, ("shard",))
    passed: list[str] = []
    reports: list[dict[str, Any]] = []
    copies: list[dict[str, Any]] = []
    lists: list[dict[str, Any]] = []
    left = list(rows)
    while left or reports or copies or lists:
        cut = chance.randint(0, len(left))
        batch, left = left[:cut], left[cut:]
        reports += [dict(zip(REPORT, r, strict=True)) for r in counting.take(batch)]
        copies += batch
        if chance.random() < 0.5 or not left:
            lists += [dict(zip(ARRIVAL, r, strict=True)) for r in merging.take(reports)]
            reports = []
        if chance.random() < 0.5 or not left:
            arrivals = []
            while copies or lists:  # each in its order, and beside each other as they like
                some = copies if not lists or (copies and chance.random() < 0.5) else lists
                arrivals.append(some.pop(0))
            passed += [topic for topic, _ in passing.take(arrivals)]
    assert Counter(passed) == {topic: sum(moods) for topic, *moods in expected}


REPORT = ("shard", "window", "closed", "counts")
ARRIVAL = ("shard", "window", "topics", "text")


def test_a_filter_forgets_lists_that_no_tweet_will_ask_for() -> None:
    running = Running(twitter_sentiment.Filter, ("shard",))
    for window in range(50):
        tweet = {"shard": 0, "window": window, "topics": ["#a"], "text": "x"}
        told = {"shard": 0, "window": window, "topics": ["#a"], "text": None}
        assert len([*running.take([tweet, told])]) == (window > 0)
    held = running._processor._memo.read()
    assert len(held["lists"]) <= 2
    assert not held["waiting"]


@pytest.mark.parametrize(
    ("text", "word"), [(GOOD, "positive"), (BAD, "negative"), (PLAIN, "neutral")]
)
def test_the_mood_of_a_tweet(text: str, word: str) -> None:
    assert twitter_sentiment.mood({"topic": "#t", "text": text}) == ("#t", word)


def test_languages_are_told_apart() -> None:
    said = {
        "en": "the weather is beautiful and everyone is happy today",
        "es": "hoy la gente está muy feliz porque hace buen tiempo",
        "fr": "nous sommes toujours heureux quand il fait beau dans la rue",
        "de": "heute ist das Wetter schön und alle sind sehr glücklich",
        "pt": "hoje nós não temos nada para fazer em casa com você",
    }
    assert set(said) == set(LANGUAGES)
    assert {language: meaning.language(text) for language, text in said.items()} == {
        language: language for language in said
    }
