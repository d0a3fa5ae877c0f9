"""TwitterSentiment: which tweets pass and what is told of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.workloads import meaning, twitter_sentiment
from penstock.workloads.posts import LANGUAGES
from tests.workloads.doubles import processed

GOOD, BAD, PLAIN = "I love this", "this is awful", "this is it"


def tweets(*given: tuple[int, str]) -> dict[str, pa.Table]:
    texts = [
        json.dumps({"id": i, "at": 1_700_000_000_000 + at, "text": text})
        for i, (at, text) in enumerate(given)
    ]
    return {"tweets": pa.table({"value": [*texts, "", '{"id":1,"at":5}']})}


def test_only_tweets_about_what_is_hot_in_their_slot_count() -> None:
    found = twitter_sentiment.expected(
        tweets(
            (0, f"{GOOD} #sun"),
            (1, f"{BAD} #sun #sun"),  # said twice, meant once
            (2, f"{GOOD} #rain"),  # alone in its slot
            (4_999, f"{PLAIN} #sun #sea"),
            (5_000, f"{GOOD} #sun"),  # the next slot, and alone in it
        ),
        2,
    )
    assert list(found) == [("#sun", 1, 1, 1)]


@pytest.mark.parametrize(
    ("text", "word"), [(GOOD, "positive"), (BAD, "negative"), (PLAIN, "neutral")]
)
def test_the_mood_of_a_tweet(text: str, word: str) -> None:
    assert twitter_sentiment.mood({"topic": "#t", "text": text}) == ("#t", word)


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_size=5)))
def test_a_hot_topic_is_told_once(batches: list[list[tuple[str, int]]]) -> None:
    given: list[list[dict[str, Any]]] = [
        [{"topic": topic, "slot": 1, "n": n} for topic, n in batch] for batch in batches
    ]
    told = list(processed(lambda: twitter_sentiment.Merger(5), (), given))
    assert sorted(told) == sorted({(t, 1) for batch in batches for t, n in batch if n >= 5})


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
