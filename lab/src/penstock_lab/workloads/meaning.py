"""Language and mood of a text, found with the libraries of the extra `apps`.

Both libraries bring their models, need no network, and are deterministic.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from penstock.errors import InvalidInput
from penstock_lab.workloads.posts import LANGUAGES


def need(workload: str, *packages: str) -> None:
    """Raise `InvalidInput` if a library is not installed."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise InvalidInput(
            f"workload '{workload}' needs {' and '.join(missing)}: pip install 'penstock-lab[apps]'"
        )


def language(text: str) -> str:
    """The language of a text, one of `LANGUAGES`."""
    return str(_detector().classify(text)[0])


def mood(text: str) -> int:
    """Mood of a text from -10,000 (worst) to 10,000 (best)."""
    # The library rounds to four decimals, so this is a whole number and sums are exact.
    return round(float(_analyser().polarity_scores(text)["compound"]) * 10_000)


@lru_cache(maxsize=1)
def _detector() -> Any:
    import py3langid

    py3langid.set_languages(list(LANGUAGES))
    return py3langid


@lru_cache(maxsize=1)
def _analyser() -> Any:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
