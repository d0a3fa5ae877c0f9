"""Generates tweets in JSON: Zipf words, hashtags, languages, bursts, malformed records.

A tweet is `{"id":7,"user":"u12","lang":"en","text":"..."}`, its text last. The most frequent
words are of its language; made-up words and hashtags are the same in all. In each burst one hashtag
is popular for a while. Malformed tweets are malformed for every parser: cut off inside the text or
before it, not JSON, an empty line, no text, or a null text. There are no values of the wrong type,
because parsers disagree about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidInput
from penstock_lab.workloads.bursts import bursts, check_every
from penstock_lab.workloads.languages import words as said_most
from penstock_lab.workloads.spoiling import check_share, complaint, empty, spoil

_COMMON = """the to and of a in is it you that for on are with as this be at have from or one had
by but not what all were when we there can an your which their said if do will each about how up
out them then she many some so these would other into has more her two like him see time could no
make than first been its who now people my made over did down only way find use may water long
little very after words called just where most know get through back much before go good new
write our used me man too any day same right look think also around another came come work three
word must because does part even place well such here take why things help put years different
away again off went old number great tell men say small every found still between name should
home big give air line set own under read last never us left end along while might next sound
below saw something thought both few those always looked show large often together asked house
world going want school important until form food keep children feet land side without boy once
animals life enough took sometimes four head above kind began almost live page got earth need far
hand high year mother light parts country father let night following picture being study second
eyes soon times story boys since white days ever paper hard near sentence better best across
during today others however sure means knew try told young miles sun ways thing whole hear
example heard several change answer room sea against top turned learn point city play toward five
using himself usually"""

_ONSETS = "b,br,c,ch,cl,d,dr,f,fl,g,gr,h,j,k,l,m,n,p,pl,pr,r,s,sh,sl,sp,st,t,th,tr,v,w,z"
_VOWELS = "a,e,i,o,u,ai,ea,ee,ie,oa,oo,ou"
_CODAS = ",,,l,m,n,nd,r,rt,s,st,t,x"

_LANGS = ("en", "es", "ja", "pt", "ar", "tr", "fr", "de")
_SAID = 40  # known words of a language other than English
_OWN = len(dict.fromkeys(_COMMON.split()))  # words that differ between languages
_LANG_SHARES = (0.50, 0.14, 0.12, 0.08, 0.06, 0.04, 0.03, 0.03)
_USERS = 50_000
_LEAST_WORDS, _MOST_WORDS = 8, 12  # with or without a hashtag
_TAGGED = 0.25
_SLOTS = 1 << 16


@lru_cache(maxsize=4)
def vocabulary(words: int = 4000) -> tuple[str, ...]:
    """Common English words, then made-up ones that can be pronounced; always the same."""
    found = dict.fromkeys(_COMMON.split())
    rng = np.random.Generator(np.random.PCG64(1))
    syllable = [letters.split(",") for letters in (_ONSETS, _VOWELS, _CODAS)]
    while len(found) < words:
        picks = rng.random((512, 6))
        for row in picks.tolist():
            parts = zip(row, syllable * 2, strict=True)
            found["".join(part[int(x * len(part))] for x, part in parts)] = None
    return tuple(found)[:words]


def check_ranks(number: int, exponent: float) -> None:
    """Raise `InvalidInput` if Zipf's law is not defined for these numbers."""
    if not 1 <= number <= _SLOTS:
        raise InvalidInput(f"{number} different ones are not between 1 and {_SLOTS}")
    if not 0 <= exponent <= 10:
        raise InvalidInput(f"an exponent of {exponent:g} is not between 0 and 10")


def zipf_slots(words: int, exponent: float) -> npt.NDArray[np.int32]:
    """A table of 65,536 word numbers, each as frequent as Zipf's law says.

    A uniform random number selects a slot: one look-up per word. Every word has a slot, so no word
    is rarer than one in 65,536.
    """
    shares = 1.0 / np.arange(1, words + 1, dtype=np.float64) ** exponent
    spare = _SLOTS - words
    ends = np.floor(np.cumsum(shares) / shares.sum() * spare).astype(np.int64)
    ends[-1] = spare
    counts = np.diff(ends, prepend=0) + 1
    return np.repeat(np.arange(words, dtype=np.int32), counts)


