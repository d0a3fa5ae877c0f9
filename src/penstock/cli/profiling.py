"""The commands that profile: `profile`, `compare` and `capacity`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli import guarding, setting, simulating, starting
from penstock.cli.streams import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.cli.flows import Reference
    from penstock.dataflow.flow import Dataflow
    from penstock.engines.simulator.engine import SimulatorEngine
    from penstock.policies.stepwise.profile import Profile
    from penstock.predict.profiling import Profiled


def add(commands: Any, flow: str, load: str, conf: str) -> None:
    """Make the commands known to the parser."""
    profile = _command(
        commands, "profile", "find the best plan of a dataflow, and what it carries at most"
    )
    profile.add_argument("flow", metavar="FLOW", help=flow)
    _options(profile, load, conf)
    profile.set_defaults(do=_profile, spark=True)

    compare = _command(commands, "compare", "profile dataflows that do the same, and rank them")
    compare.add_argument("flows", metavar="FLOW", nargs="+", help=flow)
    _options(compare, load, conf)
    compare.set_defaults(do=_compare, spark=True)

    capacity = _command(commands, "capacity", "relate resources to throughput")
    capacity.add_argument(
        "flow", metavar="FLOW", help="a run directory with a profile, or a dataflow to profile now"
    )
    capacity.add_argument("--target", metavar="R", help="what does this rate need, e.g. 5000/s")
    _options(capacity, load, conf)
    capacity.set_defaults(do=_capacity, spark=True)


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=f"{what[0].upper()}{what[1:]}."
    )
    return made


def _options(command: argparse.ArgumentParser, load: str, conf: str) -> None:
    add = command.add_argument
    add("--load", metavar="L", help=f"stress, ten times the flow's own if not given; {load}")
    add("--for", dest="seconds", metavar="T", help="end after that, with what was found, e.g. 20m")
    add("--run-dir", metavar="D", help="where everything is kept")
    add("--executors", metavar="N", type=int, default=1, help="executors to profile with (1)")
    guarding.add_limits(command)
    setting.add(command)
    add("--master", metavar="M", help="Spark's master (default: this machine)")
    add("--conf", metavar="K=V", action="append", default=[], help=conf)
    add("--json", action="store_true", help="one JSON object on standard output")
    group = command.add_argument_group("without Spark")
    simulate = "on a simulated cluster of --executors machines, in a moment"
    group.add_argument("--simulate", action="store_true", help=simulate)
    simulating.add_cluster(group)


# --- the commands -------------------------------------------------------------------------------


def _profile(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.views.profile_tables import profile_tables

    (found,) = _profiled([given.flow], given, streams)
    parts = [profile_tables(found), _run_it(given.flow, found)]
    return _tell(given, streams, found.to_json(), parts)


def _compare(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.policies.stepwise.capacity import ranking
    from penstock.views.profile_tables import profile_tables, ranking_table

    if len(given.flows) < 2 or len({*given.flows}) < len(given.flows):
        raise InvalidInput("to compare takes two dataflows or more, each of them once")
    found = dict(zip(given.flows, _profiled(given.flows, given, streams), strict=False))
    ranks = ranking({name: one.profile for name, one in found.items()})
    shown = {
        "ranking": [{**asdict(rank), "per_slot": rank.per_slot} for rank in ranks],
        "left_out": [name for name in given.flows if name not in found],
        "profiles": {name: one.to_json() for name, one in found.items()},
    }
    tables = [t for n, one in found.items() for t in (profile_tables(one), _run_it(n, one))]
    left = [f" not profiled: {name}" for name in shown["left_out"]]
    return _tell(given, streams, shown, [*tables, "", ranking_table(ranks), *left])


def _capacity(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.policies.stepwise import capacity
    from penstock.store.run_directory import local
    from penstock.views.profile_tables import capacity_table, need_words, unkept

    target = None if given.target is None else _rate(given.target)
    kept = local(given.flow)
    if kept.is_dir() or kept.suffix == ".json":
        from penstock.predict.profiling import read

        profile: Profile = read(kept)
    else:
        (found,) = _profiled([given.flow], given, streams)
        profile = found.profile
    kept_latency = any(one.met for one in profile.rounds)
    points = capacity.capacity_table(profile.rounds, late=not kept_latency)
    need = None if target is None else capacity.resources_for(points, target)
    shown: dict[str, Any] = {
        "points": [asdict(point) for point in points],
        "within_latency": kept_latency,
    }
    parts: list[RenderableType] = [capacity_table(points)]
    if not kept_latency:
        parts.append(f"{unkept(profile)}: all that was carried, however late")
    if target is not None:
        shown["need"] = None if need is None else asdict(need)
        parts.append(need_words(need) if need else "nothing was carried: nothing to reckon from")
    return _tell(given, streams, shown, parts)


# --- helpers ------------------------------------------------------------------------------------


def _profiled(
    written: Iterable[str], given: argparse.Namespace, streams: Streams
) -> list[Profiled]:
    """One dataflow after the other; a Ctrl-C ends the one under way and leaves out the rest."""
    from penstock.cli.flows import Reference
    from penstock.dataflow import duration
    from penstock.dataflow.load_profile import parse

    # A typing error should not wait for Spark to start, nor for the first of two profiles.
    references = [Reference.read(text) for text in written]
    setting.policy("stepwise", given.settings)
    guarding.limits(given)
    starting.settings(given.conf)
    if given.load is not None:
        parse(given.load)
    if given.seconds is not None:
        duration.seconds(given.seconds)
    found: list[Profiled] = []
    with starting.session(given.master):
        for number, reference in enumerate(references, start=1):
            one = given.run_dir
            if one is not None and len(references) > 1:
                one = Path(one) / f"{number}-{reference.name}"
            found.append(_one(reference, one, given, streams))
            if found[-1].interrupted:
                break
    streams.keep_log(Path(found[-1].run_dir))
    return found


def _one(
    reference: Reference, run_dir: Any, given: argparse.Namespace, streams: Streams
) -> Profiled:
    from penstock.app import profile
    from penstock.policies.stepwise.policy import Stepwise
    from penstock.views.progress import ProgressView

    conf = starting.settings(given.conf)
    policy = setting.policy("stepwise", given.settings)
    assert isinstance(policy, Stepwise)
    engine, clock = None, None
    with starting.home(reference, run_dir) as home:
        out = home and Path(home) / "out"
        if given.simulate:
            flow = starting.loaded_lightly(reference, out or "out")
            engine = _simulated(given, flow)
            clock = engine.clock
        else:
            flow = starting.loaded(reference, given.master, conf, out)
        return profile(
            flow,
            policy=policy,
            engine=engine,
            clock=clock,
            load=given.load,
            executors=given.executors,
            limits=guarding.limits(given),
            master=given.master,
            conf=conf,
            seconds=given.seconds,
            run_dir=home,
            view=ProgressView(streams.err),
        )


_WINDOW = 1.0
"""Seconds of one observation on a simulated cluster, where nothing but chance makes them differ."""


def _simulated(given: argparse.Namespace, flow: Dataflow) -> SimulatorEngine:
    from penstock.engines.simulator.engine import SimulatorEngine

    model = simulating.model(given, flow, given.executors)
    return SimulatorEngine(model, seed=given.seed, window=_WINDOW)


def _run_it(written: str, found: Profiled) -> str:
    return f" penstock run {written} --plan {found.run_dir}/plan.json"


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


def _tell(
    given: argparse.Namespace,
    streams: Streams,
    shown: dict[str, Any],
    parts: Iterable[RenderableType],
) -> int:
    if given.json:
        print(json.dumps(shown, indent=2), file=streams.out, flush=True)
        return 0
    from rich.console import Console

    console = Console(file=streams.out)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str), markup=False, highlight=False)
    return 0
