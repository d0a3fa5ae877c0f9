"""Rankings, and what is ranked: hashtags and best sellers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_lab.workloads import ranking, top_n, twitter_analysis
from penstock_lab.workloads.lines import incomplete
from penstock_lab.workloads.posts import TWEET
from tests.lab.workloads.doubles import Running

NAMES = st.sampled_from("abcdefg")


def lines(*given: str) -> pa.Table:
    return pa.table({"value": list(given)})


def test_the_greatest_come_first_and_equals_by_name() -> None:
    assert list(ranking.best({"b": 2, "c": 5, "a": 2, "d": 1}, 3).items()) == [
        ("c", 5),
        ("a", 2),
        ("b", 2),
    ]


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 1), NAMES), max_size=8), max_size=8),
    size=st.integers(1, 4),
)
def test_the_last_ranking_is_that_of_all_whatever_the_batches(
    batches: list[list[tuple[int, str]]], size: int
) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    part = Running(lambda: ranking.Part(size), ("part", "slot"))
    whole = Running(lambda: ranking.Whole(size), ())
    places: dict[tuple[int, int], tuple[str, int]] = {}
    for batch in batches:
        counts.update(batch)
        updates = [  # as an aggregation sends them: once a batch for what changed
            {"name": name, "slot": slot, "part": ord(name) % 2, "n": counts[slot, name]}
            for slot, name in dict.fromkeys(batch)
        ]
        sent = [dict(zip(("slot", "name", "n"), row, strict=True)) for row in part.take(updates)]
        for slot, place, name, n in whole.take(sent):
            places[slot, place] = name, n
    found = {(slot, place, *entry) for (slot, place), entry in places.items()}
    assert found == set(ranking.expected((pair for batch in batches for pair in batch), size))


def test_the_best_sellers_of_a_slot() -> None:
    bought = lines(
        "1700000000000,5,30,3,buy",
        "1700000000001,6,7,7,buy",
        "1700000000002,6,7,7,view",  # looked at, not bought
        "1700000009999,7,30,3,buy",
        "1700000010000,8,9,9,buy",  # the next slot
        "1700000010001,8,null,9,buy",
        "1700000010001,8,9",
        "",
    )
    found = sorted(ranking.expected(top_n.sales({"clicks": bought}), 10))
    assert found == [
        (170000000, 1, "30", 2),
        (170000000, 2, "7", 1),
        (170000001, 1, "9", 1),
    ]


def tweet(at: int, text: str) -> str:
    return f'{{"id":1,"user":"u1","lang":"en","at":{1_700_000_000_000 + at},"text":"{text}"}}'


TWEETS = {
    "tweets": lines(
        tweet(0, "I love this wonderful morning with my friends #sun #sea"),
        tweet(1, "this weather is terrible and everyone is angry again #rain"),
        tweet(2, "el tiempo está muy malo porque nunca tengo nada #sun"),  # not English
        tweet(10_000, "what a beautiful day to be happy with my friends # #sun"),  # # is no tag
        '{"id":9,"user":"u1","lang":"en","at":1700000000003,"text":null}',
        "upstream timeout after 12 ms",
    )
}


def test_moods_are_averaged_over_english_tweets() -> None:
    first, second = sorted(twitter_analysis.averages(TWEETS))
    assert first[:2] == (170000000, 2)
    assert second[:2] == (170000001, 1)
    assert -5000 < first[2] < 5000 < second[2]  # one of each mood, then a happy one


def test_hashtags_are_those_of_english_tweets() -> None:
    assert list(twitter_analysis.hashtags(TWEETS)) == [
        (170000000, "#sun"),
        (170000000, "#sea"),
        (170000000, "#rain"),
        (170000001, "#sun"),
    ]


def test_a_mood_is_in_the_slot_of_its_tweet() -> None:
    scored = [
        twitter_analysis.score({"at": at, "text": "what a day"})
        for at in (1_700_000_000_000, 1_700_000_010_000)
    ]
    assert [one["slot"] for one in scored] == [170000000, 170000001]
    assert not twitter_analysis.is_english(None)


@pytest.mark.spark
@pytest.mark.all_workloads
def test_spark_and_the_expectation_agree_on_what_is_a_tweet(spark: Any) -> None:
    """What is no tweet stays, and is what the operator rejects."""
    lines = [(line,) for line in TWEETS["tweets"]["value"].to_pylist()]
    found = twitter_analysis.english_only(spark.createDataFrame(lines, "value string"))
    assert found.columns == ["value", "id", "at", "text"]
    bad = incomplete(TWEET)
    sound = [row["at"] - 1_700_000_000_000 for row in found.where(f"NOT ({bad})").collect()]
    assert sorted(sound) == [0, 1, 10_000]
    rejected = [row["value"] for row in found.where(bad).collect()]
    assert sorted(rejected) == sorted(line for (line,) in lines[-2:])


def test_only_places_that_changed_are_sent_again() -> None:
    whole = Running(lambda: ranking.Whole(3), ())
    first = [{"slot": 1, "name": name, "n": n} for name, n in (("a", 5), ("b", 4), ("c", 3))]
    assert len(list(whole.take(first))) == 3
    assert list(whole.take([{"slot": 1, "name": "c", "n": 5}])) == [(1, 2, "c", 5), (1, 3, "b", 4)]
    assert list(whole.take([{"slot": 1, "name": "d", "n": 1}])) == []
