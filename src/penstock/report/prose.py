"""Describes a run in sentences: events, costs, savings and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from penstock import text
from penstock.control.summary import LatencySummary
from penstock.report.story import Story

_EXACT = {
    True: "The sinks hold exactly the expected output.",
    False: "The sinks do not hold the expected output",
    None: "The output was not checked for exactness",
}


def happened(story: Story) -> list[str]:
    """Paragraphs on throughput, latency and decisions of the run."""
    parts = ((_ran, _rows), (_latency,), (_decided, _exact))
    return [" ".join(said for part in some for said in part(story)) for some in parts]


def _ran(story: Story) -> Iterator[str]:
    where = f" on the {story.engine} engine" if story.engine else ""
    who = f" under the policy '{story.policy}'" if story.policy else ""
    verb = {
        "running": "has been running for",
        "finished": "ran for",
        "unfinished": "ran, without finishing, for",
    }[story.state]
    yield f"{story.graph.name} {verb} {text.span(story.seconds)}{where}{who}."
    if story.resumed:
        times = len(story.resumed)
        yield f"It was stopped and continued {_times(times)}; downtime does not count."


def _rows(story: Story) -> Iterator[str]:
    last = story.last
    if last is None:
        yield "Nothing was measured."
        return
    now = last.snapshot
    rates = [p.line.sustained for p in story.points if p.line.sustained is not None]
    mean = now.rows_ingested / story.seconds if story.seconds > 0 else 0.0
    took = f"It took in {now.rows_ingested:,} rows"
    if now.rows_offered:
        took += (
            f" of {now.rows_offered:,} offered ({_percent(now.rows_ingested / now.rows_offered)})"
        )
    at_most = f" (at most {text.rate(max(rates))}/s)" if rates else ""
    yield f"{took}, {text.rate(mean)}/s on average{at_most}, and delivered {now.rows_delivered:,}."
    if now.rows_dead:
        yield f"{_rows_of(now.rows_dead)} could not be processed and became dead letters."
    if now.rows_late:
        yield f"{_rows_of(now.rows_late)} arrived after the watermark and were dropped."
    if now.rows_repeated:
        yield (
            f"Up to {_rows_of(now.rows_repeated)} were delivered again after a failure, to sinks "
            "with at-least-once delivery."
        )


def _latency(story: Story) -> Iterator[str]:
    if not story.graph.constraints:
        yield "The dataflow has no latency constraint."
    for name, one in story.latency.items():
        first, _, last = name.partition("->")
        path = f"from {first} to {last}"
        if one.mean is None:
            yield f"The latency {path} was not measured."
            continue
        yield (
            f"The latency {path} was {text.span(one.mean)} on average "
            f"(95th percentile: {text.span(one.p95)}); its bound of {text.span(one.bound)} was "
            f"met in {_percent(one.met)} of windows."
        )


def _decided(story: Story) -> Iterator[str]:
    counts = Counter[str]()
    for one in story.choices:
        counts[one.kind] += one.times
    if not counts:
        yield "No decisions were made."
        return
    said = [f"{counts[kind]:,} {word}" for kind, word in _KINDS.items() if counts[kind]]
    yield f"Of {counts.total():,} decisions, {_listed(said)}."


_KINDS = {
    "kept": "kept the plan",
    "changed": "changed the plan",
    "vetoed": "were vetoed by the guard",
    "would change": "would have changed the plan",
    "refused": "were refused",
    "error": "failed",
}


def _exact(story: Story) -> Iterator[str]:
    if story.state != "finished":
        return
    found = story.outcome.get("exact")
    why = story.exactness.get("reason")
    words = _EXACT[found if found in (True, False) else None]
    if found is not True:
        words += f": {why}." if why else "."
    yield words


# --- cost and savings -----------------------------------------------------------------------------


def cost(story: Story) -> list[str]:
    """Sentences on the total cost of the plan changes."""
    if not story.changes:
        return ["The plan was never changed, so nothing was interrupted."]
    done = [one.transition for one in story.changes]
    held = [one.interruption for one in done]
    said = [
        f"{_number(len(done), 'change')} took {text.span(sum(one.duration for one in done))} "
        f"in total; output was interrupted for {text.span(sum(held))}, "
        f"{text.span(max(held))} at most."
    ]
    known = [one.state_rows_moved for one in done if one.state_rows_moved is not None]
    rows = sum(known)
    size = sum(one.state_bytes_moved or 0 for one in done)
    replayed = sum(one.rows_replayed for one in done)
    moved = "No state was moved" if known else "State movement was not measured"
    moved = f"{_rows_of(rows)} of state ({text.size(size)}) moved" if rows else moved
    again = f"{_rows_of(replayed)} were processed again" if replayed else "nothing was replayed"
    return [*said, f"{moved}, and {again}."]


def gain(story: Story) -> list[str]:
    """Sentences on resources used, compared with a static plan of peak size."""
    peak = story.peak
    if peak is None or story.static_slot_seconds <= 0:
        return []
    used, static = story.slot_seconds, story.static_slot_seconds
    few = min(p.plan.slots for p in story.points)
    said = [f"The run used {text.count(used)} slot-seconds, which is instances times time."]
    if few == peak.plan.slots:
        return [*said, f"It had {_number(few, 'instance')} throughout."]
    saved = 1 - used / static
    said.append(
        f"It had {few} to {peak.plan.slots} instances. A static plan with {peak.plan.slots} "
        f"instances would have used {text.count(static)}: the run used {_percent(saved)} less."
    )
    return said


# --- warnings -------------------------------------------------------------------------------------


def warnings(story: Story) -> list[str]:
    """What to know before trusting the run or its report."""
    return [one for part in (_state, _promises, _trouble) for one in part(story)]


def _state(story: Story) -> Iterator[str]:
    if story.state == "running":
        yield "The run is still going; the report shows it as of when it was written."
    if story.state == "unfinished":
        yield (
            "The run did not finish: it was killed, or stopped immediately. To continue it, run it "
            "again with the same --run-dir."
        )
    if not story.points:
        yield "Nothing was measured, so there are no figures."
    if not story.terms:
        yield "The options of the run are unknown: an older version of Penstock did not store them."


def _promises(story: Story) -> Iterator[str]:
    for name, one in story.latency.items():
        if one.met is not None and one.met < 1:
            yield f"{_pair(name)}: {_missed(one)}."
    last = story.last
    if last is not None and last.snapshot.rows_dead:
        where = story.run_dir / "dead"
        there = f"; they are in {where}" if where.is_dir() else ""
        yield f"{_rows_of(last.snapshot.rows_dead)} became dead letters{there}."
    if story.outcome.get("exact") is False:
        yield f"The result is not exact: {story.exactness.get('reason') or 'see exactness.json'}."
    left = last is not None and story.state != "running" and not last.snapshot.drained
    if last is not None and left and last.line.backlog:
        yield f"{_rows_of(last.line.backlog)} were still queued at the end."


def _trouble(story: Story) -> Iterator[str]:
    counts = Counter[str]()
    for one in story.choices:
        counts[one.kind] += one.times
    if counts["error"]:
        said = next(c.against for c in story.choices if c.kind == "error")
        yield f"The policy failed {_times(counts['error'])}: {said}."
    if counts["refused"]:
        said = next(c.against for c in story.choices if c.kind == "refused")
        yield f"The engine refused {_number(counts['refused'], 'change')}, first: {said}."
    open_ = [one for one in story.changes if not one.transition.settled]
    if open_ and story.engine not in ("simulator", "memory"):
        yield (
            f"The interruption by {_number(len(open_), 'change')} was not observed to its end; "
            "the sum of its phases is shown instead."
        )
    problems = Counter(one.kind for one in story.incidents if one.is_problem)
    for kind in ("refused", "policy failed"):  # reported above, with the decision
        problems.pop(kind, None)
    if problems:
        counted = _listed([f"{_times(n)} '{kind}'" for kind, n in problems.items()])
        yield f"The run reported problems: {counted}; see Events."
    if any(p.line.offered and p.line.sustained is not None for p in story.points):
        yield from _behind(story)


def _behind(story: Story) -> Iterator[str]:
    last = story.last
    assert last is not None
    offered, taken = last.snapshot.rows_offered, last.snapshot.rows_ingested
    if offered and taken < 0.99 * offered:
        yield f"{_percent(1 - taken / offered)} of the offered rows were never taken in."


def _missed(one: LatencySummary) -> str:
    return (
        f"the bound of {text.span(one.bound)} was missed in "
        f"{_percent(1 - (one.met or 0.0))} of windows"
    )


def _pair(name: str) -> str:
    first, _, last = name.partition("->")
    return f"{first} to {last}" if last else name


def _percent(share: float | None) -> str:
    """A percentage; shows 0 % and 100 % only for exactly 0 and 1."""
    if share is None:
        return "-"
    if 0.99 < share < 1:
        return f"{min(99.99, 100 * share):.4g} %" if share < 0.9999 else "99.99 %"
    return "less than 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _rows_of(count: float) -> str:
    return _number(round(count), "row")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
