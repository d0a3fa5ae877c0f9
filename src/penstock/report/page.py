"""Renders the report of a run as one self-contained HTML page without scripts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from penstock import text
from penstock.dataflow import duration
from penstock.drawing.charts import chart
from penstock.drawing.diagram import diagram
from penstock.drawing.markup import Child, Html, joined, pairs, stylesheet, table, tag
from penstock.drawing.svg import svg
from penstock.report import prose
from penstock.report.curves import curves
from penstock.report.story import AppliedChange, Averages, Choice, Story, merged
from penstock.store.run_options import RunOptions

MOST = 1000
"""Maximum number of table rows; of a longer table the first rows are shown."""

_STATES = {"finished": "good", "running": "warn", "unfinished": "bad"}
_KINDS = {
    "changed": "good",
    "vetoed": "warn",
    "would change": "warn",
    "refused": "bad",
    "error": "bad",
    "kept": "faint",
}


def page(story: Story, written: float | None = None) -> str:
    """HTML of the report. written: when it is written, in seconds since 1970."""
    body = tag(
        "main",
        _head(story),
        _section("What was requested", _requested(story)),
        _section("What happened", _happened(story)),
        _section("Decisions", _decisions(story)),
        _section("Changes, their cost and their effect", _changes(story)),
        _section("Events", _events(story)),
        _section("Resources used", [tag("p", one) for one in prose.gain(story)] or None),
        _section("Warnings", _warnings(story)),
        _foot(story, written),
    )
    title = f"{story.graph.name}: report of a run"
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            tag("title", title),
            f"<style>{stylesheet()}\nbody{{margin:0}}\n"
            ".penstock main{max-width:1120px;margin:0 auto;padding:30px 22px 60px}</style>",
            f'</head><body class="penstock">{body}</body></html>\n',
        )
    )


def _section(title: str, *children: Child) -> Html | None:
    inside = joined(children)
    return tag("section", tag("h2", title), inside) if inside else None


# --- head -----------------------------------------------------------------------------------------


def _head(story: Story) -> Html:
    badge = tag("span", story.state, class_=f"badge {_STATES[story.state]}")
    when = (
        "" if story.began is None else time.strftime("%d %B %Y, %H:%M", time.localtime(story.began))
    )
    said = ", ".join(
        one
        for one in (
            f"on the {story.engine} engine" if story.engine else "",
            f"policy {story.policy}" if story.policy else "",
            when,
        )
        if one
    )
    return tag(
        "header",
        tag("h1", story.graph.name, " ", badge),
        tag("p", said, class_="faint"),
        tag("div", _tiles(story), class_="tiles"),
    )


def _tiles(story: Story) -> Iterator[Html]:
    def tile(value: str, name: str, look: str | None = None) -> Html:
        return tag("div", tag("b", value, class_=look), tag("span", name), class_="tile")

    yield tile(text.span(story.seconds), "running")
    if story.last is not None:
        taken = story.last.snapshot.rows_ingested
        yield tile(text.count(taken), "rows taken in")
        yield tile(f"{text.rate(taken / max(story.seconds, 1e-9))}/s", "mean throughput")
    for name, one in story.latency.items():
        first, _, last = name.partition("->")
        met = None if one.mean is None else one.mean <= one.bound
        look = None if met is None else "good" if met else "bad"
        yield tile(
            text.span(one.mean),
            f"mean latency {first} → {last}, bound {text.span(one.bound)}",
            look,
        )
    if story.peak is not None:
        few = min(p.plan.slots for p in story.points)
        many = story.peak.plan.slots
        yield tile(f"{few}-{many}" if few < many else str(many), "instances")
        yield tile(text.count(story.slot_seconds), "slot-seconds")
    yield tile(str(len(story.changes)), "changes of the plan")
    exact = story.outcome.get("exact")
    if exact is not None:
        yield tile("exact" if exact else "not exact", "result", "good" if exact else "bad")


# --- what was requested ---------------------------------------------------------------------------


def _requested(story: Story) -> Iterator[Child]:
    for number, one in enumerate(story.terms):
        if len(story.terms) > 1:
            yield tag("h3", "first run" if number == 0 else f"continuation {number}")
        yield pairs(_terms(one))
    if story.graph.constraints:
        bounds = (
            (f"{c.first} → {c.last}", f"below {text.span(c.latency)}", duration.text(c.window))
            for c in story.graph.constraints
        )
        yield tag("h3", "Latency")
        yield table(("path", "mean", "in every window of"), bounds)
    plan = story.points[0].plan if story.points else None
    yield _figure(svg(diagram(story.graph, plan), inline=True), "The dataflow and its first plan.")


def _terms(one: RunOptions) -> Iterator[tuple[str, Child]]:
    yield "engine", one.engine
    mode = {"on": "", "advise": " (advice only)", "off": " (off)"}.get(one.mode, f" ({one.mode})")
    yield "policy", tag("code", one.policy + mode)
    for source, load in one.loads.items():
        yield f"load on {source}", tag("code", load)
    yield "duration", "until stopped" if one.seconds is None else text.span(one.seconds)
    limits = [
        f"{value} {name}"
        for name, value in (("instances", one.limits.slots), ("executors", one.limits.executors))
        if value is not None
    ]
    yield "budget", ", ".join(limits) or "no limit"
    if one.guard:
        yield "guard", ", ".join(f"{name} {duration.text(s)}" for name, s in one.guard.items())
    if one.quiet:
        yield "quiet periods", ", ".join(one.quiet)
    if one.backup:
        yield "commit interval", one.backup
    if one.changes:
        yield "scripted changes", joined([[tag("code", change), " "] for change in one.changes])
    yield "version", f"Penstock {one.version}"


# --- what happened --------------------------------------------------------------------------------


def _happened(story: Story) -> Iterator[Child]:
    yield [tag("p", one) for one in prose.happened(story)]
    if not story.points:
        return
    note = "Ticks above a chart are changes of the plan; hover over one to read it."
    sketch = chart(curves(story), width=1060, height=150, titled=False, labelled=False)
    yield _figure(svg(sketch, inline=True), note if story.changes else "")
    busiest = story.busiest
    if busiest is not None:
        drawn = Html(svg(diagram(story.graph, busiest.plan, busiest.snapshot), inline=True))
        yield _figure(drawn, f"The dataflow at {text.clock(busiest.x)}, at peak throughput.")


def _figure(drawn: str, caption: str) -> Html:
    return tag("figure", Html(drawn), tag("figcaption", caption) if caption else None)


# --- decisions and changes ------------------------------------------------------------------------


def _decisions(story: Story) -> Iterator[Child]:
    told = merged(one for one in story.choices if one.kind != "kept")
    kept = [one for one in story.choices if one.kind == "kept"]
    if not story.choices:
        yield tag("p", "No decisions were made.", class_="faint")
    if told:
        yield _choices(told)
    if kept:
        times = sum(one.times for one in kept)
        name = f"{times:,} decisions to keep the plan"
        yield tag("details", tag("summary", name), _choices(kept))


def _choices(choices: Sequence[Choice]) -> Iterator[Html]:
    heads = ("time", "what", "why", "numbers")
    rows = [
        (
            text.clock(one.x) + (f"-{text.clock(one.until)}" if one.until > one.x else ""),
            [
                tag("span", one.kind, class_=_KINDS[one.kind]),
                f" ({one.times}×)" if one.times > 1 else "",  # noqa: RUF001
            ],
            [one.reason, tag("div", one.against, class_="warn") if one.against else None],
            _numbers(one),
        )
        for one in choices[:MOST]
    ]
    yield table(heads, rows)
    if len(choices) > MOST:
        yield tag("p", f"and {len(choices) - MOST:,} more in the history.", class_="faint")


def _numbers(one: Choice) -> Child:
    if not one.numbers:
        return None
    rows = ((name, f"{value:.4g}") for name, value in one.numbers.items() if value is not None)
    shown = table(("", ""), rows, numbers=(1,))
    return tag("details", tag("summary", f"{len(one.numbers)}"), shown)


def _changes(story: Story) -> Iterator[Child]:
    yield tag("p", " ".join(prose.cost(story)))
    if not story.changes:
        return
    heads = ("time", "change", "took", "output gap", "state moved", "replayed",
             "throughput", "latency", "backlog", "instances")  # fmt: skip
    rows = (_change(one) for one in story.changes[:MOST])
    yield table(heads, rows, numbers=range(2, 10))
    yield tag(
        "p",
        "Throughput, latency, backlog and instances are means over up to 30 seconds before and "
        "after a change, cut short by other changes.",
        class_="faint",
    )


def _change(one: AppliedChange) -> tuple[Child, ...]:
    done = one.transition
    moved = f"{text.count(done.state_rows_moved)}{' rows' if done.state_rows_moved else ''}"
    if done.state_bytes_moved:
        moved += f", {text.size(done.state_bytes_moved)}"
    return (
        text.clock(one.x),
        [[tag("div", change)] for change in done.changes],
        text.span(done.duration),
        text.span(done.interruption),
        moved,
        text.count(done.rows_replayed) if done.rows_replayed else "-",
        *_effects(one.before, one.after),
    )


def _effects(before: Averages | None, after: Averages | None) -> Iterator[str]:
    for name, write in (
        ("sustained", text.rate),
        ("latency", text.span),
        ("backlog", text.count),
        ("instances", text.count),
    ):
        was, now = (None if side is None else getattr(side, name) for side in (before, after))
        yield "-" if was is None and now is None else f"{write(was)} → {write(now)}"


# --- events and warnings --------------------------------------------------------------------------


def _events(story: Story) -> Iterator[Child]:
    if not story.incidents:
        return
    rows = (
        (
            text.clock(one.x),
            tag("span", one.kind, class_="bad" if one.is_problem else "faint"),
            one.text,
        )
        for one in story.incidents[:MOST]
    )
    yield table(("time", "event", "details"), rows)
    if len(story.incidents) > MOST:
        more = f"and {len(story.incidents) - MOST:,} more in the history."
        yield tag("p", more, class_="faint")


def _warnings(story: Story) -> Child:
    found = prose.warnings(story)
    if not found:
        return tag("p", "None.", class_="faint")
    return tag("ul", (tag("li", one) for one in found))


def _foot(story: Story, written: float | None) -> Html:
    when = "" if written is None else time.strftime(", %d %B %Y, %H:%M", time.localtime(written))
    words = f"Written from {story.run_dir} by penstock report{when}."
    return tag("footer", tag("p", words, class_="faint"))
