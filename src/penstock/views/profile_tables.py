"""Tables of profiles, rankings and capacities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock import text
from penstock.policies.stepwise.capacity import CapacityPoint, DataflowRank, ResourceNeed
from penstock.policies.stepwise.profile import Profile, ProfilingRound, was_kept


class ProfilingResult(Protocol):
    """What the tables read from a finished profiling run."""

    @property
    def flow(self) -> str: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def complete(self) -> bool: ...

    @property
    def offered(self) -> float | None: ...

    @property
    def carried_all(self) -> bool: ...


def profile_tables(found: ProfilingResult) -> RenderableType:
    """Features and ratios, the rounds, and the best plan, with caveats below."""
    words: list[RenderableType] = ["", _features(found.profile), "", _rounds(found.profile), ""]
    final = found.profile.final
    best = f"{found.flow}: {text.rate(final.throughput)} rows/s with {sizes(final)}"
    words.append(Text(f" {best}", "bold"))
    words += [Text(f" {line}", "yellow") for line in remarks(found)]
    return Group(*words)


def remarks(found: ProfilingResult) -> list[str]:
    """Caveats of a profile: ended early, load too low, or latency bound not met."""
    said = []
    if not found.complete:
        said.append(f"ended early: the best of {len(found.profile.rounds)} rounds, not of all")
    if found.carried_all:
        load = text.rate(found.offered)
        said.append(f"all of the load was carried, {load} rows/s: a higher --load may tell more")
    if not found.profile.final.met:
        said.append(
            f"{unkept(found.profile)}: this is the smallest plan of those with the highest "
            "throughput, as far as they can be told apart"
        )
    return said


def unkept(profile: Profile) -> str:
    """Says that no round met the latency bound, the closest latency, and what to do."""
    nearest = min(one.latency for one in profile.rounds if one.latency is not None)
    wider = "a wider bound is a --set latency=, or a constraint of the dataflow"
    return f"no round kept the latency, the nearest took {text.share(nearest)} of it ({wider})"


def ranking_table(ranks: Sequence[DataflowRank]) -> RenderableType:
    """Table of dataflows, best first."""
    table = _table(
        "dataflow", ">rows/s", ">of the best", ">instances", ">rows/s each", ">rounds", ""
    )
    for rank in ranks:
        alike = "" if rank.against_best == "decreased" else "as good"
        table.add_row(
            Text(rank.name),
            text.rate(rank.throughput),
            text.share(rank.share),
            str(rank.slots),
            text.rate(rank.per_slot),
            str(rank.rounds),
            "best" if rank is ranks[0] else alike,
        )
    return table


def capacity_table(points: Iterable[CapacityPoint]) -> RenderableType:
    """Table of sustained throughput by executors and instances."""
    table = _table(">executors", ">instances", ">rows/s")
    for point in points:
        table.add_row(str(point.executors), str(point.slots), text.rate(point.throughput))
    return table


def need_words(need: ResourceNeed) -> str:
    """Sentence on the instances and executors that a throughput needs."""
    one = need.executors == 1
    words = (
        f"{text.rate(need.target)} rows/s take {need.slots} instances on {need.executors} "
        f"executor{'' if one else 's'}"
    )
    return words if need.measured else f"{words}, reckoned from the largest that was measured"


def sizes(one: ProfilingRound) -> str:
    """Instances of each pipeline, such as `parse=2 count=3`."""
    slowed = f", sources {one.throttle:.0%} slower" if one.throttle else ""
    return " ".join(f"{p.name}={p.parallelism}" for p in one.plan.pipelines) + slowed


def _features(profile: Profile) -> Table:
    table = _table("pipeline", ">time for a row", ">share of rows", ">ratio", ">instances", "")
    for name, one in profile.features.items():
        ratio, fixed = profile.ratios.scaled.get(name), profile.ratios.fixed.get(name)
        instances = profile.instances.get(name, fixed)
        why = (
            "source"
            if one.source
            else "one instance only"
            if not one.parallel
            else "does not grow with throughput"
            if one.dominated
            else ""
        )
        table.add_row(
            Text(name),
            _time(one.latency),
            text.share(one.share),
            "" if ratio is None else f"{ratio:.2f}",
            "" if instances is None else str(instances),
            why,
        )
    return table


def _rounds(profile: Profile) -> Table:
    table = _table(">round", "changed", "instances", ">rows/s", ">latency of bound", "")
    outcomes = was_kept(profile.rounds, profile.final)
    for number, (one, stays) in enumerate(zip(profile.rounds, outcomes, strict=True), start=1):
        outcome = "final" if one is profile.final else "kept" if stays else "reverted"
        table.add_row(
            str(number),
            Text(one.kind),
            Text(sizes(one)),
            text.rate(one.throughput),
            "" if one.latency is None else text.share(one.latency),
            Text(outcome, "green" if outcome == "final" else "" if stays else "dim"),
        )
    return table


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.3g} us" if seconds < 1e-3 else text.span(seconds)


def _table(*columns: str) -> Table:
    """A borderless table; a leading `>` marks a right-aligned column."""
    table = Table(box=None, padding=(0, 1), pad_edge=True, header_style="dim")
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column[:1] == ">" else "left")
    return table
