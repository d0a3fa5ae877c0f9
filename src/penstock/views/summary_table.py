"""Renders the summary table at the end of a run."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock import text
from penstock.control.summary import LatencySummary, Summary

_EXACT = {
    True: ("yes: the sinks hold what the input says", "green"),
    False: ("NO: the sinks differ from what the input says", "bold red"),
    None: ("not checked", "dim"),
}


def summary_table(summary: Summary) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    head = f"{summary.flow} on {summary.engine}, policy {summary.policy}"
    table.add_row("run", Text(head, "bold"))
    ended = ", ended early on request" if summary.interrupted else ""
    table.add_row("time", f"{text.span(summary.seconds)} with draining{ended}")
    table.add_row("rows", Text.assemble(*_rows(summary)))
    letters = summary.dead_letters
    if letters.too_many:
        told = (
            f"{text.share(letters.share)} of the rows, more than the {text.share(letters.at_most)} "
        )
        where = f"allowed; see {summary.run_dir}/dead for the errors"
        table.add_row("dead letters", Text(told + where, "bold red", overflow="fold"))
    mean, last = text.rate(summary.throughput_mean), text.rate(summary.throughput_last)
    table.add_row("throughput", f"{mean} rows/s mean, {last} rows/s in the last window")
    for name, one in summary.latency.items():
        table.add_row("latency", _latency(name, one))
    pipelines = len(summary.plan.pipelines)
    used = f"{text.count(summary.slot_seconds)} slot-seconds"
    table.add_row("resources", f"{used}, {pipelines} pipeline{'s' * (pipelines != 1)}")
    if summary.transitions:
        held = sum(t.interruption for t in summary.transitions)
        changes = len(summary.transitions)
        table.add_row("changes", f"{changes} of the plan, output held for {text.span(held)} in all")
    events = summary.events
    if events.count:
        style = "yellow" if any(one.is_problem for one in events.last) else ""
        table.add_row("events", Text(str(events), style))
    if summary.changes_left:
        left = "; ".join(summary.changes_left)
        table.add_row("left out", Text(f"the run ended before {left}", "yellow"))
    if summary.delivery:
        told = ", ".join(f"{name}: {one.value}" for name, one in summary.delivery.items())
        table.add_row("delivery", told)
    words, style = _EXACT[summary.exact]
    why = f" ({summary.exact_reason})" if summary.exact_reason else ""
    table.add_row("exact", Text.assemble((words, style), why))
    table.add_row("directory", Text(summary.run_dir, overflow="fold"))
    return Group(Text(""), table)


def _rows(summary: Summary) -> list[tuple[str, str]]:
    parts = [] if summary.rows_offered is None else [(f"{summary.rows_offered:,} offered, ", "")]
    parts.append((f"{summary.rows_ingested:,} ingested, {summary.rows_delivered:,} delivered", ""))
    if summary.rows_dead:
        parts.append((f", {summary.rows_dead:,} dead letters", "yellow"))
    if summary.rows_late:
        parts.append((f", {summary.rows_late:,} too late", "yellow"))
    if summary.rows_repeated:
        parts.append((f", up to {summary.rows_repeated:,} delivered again", "yellow"))
    return parts


def _latency(name: str, one: LatencySummary) -> Text:
    first, _, last = name.partition("->")
    title = f"{first} → {last}: " if last else f"{name}: "
    if one.mean is None:
        return Text.assemble(title, ("not measured", "dim"))
    style = "green" if one.mean <= one.bound else "red"
    return Text.assemble(
        title,
        (f"{text.span(one.mean)} mean", style),
        f", {text.span(one.p50)} p50, {text.span(one.p95)} p95, {text.span(one.p99)} p99; "
        f"bound {text.span(one.bound)} met in {text.share(one.met)} of windows",
    )
