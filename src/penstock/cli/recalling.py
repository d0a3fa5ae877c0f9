"""The commands that look back at a run, and the one that says what all the numbers mean."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.streams import Streams, tell
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.store.history import Moment

_SINCE = "from this second of the last run on, e.g. 90s or 5m"
_RUN = "with a time: of this run of the directory, where it was continued (1: the first)"


def add(commands: Any) -> None:
    """Make the commands known to the parser."""
    history = commands.add_parser(
        "history",
        help="tell what happened in a run",
        description="Tell what was measured and changed in a run, or write down one moment of it.",
    )
    history.add_argument("run_dir", metavar="RUN_DIR", help="a run, whole or under way")
    history.add_argument("--since", metavar="T", help=_SINCE)
    history.add_argument("--run", metavar="N", type=int, help=_RUN)
    history.add_argument("--every", metavar="T", help="a line for so much time (default: about 30)")
    history.add_argument(
        "--snapshot", action="store_true", help="print the last moment as a case for `advise`"
    )
    history.add_argument("--at", metavar="T", help="with --snapshot: this moment of the run")
    history.add_argument("--out", metavar="FILE", help="with --snapshot: write it there")
    history.add_argument("--json", action="store_true", help="one JSON object on standard output")
    history.set_defaults(do=_history)

    export = commands.add_parser(
        "export",
        help="write the history of a run as files for other tools",
        description="Write everything recorded in a run, a file for each table.",
    )
    export.add_argument("run_dir", metavar="RUN_DIR", help="a run, whole or under way")
    export.add_argument(
        "--format", metavar="F", default="parquet", help="parquet, csv or json (parquet)"
    )
    export.add_argument("--out", metavar="DIR", help="where to (default: `export` in RUN_DIR)")
    export.add_argument("--since", metavar="T", help=_SINCE)
    export.add_argument("--run", metavar="N", type=int, help=_RUN)
    export.add_argument("--json", action="store_true", help="one JSON object on standard output")
    export.set_defaults(do=_export)

    report = commands.add_parser(
        "report",
        help="write the story of a run as one page",
        description="Write what was asked, what happened, every decision, what it cost and gained.",
    )
    report.add_argument("run_dir", metavar="RUN_DIR", help="a run, whole or under way")
    report.add_argument(
        "--out",
        metavar="FILE",
        help="where to (default: report.html in RUN_DIR); PNGs go beside it",
    )
    report.add_argument("--json", action="store_true", help="one JSON object on standard output")
    report.set_defaults(do=_report)

    metrics = commands.add_parser("metrics", help="say what all measured names mean")
    metrics.add_argument("--json", action="store_true", help="one JSON object on standard output")
    metrics.set_defaults(do=_metrics)


# --- history ------------------------------------------------------------------------------------


def _history(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.dataflow import duration
    from penstock.store import history, timeline
    from penstock.store.run_directory import local
    from penstock.store.serialization import plain

    home = local(given.run_dir)
    graph = history.dataflow(home)
    if given.snapshot:
        if given.since is not None or given.every is not None:
            raise InvalidInput("--since and --every are not for --snapshot; say --at")
        return _write(given, streams, json.dumps(_moment(given, home), indent=2))
    if given.at is not None or given.out is not None:
        raise InvalidInput("--at and --out are for --snapshot: which moment, and where to")
    moments = _since(given, home)
    first = moments[0].turn if moments else 0
    every = timeline.step(moments) if given.every is None else duration.seconds(given.every)
    if every <= 0:
        raise InvalidInput(f"there is no line every '{given.every}'")
    lines = [*timeline.lines(history.seen(home, timeline.chosen(moments, every)))]
    told, made = [*history.decisions(home, first)], [*history.transitions(home, first)]
    events = [*timeline.events(made, told)]
    shown = {
        "flow": graph.name,
        "every_s": every,
        "lines": plain(lines),
        "events": plain(events),
        "transitions": [{"time": one.time, **one.transition.to_json()} for one in made],
        "not_done": [d for d in told if d["refused"] or d["vetoes"] or d["error"]],
        "decisions": len(told),
    }
    return tell(streams, shown, _page(graph.name, lines, events))


def _page(flow: str, lines: list[Any], events: list[Any]) -> list[str]:
    from penstock.store import timeline

    if not lines:
        return [f"{flow}: nothing was measured yet"]
    page, again = [timeline.HEAD], False
    for one in timeline.in_order(lines, events):
        if isinstance(one, timeline.Sample) and one.first:
            if again:
                page.append("--- continued ---")
            again = True
        page.append(str(one))
    return page


def _since(given: argparse.Namespace, home: Path) -> list[Moment]:
    """The turns that were asked for."""
    from penstock.dataflow import duration
    from penstock.store import history

    moments = history.moments(home)
    if given.since is None and given.run is None:
        return moments
    since = 0.0 if given.since is None else duration.seconds(given.since)
    run = _run(given, moments)
    found = [m for m in moments if m.run > run or (m.run == run and m.at >= since)]
    if not found:
        raise InvalidInput(f"nothing was measured in '{home}' since then")
    return found


def _run(given: argparse.Namespace, moments: list[Moment]) -> int:
    """Which run of the directory is meant: the last one, or the one that was asked for."""
    runs = sorted({m.run for m in moments})
    if given.run is None:
        return runs[-1] if runs else 0
    if given.run not in runs:
        there = ", ".join(map(str, runs)) or "none yet"
        raise InvalidInput(f"there is no run {given.run} in this directory: it has {there}")
    return int(given.run)


def _moment(given: argparse.Namespace, home: Path) -> dict[str, Any]:
    """The context of a moment: the snapshots of its run up to then, and the plan in force.

    The last moment is the last before the run was ended: how a flow runs dry is no case.
    """
    from penstock.dataflow import duration
    from penstock.policies.base.policy import Context
    from penstock.store import context_file as case
    from penstock.store import history, run_options

    until = None if given.at is None else duration.seconds(given.at)
    moments = history.moments(home)
    run = _run(given, moments)
    mine = [m for m in moments if m.run == run and not m.ending]
    turns = [m.turn for m in mine if until is None or m.at <= until]
    if not turns:
        raise InvalidInput(f"nothing was measured in '{home}' by then")
    found = [*history.seen(home, turns[-120:])]
    last = found[-1]
    recent = tuple(one.snapshot for one in found)
    limits = run_options.limits(home, last.time)
    graph, now = history.dataflow(home), last.snapshot.at
    return case.to_json(Context(graph, last.plan, recent, now, limits))


def _write(given: argparse.Namespace, streams: Streams, case: str) -> int:
    if given.out is None:
        print(case, file=streams.out, flush=True)
        return 0
    try:
        Path(given.out).expanduser().write_text(f"{case}\n")
    except OSError as error:
        raise InvalidInput(f"cannot write to '{given.out}': {error.strerror}") from None
    return 0


# --- export -------------------------------------------------------------------------------------


def _export(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.store import history
    from penstock.store.run_directory import local
    from penstock.views.export import export

    home = local(given.run_dir)
    history.dataflow(home)  # says so if there is no run
    moments = _since(given, home)
    out = home / "export" if given.out is None else Path(given.out).expanduser()
    written = export(home, out, given.format, moments[0].turn if moments else 0)
    files = {name: {"file": str(path), "rows": rows} for name, (path, rows) in written.items()}
    lines = [f"{rows:>9,} rows  {path}" for path, rows in written.values()]
    return tell(streams, {"format": given.format, "tables": files}, lines)


# --- report -------------------------------------------------------------------------------------


def _report(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.report import document
    from penstock.report.story import story

    found = story(given.run_dir)
    written = document.write(found, given.out, time.time())
    pictures = [str(path) for path in written.pictures]
    shown = {"flow": found.graph.name, "page": str(written.page), "pictures": pictures}
    if written.missing:
        print(f"penstock: no pictures beside it: {written.missing}", file=streams.err)
    return tell(streams, shown, [str(written.page), *pictures])


# --- metrics ------------------------------------------------------------------------------------


def _metrics(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.metrics.catalog import CATALOG

    shown = [
        {"level": m.level.value, "name": m.name, "unit": m.unit.value, "meaning": m.meaning}
        for m in CATALOG
    ]
    lines = [f"{m['level']:<9} {m['name']:<17} {m['unit']:<8} {m['meaning']}" for m in shown]
    return tell(streams, {"metrics": shown}, lines)
