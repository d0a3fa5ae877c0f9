"""Reads and draws a scale-out of Stela."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from penstock.drawing.figures import Bars, Figure, Line, Mark, Panel
from penstock_lab.experiments import reading
from penstock_lab.experiments.experiment import Claim, Data, Read
from penstock_lab.experiments.stela import scale_out_spark
from penstock_lab.experiments.stela.common import AFTER, AT, AT_ONCE, POLICIES, draws, named
from penstock_lab.experiments.stela.layout import Layout

SAME = (
    "Given: the default scheduler and least link load, which move executors and add none, "
    "neither gain nor lose if components wait and a machine has room for all of them."
)
_STARTS = (
    "here Stela stops the components that get executors, for as long as their workers take to "
    "start, and the default scheduler stops all of them, after the 30 s that Storm waits by "
    "default. The paper does not say what its Storm was set to; compared with one that starts "
    "at once, as Stela does as published, Stela takes longer with network monitoring, and with "
    "the star it is chance (rows at once)"
)
_CALM = (
    "throughput counts as calm after four windows of 10 s at the earliest, here and there. The "
    "default scheduler stands still for 70 s here: the 30 s that Storm waits, and 40 s in which "
    "the one processor of a machine starts four workers. In the paper it must have taken many "
    "minutes (seconds below)"
)


def before(data: Data, layout: str, policy: str) -> float:
    return fmean(
        reading.throughput(data, named(layout, policy, n), AT - 60, AT - 1) for n in draws(data)
    )


def after(data: Data, layout: str, policy: str) -> float:
    return fmean(
        reading.throughput(data, named(layout, policy, n), AT + AFTER / 2, AT + AFTER)
        for n in draws(data)
    )


def gain(layout: str, policy: str, other: str) -> Callable[[Data], float]:
    """Mean gain in throughput over another policy, over all draws."""

    def read(data: Data) -> float:
        since, until = AT + AFTER / 2, AT + AFTER
        return fmean(
            reading.throughput(data, named(layout, policy, n), since, until)
            / reading.throughput(data, named(layout, other, n), since, until)
            for n in draws(data)
        )

    return read


def over_before(layout: str, policy: str) -> Read:
    return lambda data: after(data, layout, policy) / before(data, layout, policy)


def settling(data: Data, layout: str, policy: str) -> float | None:
    """Seconds until throughput converges, over the draws in which it did."""
    found = [reading.convergence(data, named(layout, policy, n), AT) for n in draws(data)]
    known = [f for f in found if f is not None]
    return fmean(known) if known else None


def faster(layout: str, other: str = "default") -> Read:
    """Stela's convergence time relative to the default scheduler's."""

    def read(data: Data) -> float | None:
        ours, theirs = settling(data, layout, "stela"), settling(data, layout, other)
        return None if ours is None or not theirs else ours / theirs

    return read


def seconds(layout: str) -> tuple[Claim, ...]:
    return tuple(
        Claim(f"{layout}: convergence time, {policy}", None, _settling(layout, policy), "s")
        for policy in ("stela", "least link load", "default")
    )


def _settling(layout: str, policy: str) -> Read:
    return lambda data: settling(data, layout, policy)


def picture_of(layouts: Sequence[Layout], figure: str) -> Callable[[Data], Figure]:
    def picture(data: Data) -> Figure:
        if data.engine == "spark":
            return scale_out_spark.picture(data)
        lines = [_timeline(data, layout) for layout in layouts]
        names = tuple(layout.name for layout in layouts)
        calm = tuple(Bars(p, tuple(settling(data, name, p) for name in names)) for p in POLICIES)
        last = Panel("topology", "convergence (s)", categories=names, bars=calm)
        return Figure(
            "Scale-out by one machine",
            (*lines, last),
            columns=2,
            note=f"simulated, random seed {data.seed}, mean of {len(draws(data))} draws; "
            f"after Stela, {figure}",
        )

    return picture


def _timeline(data: Data, layout: Layout) -> Panel:
    lines = []
    for tone, policy in enumerate(POLICIES):
        found = [reading.rates(data, named(layout.name, policy, n)) for n in draws(data)]
        length = min(len(times) for times, _ in found)
        mean = tuple(fmean(rates[at] for _, rates in found) for at in range(length))
        lines.append(Line(policy, found[0][0][:length], mean, tone=tone))
    marks = (Mark(AT, f"{layout.machines[0]} → {layout.machines[1]} machines"),)
    return Panel("time (s)", "tuples/s", tuple(lines), marks=marks, title=layout.name)


def better(layout: str, seed: float, why: str = "", **more: Any) -> Claim:
    """Gain of Stela over the default scheduler, as the paper defines it."""

    def read(data: Data) -> float:
        return gain(layout, "stela", "default")(data) - 1

    what = f"{layout}: gain of Stela over the default scheduler"
    return Claim(what, seed, read, neutral=0.0, why=why, **more)


def rest(layouts: Sequence[Layout]) -> tuple[Claim, ...]:
    return tuple(
        Claim(f"{one.name}: Stela beside {other}", None, gain(one.name, "stela", other))
        for one in layouts
        for other in ("least link load", "best static")
    )


def calmer(layout: str, seed: float) -> Claim:
    what = f"{layout}: convergence time beside the default scheduler"
    return Claim(what, seed, faster(layout), "", 1.0, "lower", why=_CALM)


def slower(layout: str) -> tuple[Claim, ...]:
    """The paper says only that Stela takes longer."""
    what = f"{layout}: convergence time beside the default scheduler"
    claim = Claim(what, None, faster(layout), neutral=1.0, side="above", why=_STARTS)
    other = replace(claim, what=f"{what} at once", read=faster(layout, AT_ONCE), basis="varied")
    return claim, other


def alone(layout: str, policy: str, seed: float, **more: Any) -> Claim:
    what = f"{layout}: {policy} after beside before"
    return Claim(what, seed, over_before(layout, policy), within=0.1, **more)
