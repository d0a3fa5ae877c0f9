"""`penstock experiment`: reproduce experiments of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock_lab.experiments.experiment import EngineName, Experiment
    from penstock_lab.experiments.runner import Order, Progress

_NAME = "The name of an experiment, `list` or `all`."
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


def _on_spark(ctx: click.Context) -> bool:
    return bool(ctx.params["engine"] == "spark")


@base.command("experiment", quiet=_on_spark, epilog=_VERDICTS)
@click.argument("name", metavar="NAME", help=_NAME)
@click.option("--quick", is_flag=True, help="A smaller size, on the simulator.")
@click.option(
    "--engine",
    type=click.Choice(["simulator", "spark"]),
    default="simulator",
    show_default=True,
    help="Where it runs.",
)
@click.option(
    "--seed",
    metavar="INTEGER",
    type=int,
    default=1,
    show_default=True,
    help="Random seed, 0 or more.",
)
@click.option(
    "--out",
    metavar="DIR",
    default="experiments",
    show_default=True,
    help="Directory for the results.",
)
@click.option(
    "--jobs",
    metavar="CASES",
    type=int,
    help="Cases that the simulator runs at a time.  [default: one per core]",
)
@click.option(
    "--rounds", metavar="ROUNDS", type=int, help="Runs of each case on Spark.  [default: 3]"
)
@options.as_json
def command(
    streams: Streams,
    name: str,
    quick: bool,
    engine: EngineName,
    seed: int,
    out: str,
    jobs: int | None,
    rounds: int | None,
) -> None:
    """Reproduce experiments of the papers.

    Writes a table, a picture and the raw data of each.

    Example: penstock experiment joker-10 --quick
    """
    from penstock_lab import experiments
    from penstock_lab.experiments import times
    from penstock_lab.experiments.runner import Order, Progress, cores
    from penstock_lab.experiments.verdict import ROUNDS

    if name == "list":
        _list(streams)
        return
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"--jobs {jobs}: must be at least 1")
    if rounds is not None and engine == "simulator":
        raise InvalidInput("--rounds is for Spark; the simulator is deterministic")
    repeats = ROUNDS if rounds is None else rounds
    order = Order(Path(out), seed, quick, engine, jobs=jobs or cores(), rounds=repeats)
    chosen = experiments.every() if name == "all" else (experiments.get(name),)
    if name == "all":
        chosen = tuple(e for e in chosen if order.engine == "simulator" or e.spark is not None)
    weights = times.weights(tuple(e.name for e in chosen), order.engine)
    progress = Progress(streams.err, weights)
    results = [_carried_out(one, order, progress, streams) for one in chosen]
    streams.keep_log(order.out)
    if streams.json:
        streams.print(results[0] if name != "all" else {"experiments": results}, ())


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


def _list(streams: Streams) -> None:
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
    streams.print({"experiments": shown}, [*lines, _TIMES])


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
