"""Ratios as they would be without rounding, so that the unit of time decides no comparison."""

from __future__ import annotations


def plain(ratio: float) -> float:
    """A ratio in twelve digits: what a product or a quotient adds behind them is an error."""
    return float(f"{ratio:.12g}")
