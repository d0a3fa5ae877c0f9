"""`penstock compare`: rank dataflows that compute the same."""

from __future__ import annotations

from dataclasses import asdict

from penstock.cli import base, options
from penstock.cli.profiling import Profiling, profiling, run_command
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput


@base.command("compare", spark=True)
@options.flow("flows", metavar="FLOW FLOW...", nargs=-1, required=True)
@profiling
def command(streams: Streams, flows: tuple[str, ...], profiling: Profiling) -> None:
    """Profile dataflows that compute the same, and rank them.

    Example: penstock compare one.py other.py --max-slots 8
    """
    from penstock.policies.stepwise.capacity import ranking
    from penstock.views.profile_tables import profile_tables, ranking_table

    if len(flows) < 2 or len({*flows}) < len(flows):
        raise InvalidInput("to compare takes two dataflows or more, each of them once")
    found = dict(zip(flows, profiling.profiles(flows, streams), strict=False))
    ranks = ranking({name: one.profile for name, one in found.items()})
    skipped = [name for name in flows if name not in found]
    shown = {
        "ranking": [{**asdict(rank), "per_slot": rank.per_slot} for rank in ranks],
        "left_out": skipped,
        "profiles": {name: one.to_json() for name, one in found.items()},
    }
    tables = [t for n, one in found.items() for t in (profile_tables(one), run_command(n, one))]
    last = [f" not profiled: {name}" for name in skipped]
    streams.render(shown, [*tables, "", ranking_table(ranks), *last])
