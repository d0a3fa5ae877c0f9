"""Verdicts: whether a number that was read off here agrees with the paper's.

What is compared is the effect, not the number that carries it. Of a ratio or a gain it is the
distance from no difference (`Claim.neutral`): 1.053 beside 1.319 is 5.3 % beside 31.9 %. Of a share
of windows that meet a bound it is the share that misses it (`Claim.ideal`): 0.965 beside 0.91 is
3.5 % beside 9 %. All other numbers are compared as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock_lab.experiments.experiment import Claim, EngineName

AGREES, BETTER, DIRECTION, WEAKER = "agrees", "better", "same direction", "weaker"
DIFFERS, UNMEASURED = "differs", "not measured"
GIVEN, VARIED, ONE_RUN = "given", "varied", "one run"

VERDICTS = (AGREES, BETTER, DIRECTION, WEAKER, DIFFERS, UNMEASURED, GIVEN, ONE_RUN)
"""Those of numbers that the paper has, in the order of tables."""

_FOR_US = (AGREES, BETTER, DIRECTION)

SLIGHT = 0.1
"""An effect that is so small a share of the paper's is none."""

HALF = 0.5
"""An effect that is a smaller share of the paper's is weaker."""

HAIR = 0.01
"""What is on no side, where the paper says a side alone: so small a share of what is between."""

ROUNDS = 3
"""Runs of a case on Spark that it takes to compare it: a single one may be chance."""


@dataclass(frozen=True)
class Cell:
    """A number that was read off here, the effect beside the paper's, and what that comes to.

    spread: the least and the most of several rounds, of which the number is the median.
    """

    value: float | None
    ratio: float | None
    verdict: str
    spread: tuple[float, float] | None = None


def judged(
    claim: Claim,
    value: float | None,
    engine: EngineName = "simulator",
    rounds: int = ROUNDS,
    spread: tuple[float, float] | None = None,
) -> Cell:
    """The verdict on a number; rounds: how many runs it was read off.

    What was put in counts for nothing where it comes out, and against us where it does not.
    """
    if value is None or not math.isfinite(value):
        return Cell(None, None, UNMEASURED)
    found = _compared(claim, value, engine)
    if claim.basis == "varied":
        found = VARIED
    elif (claim.basis == "given" or claim.given_on == engine) and found in _FOR_US:
        found = GIVEN
    elif engine == "spark" and rounds < ROUNDS and found:
        found = ONE_RUN
    return Cell(value, effect(claim, value), found, spread)


def effect(claim: Claim, value: float) -> float | None:
    """What is seen here beside what the paper saw; None where the paper saw nothing, or no size."""
    if claim.seed is None:
        return None
    none = claim.ideal if claim.ideal is not None else claim.neutral
    none = 0.0 if none is None or (claim.ideal is None and none == claim.seed) else none
    return (value - none) / (claim.seed - none) + 0.0 if claim.seed != none else None  # no -0


def _compared(claim: Claim, value: float, engine: EngineName) -> str:
    if claim.side is not None:
        assert claim.neutral is not None
        over = value - claim.neutral if claim.side == "above" else claim.neutral - value
        return DIRECTION if over > HAIR * abs(claim.neutral) else DIFFERS
    if claim.seed is None:
        return ""
    share = effect(claim, value)
    if claim.ideal is not None:
        return _missed(claim, value, share)
    close = abs(1.0 - share) <= claim.within + 1e-9 if share is not None else value == claim.seed
    directed = claim.neutral is not None and claim.seed != claim.neutral
    if close and not (directed and engine == "spark"):  # at another size it is close by chance
        return AGREES
    if not directed or share is None:
        return BETTER if _ahead(claim, value) else DIFFERS
    if share <= SLIGHT:
        return DIFFERS
    if share > 1.0 and _ahead(claim, value) and engine == "simulator":
        return BETTER
    return DIRECTION if share >= HALF else WEAKER


def _missed(claim: Claim, value: float, share: float | None) -> str:
    """Judge what is missed; share: beside the paper's misses, None where it misses nothing."""
    assert claim.ideal is not None
    if share is None:
        close = abs(value - claim.ideal) <= HAIR * abs(claim.ideal)
        return AGREES if close or _ahead(claim, value) else DIFFERS
    if abs(1.0 - share) <= claim.within + 1e-9:
        return AGREES
    return BETTER if share < 1.0 else DIFFERS


def _ahead(claim: Claim, value: float) -> bool:
    assert claim.seed is not None
    return claim.better == ("higher" if value > claim.seed else "lower")


def meanings(within: Sequence[float] = (0.25,)) -> Mapping[str, str]:
    """Every verdict, and what it says; within: how far apart effects that agree may be."""
    wide, *narrow = [_percent(share) for share in within or (0.25,)]
    also = f" ({' or '.join(narrow)} where a claim is narrower)" if narrow else ""
    return {
        AGREES: f"the effect is within {wide} of the paper's{also}",
        BETTER: "it is further away, in the direction that everybody wants",
        DIRECTION: f"the effect has another size, but at least {_percent(HALF)} of the paper's; or "
        "the paper names a side and no size, and the number is on that side by more than "
        f"{_percent(HAIR)}",
        WEAKER: f"the effect has the paper's direction, but less than {_percent(HALF)} of its size",
        DIFFERS: f"none of these; an effect below {_percent(SLIGHT)} of the paper's counts as none",
        UNMEASURED: "the data do not say, often as the size is too small",
        GIVEN: "the number was put in, or follows from what was, so that it counts for nothing; "
        "where it does not come out all the same, it is weaker or differs",
        VARIED: "found with other parameters than the paper's, and not counted",
        ONE_RUN: f"measured on Spark in fewer than {ROUNDS} rounds, which may be chance, and not "
        "judged",
    }


EFFECT = (
    "*here / seed* compares effects: of a ratio or a gain the distance from no difference (1.053 "
    "beside 1.319 is 5.3 % beside 31.9 %), of a share of windows that meet a bound the share that "
    "misses it, and else the numbers themselves"
)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
