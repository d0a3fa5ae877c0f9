"""Rankings, and what is ranked: hashtags and best sellers."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.workloads import ranking, top_n, twitter_analysis
from tests.workloads.doubles import processed

NAMES = st.sampled_from("abcdefg")


def lines(*given: str) -> pa.Table:
    return pa.table({"value": list(given)})


def test_the_greatest_come_first_and_equals_by_name() -> None:
    assert list(ranking.best({"b": 2, "c": 5, "a": 2, "d": 1}, 3).items()) == [
        ("c", 5),
        ("a", 2),
        ("b", 2),
    ]


@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 1), NAMES), max_size=8), max_size=8),
    size=st.integers(1, 4),
)
def test_the_last_ranking_is_that_of_all_whatever_the_batches(
    batches: list[list[tuple[int, str]]], size: int
) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    updates = []
    for batch in batches:  # as an aggregation sends its updates: once a batch for what changed
        counts.update(batch)
        updates.append(
            [
                {"name": name, "slot": slot, "part": ord(name) % 2, "n": counts[slot, name]}
                for slot, name in dict.fromkeys(batch)
            ]
        )
    parts = [
        [dict(zip(("slot", "name", "n"), row, strict=True)) for row in rows]
        for rows in (
            list(processed(lambda: ranking.Part(size), ("part", "slot"), updates[: i + 1]))
            for i in range(len(updates))
        )
    ]
    # Each list holds what came before too; the ranking of all must not mind to hear it again.
    places: dict[tuple[int, int], tuple[str, int]] = {}
    for slot, place, name, n in processed(lambda: ranking.Whole(size), (), parts):
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


def test_operators_and_expectation_agree_on_what_is_a_tweet() -> None:
    taken = []
    for value in TWEETS["tweets"]["value"].to_pylist():
        try:
            taken += list(twitter_analysis.english_only({"value": value}))
        except (ValueError, KeyError):
            continue
    assert [t["at"] - 1_700_000_000_000 for t in taken] == [0, 1, 10_000]
    assert [twitter_analysis.score(t)["slot"] for t in taken] == [170000000, 170000000, 170000001]
