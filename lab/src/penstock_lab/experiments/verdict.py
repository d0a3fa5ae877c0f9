"""Verdicts: whether our number agrees with the paper's.

Effects are compared, not plain numbers. The effect of a ratio or gain is its distance from no
difference (`Claim.neutral`): 1.053 and 1.319 are compared as 5.3 % and 31.9 %. The effect of a
share of windows that meet a bound is the share that misses it (`Claim.ideal`): 0.965 and 0.91 are
compared as 3.5 % and 9 %. All other numbers are compared as they are.
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
"""Verdicts on numbers that the paper gives, in the order of tables."""

_FOR_US = (AGREES, BETTER, DIRECTION)

SLIGHT = 0.1
"""An effect up to this share of the paper's counts as none."""

HALF = 0.5
"""An effect below this share of the paper's is weaker."""

HAIR = 0.01
"""A difference from the neutral number up to this share of it counts as none."""

ROUNDS = 3
"""Rounds on Spark that are needed for a verdict: a single run may be chance."""


@dataclass(frozen=True)
class Cell:
    """Our number, its effect as a share of the paper's, and the verdict.

    spread: minimum and maximum over several rounds; the number is their median.
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
    """The verdict on a number; rounds: the number of runs behind it.

    A number that was put in does not count if it agrees, and counts against us if it does not.
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
    """Our effect as a share of the paper's; None if the paper has no effect or no number."""
    if claim.paper is None:
        return None
    none = claim.ideal if claim.ideal is not None else claim.neutral
    none = 0.0 if none is None or (claim.ideal is None and none == claim.paper) else none
    return (value - none) / (claim.paper - none) + 0.0 if claim.paper != none else None  # no -0


def _compared(claim: Claim, value: float, engine: EngineName) -> str:
    if claim.side is not None:
        assert claim.neutral is not None
        over = value - claim.neutral if claim.side == "above" else claim.neutral - value
        return DIRECTION if over > HAIR * abs(claim.neutral) else DIFFERS
    if claim.paper is None:
        return ""
    share = effect(claim, value)
    if claim.ideal is not None:
        return _missed(claim, value, share)
    close = abs(1.0 - share) <= claim.within + 1e-9 if share is not None else value == claim.paper
    directed = claim.neutral is not None and claim.paper != claim.neutral
    if close and not (directed and engine == "spark"):  # at another size, a close number is chance
        return AGREES
    if not directed or share is None:
        return BETTER if _ahead(claim, value) else DIFFERS
    if share <= SLIGHT:
        return DIFFERS
    if share > 1.0 and _ahead(claim, value) and engine == "simulator":
        return BETTER
    return DIRECTION if share >= HALF else WEAKER


def _missed(claim: Claim, value: float, share: float | None) -> str:
    """Compare misses; share: our misses as a share of the paper's, None if it has none."""
    assert claim.ideal is not None
    if share is None:
        close = abs(value - claim.ideal) <= HAIR * abs(claim.ideal)
        return AGREES if close or _ahead(claim, value) else DIFFERS
    if abs(1.0 - share) <= claim.within + 1e-9:
        return AGREES
    return BETTER if share < 1.0 else DIFFERS


def _ahead(claim: Claim, value: float) -> bool:
    assert claim.paper is not None
    return claim.better == ("higher" if value > claim.paper else "lower")


def meanings(within: Sequence[float] = (0.25,)) -> Mapping[str, str]:
    """Every verdict and its meaning; within: the tolerances that are in use."""
    wide, *narrow = [_percent(share) for share in within or (0.25,)]
    also = f" ({' or '.join(narrow)} where a claim is narrower)" if narrow else ""
    return {
        AGREES: f"the effect is within {wide} of the paper's{also}",
        BETTER: "the effect is larger than the paper's, in the desired direction",
        DIRECTION: f"the effect differs, but is at least {_percent(HALF)} of the paper's; or the "
        "paper names only a direction, and the number differs in that direction by more than "
        f"{_percent(HAIR)}",
        WEAKER: f"the effect has the paper's direction, but less than {_percent(HALF)} of its size",
        DIFFERS: f"none of these; an effect below {_percent(SLIGHT)} of the paper's counts as none",
        UNMEASURED: "the data do not have the number, often because the size is too small",
        GIVEN: "the number was put in or follows from what was put in, and does not count; "
        "if it does not come out, the verdict is weaker or differs",
        VARIED: "found with parameters other than the paper's, and not counted",
        ONE_RUN: f"measured on Spark in fewer than {ROUNDS} rounds, which may be chance, so there "
        "is no verdict",
    }


EFFECT = (
    "*here / paper* compares effects: for a ratio or gain the distance from no difference (1.053 "
    "and 1.319 are compared as 5.3 % and 31.9 %), for a share of windows that meet a bound the "
    "share that misses it, otherwise the numbers themselves"
)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
