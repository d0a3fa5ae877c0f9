"""Ratios as they would be without rounding, so that the unit of time decides no comparison."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def plain(ratio: float) -> float:
    """A ratio in twelve digits: what a product or a quotient adds behind them is an error."""
    return float(f"{ratio:.12g}")


def plains(ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The same of many, of which many are alike."""
    values, places = np.unique(ratios, return_inverse=True)
    return np.array([plain(value) for value in values.tolist()], np.float64)[places]