@dataclass(frozen=True)
class Tweets:
    """Makes the records of a generator with one column, `value`.

    For the first tenth of every `burst` seconds, half of the hashtags are the one of the burst.
    """

    words: int = 4000
    exponent: float = 1.0
    malformed: float = 0.005
    burst: float = 20.0

    def __post_init__(self) -> None:
        check_share(self.malformed)
        check_ranks(self.words, self.exponent)
        check_every(self.burst)

    def __call__(self, rng: np.random.Generator, index: Any, at: Any) -> dict[str, pa.Array]:
        return {"value": tweets(rng, index, at, self)}


def tweets(
    rng: np.random.Generator,
    index: npt.NDArray[np.int64],
    at: npt.NDArray[np.float64],
    of: Tweets,
) -> pa.Array:
    """One JSON string per record. The same state of `rng` gives the same bytes."""
    tables = _tables(of.words, of.exponent)
    count = len(index)
    slots = rng.integers(0, _SLOTS, size=(_MOST_WORDS + 1, count), dtype=np.uint16)
    chosen = tables.slots[slots]
    length = rng.integers(_LEAST_WORDS, _MOST_WORDS + 1, size=count, dtype=np.uint8)
    tagged = rng.random(count) < _TAGGED
    user = rng.integers(0, _USERS, size=count, dtype=np.int64)
    lang = np.searchsorted(tables.langs, rng.random(count), side="right").astype(np.int32)
    burst = bursts(at, of.burst)
    hot = burst.hot & (rng.random(count) < 0.5)
    topic = np.where(hot, (burst.number * 7 + 13) % of.words, chosen[_MOST_WORDS])
    np.add(chosen, tables.own[lang], out=chosen, where=chosen < _OWN)

    # Each part brings what separates it from the next, so that one join makes the tweet. A word
    # past a tweet's length, and the tag of an untagged one, is the empty text at the table's end.
    for place in range(_LEAST_WORDS, _MOST_WORDS):
        chosen[place, length <= place] = of.words
    tag = np.where(tagged, topic, of.words)
    parts = [
        pa.scalar('{"id":'),
        pa.array(index).cast(pa.string()),
        pa.scalar(',"user":"u'),
        pa.array(user).cast(pa.string()),
        tables.heads.take(pa.array(lang)),
        tables.first.take(pa.array(chosen[0])),
        *(tables.rest.take(pa.array(chosen[place])) for place in range(1, _MOST_WORDS)),
        tables.tags.take(pa.array(tag)),
        pa.scalar('"}'),
        pa.scalar(""),
    ]
    whole = pc.binary_join_element_wise(*parts)
    return spoil(rng, whole, of.malformed, KINDS)


@dataclass(frozen=True)
class _Tables:
    slots: npt.NDArray[np.int32]
    langs: npt.NDArray[np.float64]
    own: npt.NDArray[np.int32]
    heads: pa.Array
    first: pa.Array
    rest: pa.Array
    tags: pa.Array


@lru_cache(maxsize=4)
def _tables(words: int, exponent: float) -> _Tables:
    known = [*vocabulary(words), ""]
    tags = pa.array([*(f" #{word}" for word in known[:-1]), ""])
    made_up = vocabulary(2 * _OWN)[_OWN:]
    own = [0]  # offset of the words of a language; those of English come first
    for language in _LANGS[1:]:
        own.append(len(known))
        known += (*said_most(language, _SAID), *made_up[_SAID:])
    return _Tables(
        slots=zipf_slots(words, exponent),
        langs=np.cumsum(_LANG_SHARES)[:-1],
        own=np.array(own, dtype=np.int32),
        heads=pa.array([f'","lang":"{lang}","text":"' for lang in _LANGS]),
        first=pa.array(known),
        rest=pa.array([f" {word}" if word else "" for word in known]),
        tags=tags,
    )


def _truncated(text: str, cut: float) -> str:
    # The closing quote of the text and one letter more are always gone: a reader that keeps what
    # it could read must not get a text.
    return text[: 1 + int(cut * (len(text) - 4))]


def _without_text(text: str, cut: float) -> str:
    return text[: text.index(',"lang"')] + "}"


def _null_text(text: str, cut: float) -> str:
    return text[: text.index(',"text"')] + ',"text":null}'


KINDS = (_truncated, complaint, empty, _without_text, _null_text)
"""Ways in which a tweet can be malformed."""
