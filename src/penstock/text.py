"""Numbers as people read them, in few columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

_NOTHING = "-"
_SPARKS = "▁▂▃▄▅▆▇█"


def _known(value: float | None) -> TypeGuard[float]:
    """A number that is not finite says as little as one that was not measured."""
    return value is not None and math.isfinite(value)


def count(value: float | None) -> str:
    """`812`, `9,950`, `63.2k`, `1.25M`: at most six characters up to a trillion."""
    if not _known(value):
        return _NOTHING
    if abs(value) < 9999.5:
        return f"{value:,.0f}"
    for limit, divisor, unit in ((1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if abs(value) < limit * 0.99995:
            scaled = value / divisor
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{unit}"
    return f"{value / 1e12:.3g}T"


def figure(value: float | None) -> str:
    """A number of a decision, whose unit only its name tells."""
    return f"{value:.4g}" if _known(value) else _NOTHING


def rate(value: float | None) -> str:
    """Rows per second; small rates keep a digit."""
    if not _known(value):
        return _NOTHING
    return f"{value:.1f}" if 0 < value < 9.95 else count(value)


def span(seconds: float | None) -> str:
    """`8.2 ms`, `410 ms`, `1.32 s`, `12.4 s`, `3m10s`."""
    if not _known(seconds):
        return _NOTHING
    if seconds <= -0.00005:
        return f"-{span(-seconds)}"
    if seconds < 0.00995:
        seconds = abs(seconds)  # what is left of it by rounding has no sign
        return f"{1000 * seconds:.1f} ms"
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def clock(seconds: float) -> str:
    """Time that has passed: `0:07`, `12:30`, `1:02:03`."""
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def share(value: float | None) -> str:
    """A part of one as a percentage."""
    return f"{100 * value:.0f}%".replace("-0%", "0%") if _known(value) else _NOTHING


def size(value: float | None) -> str:
    """Bytes, in the units of the operating system's tools: `1.5 GiB`."""
    if not _known(value):
        return _NOTHING
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def spark(values: Sequence[float], width: int, top: float | None = None) -> str:
    """The last `width` values as small bars from zero to `top` (their largest if not given)."""
    shown = [max(0.0, v) if math.isfinite(v) else 0.0 for v in values[-width:]]
    top = max(shown, default=0.0) if top is None else top
    if top <= 0:
        return _SPARKS[0] * len(shown)
    last = len(_SPARKS) - 1
    return "".join(_SPARKS[min(last, round(v / top * last))] for v in shown)


def bar(value: float, width: int) -> tuple[str, str]:
    """A part of one as a bar: what is full and what is left."""
    full = min(width, max(0, round(value * width))) if math.isfinite(value) else 0
    return "█" * full, "░" * (width - full)


def chain(names: Sequence[str], width: int) -> str:
    """Operators of a pipeline in a row; the middle is left out first when there is no room."""
    whole = " · ".join(names)
    if len(whole) <= width:
        return whole
    if len(names) > 2:
        for kept in range(len(names) - 2, 0, -1):
            short = " · ".join((*names[:kept], "…", names[-1]))
            if len(short) <= width:
                return short
    return cut(whole, width)


def cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def line(text: str) -> str:
    """A text on one line of a terminal: what it holds may come from a record, and is not obeyed."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
