"""Makes a share of the records malformed, so that every parser has to cope with some.

A line is broken in one of several ways. A record of numbers lacks its first number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidInput

Kind = Callable[[str, float], str]
"""Makes a broken line from a valid one and a random number between 0 and 1."""


def spoil(
    rng: np.random.Generator, lines: pa.Array, share: float, kinds: Sequence[Kind]
) -> pa.Array:
    """The lines with a share of them broken, each in one of these ways."""
    broken = np.flatnonzero(rng.random(len(lines)) < share)
    if not len(broken):
        return lines
    ways = rng.integers(0, len(kinds), size=len(broken)).tolist()
    cuts = rng.random(len(broken)).tolist()
    sound = lines.take(pa.array(broken)).to_pylist()
    spoilt = [kinds[way](text, cut) for text, way, cut in zip(sound, ways, cuts, strict=True)]
    mask = np.zeros(len(lines), dtype=bool)
    mask[broken] = True
    return pc.replace_with_mask(lines, pa.array(mask), pa.array(spoilt, pa.string()))


def lacking(rng: np.random.Generator, numbers: npt.NDArray[np.int64], share: float) -> pa.Array:
    """The numbers with a share of them set to null."""
    return pa.array(numbers, mask=rng.random(len(numbers)) < share)


def without_gaps(table: pa.Table, column: str) -> pa.Table:
    """The records in which no number is missing."""
    numbers = table[column]
    return table.filter(pc.is_valid(numbers)) if numbers.null_count else table


def check_share(share: float) -> None:
    """Raise `InvalidInput` if this is not a share between 0 and 1."""
    if not 0 <= share <= 1:
        raise InvalidInput(f"a share of {share:g} malformed records is not between 0 and 1")


def empty(text: str, cut: float) -> str:
    """An empty line."""
    return ""


def complaint(text: str, cut: float) -> str:
    """What a broken upstream writes instead of a record."""
    return f"upstream timeout after {int(cut * 5000)} ms"


def short(text: str, cut: float) -> str:
    """Cut the line off before its last comma, so that no parser accepts the rest."""
    return text[: int(cut * text.rfind(","))]
