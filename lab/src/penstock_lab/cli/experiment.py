"""The command `experiment`: reproduces experiments of the papers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.streams import Streams, tell
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock_lab.experiments.experiment import EngineName, Experiment
    from penstock_lab.experiments.runner import Order, Progress

_NAME = "`list`, the name of an experiment, or `all`"
_VERDICTS = (
    "A table has the paper's number, the number found here, and a verdict. agrees: the effect is "
    "within 25 percent of the paper's (5 or 10 where the table says so). better: larger, in the "
    "desired direction. same direction: at least half of the effect, or in the direction that the "
    "paper names. weaker: less than half of it. differs: none of these. given: the number was put "
    "in and does not count. one run: fewer than three rounds on Spark, so no verdict. not "
    "measured: the data do not have it. varied: found with parameters other than the paper's. For "
    "a ratio, the distance from 1 is compared; for a share of hits, the misses."
)
_TIMES = "Times are estimates for the full size on two cores; --quick takes less."


def add(commands: Any) -> None:
    """Add the command to the parser."""
    made = commands.add_parser(
        "experiment",
        help="reproduce an experiment of the papers",
        description="Reproduce experiments of the papers: table, picture and raw data of each.",
        epilog=_VERDICTS,
    )
    made.add_argument("name", metavar="NAME", help=_NAME)
    made.add_argument("--quick", action="store_true", help="a smaller size, on the simulator")
    made.add_argument(
        "--engine", choices=("simulator", "spark"), default="simulator", help="where (simulator)"
    )
    made.add_argument("--seed", metavar="S", type=int, default=1, help="random seed, from 0 on (1)")
    made.add_argument(
        "--out", metavar="DIR", default="experiments", help="where results go (experiments)"
    )
    made.add_argument(
        "--jobs", metavar="N", type=int, help="cases at a time in the simulator (one per core)"
    )
    made.add_argument(
        "--rounds", metavar="N", type=int, help="how often each case runs on Spark (3)"
    )
    made.add_argument("--json", action="store_true", help="one JSON object on standard output")
    made.set_defaults(do=_experiment)


def _experiment(given: argparse.Namespace, streams: Streams) -> int:
    from penstock_lab import experiments
    from penstock_lab.experiments import times
    from penstock_lab.experiments.runner import Order, Progress, cores
    from penstock_lab.experiments.verdict import ROUNDS

    if given.name == "list":
        return _list(streams)
    if given.jobs is not None and given.jobs < 1:
        raise InvalidInput(f"--jobs {given.jobs}: must be at least 1")
    jobs = given.jobs or cores()
    if given.rounds is not None and given.engine == "simulator":
        raise InvalidInput("--rounds is for Spark; the simulator is deterministic")
    rounds = ROUNDS if given.rounds is None else given.rounds
    order = Order(Path(given.out), given.seed, given.quick, given.engine, jobs=jobs, rounds=rounds)
    chosen = experiments.every() if given.name == "all" else (experiments.get(given.name),)
    if given.name == "all":
        chosen = tuple(e for e in chosen if order.engine == "simulator" or e.spark is not None)
    weights = times.weights(tuple(e.name for e in chosen), order.engine)
    progress = Progress(streams.err, weights)
    results = [_carried_out(one, order, progress, streams) for one in chosen]
    streams.keep_log(order.out)
    if streams.json:
        shown = results[0] if given.name != "all" else {"experiments": results}
        print(json.dumps(shown, indent=2), file=streams.out, flush=True)
    return 0


def _carried_out(
    one: Experiment, order: Order, progress: Progress, streams: Streams
) -> dict[str, Any]:
    from penstock_lab.experiments.runner import carry_out
    from penstock_lab.experiments.table import as_json, markdown

    rows = carry_out(one, order, progress.of(one.name))
    home = order.out / one.name
    progress.say(f"{one.name}: table, picture and data are in {home}")
    if not streams.json:
        print(markdown(one, rows), file=streams.out, flush=True)
    return {**as_json(one, rows), "directory": str(home)}


def _list(streams: Streams) -> int:
    from penstock_lab import experiments

    known = experiments.every()
    width = max(len(e.name) for e in known)
    where = {e.name: _where(e) for e in known}
    wide = max(len(said) for said in where.values())
    shown = [
        {
            "name": e.name,
            "title": e.title,
            "paper": e.paper,
            "figure": e.figure,
            "engines": list(_seconds(e)),
            "seconds": _seconds(e),
        }
        for e in known
    ]
    lines = [
        f"{e.name:<{width}}  {where[e.name]:<{wide}}  {e.title}  ({e.paper}, {e.figure})"
        for e in known
    ]
    return tell(streams, {"experiments": shown}, [*lines, _TIMES])


def _seconds(one: Experiment) -> dict[EngineName, float | None]:
    """The engines it runs on, with estimated durations in seconds."""
    from penstock_lab.experiments import times
    from penstock_lab.experiments.experiment import ENGINES

    engines = ENGINES if one.spark is not None else ENGINES[:1]
    return {engine: times.known(one.name, engine) for engine in engines}


def _where(one: Experiment) -> str:
    from penstock_lab.experiments import times

    words = {"simulator": "simulator", "spark": "Spark"}
    return ", ".join(
        words[engine] + (f" {times.about(seconds)}" if seconds else "")
        for engine, seconds in _seconds(one).items()
    )
