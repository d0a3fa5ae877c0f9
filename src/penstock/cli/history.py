"""`penstock history`: what was measured and changed in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from penstock.cli import base, options, turn_options
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput

_CASE = 120
"""Most snapshots of a case."""


@base.command("history")
@options.run_dir()
@turn_options.since
@turn_options.run
@click.option(
    "--every", metavar="DURATION", help="Time between two lines.  [default: about 30 lines]"
)
@click.option(
    "--snapshot", is_flag=True, help="Print the last moment as a case for `penstock advise`."
)
@click.option("--at", metavar="DURATION", help="With --snapshot: this moment of the run.")
@click.option("--out", metavar="FILE", help="With --snapshot: write the case to this file.")
@options.as_json
def command(
    streams: Streams,
    run_dir: str,
    since: str | None,
    run: int | None,
    every: str | None,
    snapshot: bool,
    at: str | None,
    out: str | None,
) -> None:
    """Print what was measured and changed in a run.

    Example: penstock history runs/mine --since 5m
    """
    from penstock.dataflow import duration
    from penstock.store import history, timeline
    from penstock.store.run_directory import local
    from penstock.store.serialization import plain

    home = local(run_dir)
    graph = history.dataflow(home)
    if snapshot:
        if since is not None or every is not None:
            raise InvalidInput("--since and --every are not for --snapshot; say --at")
        _write(streams, out, json.dumps(_case(home, run, at), indent=2))
        return
    if at is not None or out is not None:
        raise InvalidInput("--at and --out are for --snapshot: which moment, and where to")
    moments = turn_options.selected(home, since, run)
    first = moments[0].turn if moments else 0
    step = timeline.step(moments) if every is None else duration.seconds(every)
    if step <= 0:
        raise InvalidInput(f"there is no line every '{every}'")
    lines = [*timeline.samples(history.recorded_snapshots(home, timeline.chosen(moments, step)))]
    decisions, transitions = [*history.decisions(home, first)], [*history.transitions(home, first)]
    recorded = [one for one in history.events(home) if one.turn >= first]
    events = [*timeline.entries(transitions, decisions, recorded)]
    shown = {
        "flow": graph.name,
        "every_s": step,
        "lines": plain(lines),
        "events": plain(events),
        "transitions": [{"time": one.time, **one.transition.to_json()} for one in transitions],
        "not_done": [d for d in decisions if d["refused"] or d["vetoes"] or d["error"]],
        "decisions": len(decisions),
    }
    streams.print(shown, _page(graph.name, lines, events))


def _page(flow: str, lines: list[Any], events: list[Any]) -> list[str]:
    from penstock.store import timeline

    if not lines:
        return [f"{flow}: nothing was measured yet"]
    page, continued = [timeline.HEAD], False
    for one in timeline.in_order(lines, events):
        if isinstance(one, timeline.Sample) and one.first:
            if continued:
                page.append("--- continued ---")
            continued = True
        page.append(str(one))
    return page


def _case(home: Path, run: int | None, at: str | None) -> dict[str, Any]:
    """The context of a moment: the snapshots of its run up to then, and the plan in force.

    The default is the last moment before the run was ended: its draining makes no case.
    """
    from penstock.dataflow import duration
    from penstock.policies.base.policy import Context
    from penstock.store import context_file, history, run_options

    until = None if at is None else duration.seconds(at)
    moments = history.turn_times(home)
    number = turn_options.run_number(run, moments)
    measured = [m for m in moments if m.run == number and not m.ending]
    chosen = [m.turn for m in measured if until is None or m.at <= until]
    if not chosen:
        raise InvalidInput(f"nothing was measured in '{home}' by then")
    found = [*history.recorded_snapshots(home, chosen[-_CASE:])]
    last = found[-1]
    recent = tuple(one.snapshot for one in found)
    limits = run_options.limits(home, last.time)
    graph, now = history.dataflow(home), last.snapshot.at
    return context_file.to_json(Context(graph, last.plan, recent, now, limits))


def _write(streams: Streams, out: str | None, case: str) -> None:
    if out is None:
        print(case, file=streams.out, flush=True)
        return
    try:
        Path(out).expanduser().write_text(f"{case}\n")
    except OSError as error:
        raise InvalidInput(f"cannot write to '{out}': {error.strerror}") from None
