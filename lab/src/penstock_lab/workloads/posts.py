"""Generates tweets in several languages, with moods and topics that come in bursts.

A tweet is `{"id":7,"user":"u12","lang":"en","at":1700000000123,"text":"..."}`, its text last. Words
have Zipf frequencies within their language. In each burst one hashtag is popular for a while.
Malformed tweets are those of `tweets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.languages import words
from penstock_lab.workloads.lines import column, millis, picked
from penstock_lab.workloads.spoiling import check_share, spoil
from penstock_lab.workloads.tweets import KINDS, check_ranks, vocabulary, zipf_slots

TWEET = "id bigint, at bigint, text string"

LANGUAGES = ("en", "es", "fr", "de", "pt")
_SHARES = (0.60, 0.15, 0.10, 0.08, 0.07)
_SIZE = 60
_LEAST, _MOST = 8, 14
_USERS = 50_000
_TOPICS = 200
_TAGGED, _TWICE = 0.5, 0.1
_SLOTS = 1 << 16


@dataclass(frozen=True)
class Posts:
    """Makes the records of a generator with one column, `value`.

    For the first tenth of every `burst` seconds, half of the hashtags are the one of the burst.
    """

    exponent: float = 1.0
    malformed: float = 0.005
    burst: float = 20.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_every(self.burst)
        check_ranks(_TOPICS, self.exponent)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, pa.Array]:
        tables, count = _tables(self.exponent), len(index)
        language = np.searchsorted(np.cumsum(_SHARES)[:-1], rng.random(count), side="right")
        slots = rng.integers(0, _SLOTS, size=(_MOST, count), dtype=np.uint16)
        words = tables.words[slots] + language * _SIZE
        length = rng.integers(_LEAST, _MOST + 1, size=count)
        for place in range(_LEAST, _MOST):
            words[place, length <= place] = _SIZE * len(LANGUAGES)  # the empty string at the end
        users = rng.integers(0, _USERS, size=count)
        tags = [self._tags(rng, tables, at, share) for share in (_TAGGED, _TWICE)]
        parts = [
            pa.scalar('{"id":'),
            column(index),
            pa.scalar(',"user":"u'),
            column(users),
            picked(tables.heads, language),
            column(millis(at)),
            picked(tables.first, words[0]),
            *(picked(tables.rest, words[place]) for place in range(1, _MOST)),
            *(picked(tables.tags, tag) for tag in tags),
            pa.scalar('"}'),
            pa.scalar(""),
        ]
        return {"value": spoil(rng, pc.binary_join_element_wise(*parts), self.malformed, KINDS)}

    def _tags(
        self, rng: np.random.Generator, tables: _Tables, at: npt.NDArray[np.float64], share: float
    ) -> npt.NDArray[np.int64]:
        """The number of the hashtag of every tweet; `_TOPICS` means none."""
        usual = tables.topics[rng.integers(0, _SLOTS, size=len(at), dtype=np.uint16)]
        burst = bursts(at, self.burst)
        hot = burst.hot & (rng.random(len(at)) < 0.5)
        chosen = np.where(hot, (burst.number * 7 + 13) % _TOPICS, usual)
        return np.where(rng.random(len(at)) < share, chosen, _TOPICS)


@dataclass(frozen=True)
class _Tables:
    words: npt.NDArray[np.int64]
    topics: npt.NDArray[np.int64]
    heads: pa.Array
    first: pa.Array
    rest: pa.Array
    tags: pa.Array


@lru_cache(maxsize=4)
def _tables(exponent: float) -> _Tables:
    known = [word for name in LANGUAGES for word in words(name, _SIZE)]
    topics = vocabulary(400 + _TOPICS)[400:]  # made-up words have no language and no mood
    return _Tables(
        words=zipf_slots(_SIZE, exponent).astype(np.int64),
        topics=zipf_slots(_TOPICS, exponent).astype(np.int64),
        heads=pa.array([f'","lang":"{language}","at":' for language in LANGUAGES]),
        first=pa.array([f',"text":"{word}' for word in known]),
        rest=pa.array([*(f" {word}" for word in known), ""]),
        tags=pa.array([*(f" #{topic}" for topic in topics), ""]),
    )
