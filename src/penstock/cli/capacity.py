"""`penstock capacity`: relate resources to throughput."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import base, options
from penstock.cli.profiling import Profiling, profiling
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType


@base.command("capacity", spark=True)
@options.flow(help="A run directory with a profile, or a dataflow to profile now.")
@click.option("--target", metavar="ROWS/S", help="Print what this rate needs, e.g. 5000/s.")
@profiling
def command(streams: Streams, flow: str, target: str | None, profiling: Profiling) -> None:
    """Print which resources sustain which throughput.

    Example: penstock capacity runs/mine --target 5000/s
    """
    from penstock.policies.stepwise import capacity
    from penstock.predict.profiling import read
    from penstock.store.run_directory import local
    from penstock.views.profile_tables import capacity_table, need_words, unkept

    wanted = None if target is None else _rate(target)
    recorded = local(flow)
    if recorded.is_dir() or recorded.suffix == ".json":
        profile = read(recorded)
    else:
        (found,) = profiling.profiles([flow], streams)
        profile = found.profile
    in_time = any(one.met for one in profile.rounds)
    points = capacity.capacity_table(profile.rounds, late=not in_time)
    shown: dict[str, Any] = {
        "points": [asdict(point) for point in points],
        "within_latency": in_time,
    }
    parts: list[RenderableType] = [capacity_table(points)]
    if not in_time:
        parts.append(f"{unkept(profile)}: all that was carried, however late")
    if wanted is not None:
        need = capacity.resources_for(points, wanted)
        shown["need"] = None if need is None else asdict(need)
        parts.append(need_words(need) if need else "nothing was carried: nothing to reckon from")
    streams.render(shown, parts)


def _rate(text: str) -> float:
    """`5000/s`, or a plain number of rows per second."""
    from penstock.dataflow.load_profile import parse

    wrong = InvalidInput(f"'{text}' is no rate above zero: write --target 5000/s")
    try:
        load = parse(text if "/" in text else f"{text}/s")
    except InvalidInput:
        raise wrong from None
    if len(load.segments) > 1 or load.peak <= 0:
        raise wrong
    return load.peak
