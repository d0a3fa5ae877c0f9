"""The word count's tweets and what it expects of its sink."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from penstock import workloads
from penstock.dataflow.connectors import Generator
from penstock.dataflow.generator import records
from penstock.dataflow.operators import Frame, Read
from penstock_lab.workloads import wordcount
from penstock_lab.workloads.languages import words
from penstock_lab.workloads.tweets import vocabulary, zipf_slots


def source(**options: object) -> Generator:
    body = workloads.build("wordcount", "out", **options).graph["tweets"].body
    assert isinstance(body, Read)
    assert isinstance(body.source, Generator)
    return body.source


def lines(count: int, **options: object) -> list[str | None]:
    table = pa.Table.from_batches(records(source(**options), 0, count))
    return table["value"].to_pylist()  # type: ignore[no-any-return]


def naive_text(line: str) -> str | None:
    try:
        return json.loads(line).get("text")  # type: ignore[no-any-return]
    except ValueError:
        return None


def test_the_same_seed_gives_the_same_bytes() -> None:
    digest = hashlib.sha256("\n".join(map(str, lines(3000))).encode()).hexdigest()
    assert digest[:16] == "7bfa10a05637c4c4"
    assert lines(100, seed=1) != lines(100)


def test_tweets_are_json_with_eight_to_thirteen_words() -> None:
    tweets = [json.loads(line or "") for line in lines(2000, malformed=0.0)]
    assert [t["id"] for t in tweets] == list(range(2000))
    assert {tuple(t) for t in tweets} == {("id", "user", "lang", "text")}
    sizes = Counter(len(t["text"].split(" ")) for t in tweets)
    assert set(sizes) == {8, 9, 10, 11, 12, 13}
    tagged = sum("#" in t["text"] for t in tweets) / len(tweets)
    assert tagged == pytest.approx(0.25, abs=0.04)


def test_the_language_of_a_tweet_shows_in_its_text() -> None:
    tweets = [json.loads(line or "") for line in lines(4000, malformed=0.0)]
    spoken = Counter(t["lang"] for t in tweets)
    assert spoken["en"] / len(tweets) == pytest.approx(0.5, abs=0.03)
    assert set(spoken) == {"en", "es", "ja", "pt", "ar", "tr", "fr", "de"}
    for language in spoken:
        own = set(words(language, 40)) if language != "en" else set(vocabulary(40))
        texts = [t["text"].split(" ") for t in tweets if t["lang"] == language]
        assert sum(bool(own & set(text)) for text in texts) / len(texts) > 0.9
    foreign = {w for t in tweets if t["lang"] not in ("en", "tr") for w in t["text"].split(" ")}
    assert not foreign & {"the", "and", "is", "you", "people", "important"}


def test_one_hashtag_is_on_everybodys_lips_in_a_burst() -> None:
    def most(first: int) -> float:
        made = lines(first + 2000, load="1000/s", malformed=0.0)[first:]
        tags = Counter(w for line in made for w in json.loads(line or "")["text"].split(" ")
                       if w.startswith("#"))  # fmt: skip
        return tags["#with"] / tags.total()

    assert most(0) == pytest.approx(0.5, abs=0.06)
    assert most(2000) < 0.06


def test_one_in_two_hundred_is_malformed_in_ways_every_reader_agrees_on() -> None:
    made = lines(40_000)
    bad = [line for line in made if line is not None and naive_text(line) is None]
    assert len(bad) / len(made) == pytest.approx(0.005, abs=0.001)
    kinds = Counter(
        "empty"
        if not line
        else "plain"
        if not line.startswith("{")
        else "null"
        if line.endswith('"text":null}')
        else "without"
        if line.endswith("}")
        else "truncated"
        for line in bad
    )
    assert set(kinds) == {"empty", "plain", "null", "without", "truncated"}
    # A reader that keeps the fields it got before the cut must not find a whole text.
    assert not any(line.partition('"text":"')[2].endswith('"') for line in bad)


def test_words_follow_zipf() -> None:
    slots = np.bincount(zipf_slots(4000, 1.0), minlength=4000)
    assert slots.sum() == 65_536
    assert slots.min() >= 1
    assert slots[0] / slots[9] == pytest.approx(10, rel=0.02)
    assert len(set(vocabulary(4000))) == 4000


def test_the_expected_counts_are_those_of_a_naive_count() -> None:
    made = lines(5000, malformed=0.05)
    texts = [naive_text(line or "") for line in made]
    naive = Counter(w for t in texts if t is not None for w in t.split(" ") if w)
    inputs = {"tweets": pa.table({"value": made})}
    assert dict(wordcount.expected(inputs)) == dict(naive)


def test_tweets_the_generator_does_not_make_are_counted_as_json_has_them() -> None:
    odd = [
        '{"text":"a  b "}',
        '{"text": "caf\\u00e9 \\"a\\"", "id": 3}',
        '{"id":1,"user":"u","lang":"en","text":""}',
        "[1,2]",
        '{"text":7}',
        "nonsense",
    ]
    counts = dict(wordcount.expected({"tweets": pa.table({"value": odd})}))
    assert counts == {"a": 1, "b": 1, "café": 1, '"a"': 1}


def test_an_empty_input_expects_nothing() -> None:
    empty = pa.table({"value": pa.array([], pa.string())})
    assert dict(wordcount.expected({"tweets": empty})) == {}


def test_the_dataflow_rejects_what_has_no_text() -> None:
    graph = workloads.build("wordcount", "out").graph
    assert [o.name for o in graph.operators] == ["tweets", "parse", "split", "count", "counts"]
    body = graph["parse"].body
    assert isinstance(body, Frame)
    assert body.reject == "text IS NULL"
    assert graph.constraints[0].name == "parse->count"
