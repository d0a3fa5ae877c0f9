"""`penstock whatif`: predict a run under another load or policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams

if TYPE_CHECKING:
    from penstock.policies.base.policy import Policy
    from penstock.predict.whatif import PredictedRun, Prediction


@base.command("whatif")
@options.run_dir()
@click.option(
    "--load",
    metavar="LOAD",
    default="x1",
    show_default=True,
    help="x2 for twice the load of the run, or any load as `penstock run --load` reads it.",
)
@options.policy("Policy that decides on changes.  [default: that of the run]")
@click.option(
    "--nodes",
    metavar="MACHINES",
    type=int,
    help="Machines of the cluster.  [default: as in the run]",
)
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    default="10m",
    show_default=True,
    help="Simulated time.",
)
@options.model
@options.seed
@options.as_json
def command(
    streams: Streams,
    run_dir: str,
    load: str,
    policy: Policy | None,
    nodes: int | None,
    seconds: str,
    model: str | None,
    seed: int,
) -> None:
    """Predict a run under another load or policy.

    Example: penstock whatif runs/mine --load x2 --policy ds2
    """
    from penstock.app import run
    from penstock.dataflow import duration
    from penstock.predict import model_file, whatif
    from penstock.store.run_directory import local

    question = whatif.Question(load, policy, nodes, duration.seconds(seconds), seed)
    fitted = None if model is None else model_file.read(model)
    answer = whatif.ask(local(run_dir), question, fitted, run=run)
    streams.print(answer.to_json(), _lines(answer))


def _lines(answer: Prediction) -> Iterator[str]:
    from penstock import text

    rate = f"{text.rate(answer.alone.offered)} rows/s offered"
    yield (
        f"{answer.flow} for {text.span(answer.seconds)} on {answer.nodes} "
        f"machine{'s' * (answer.nodes != 1)}, {rate} on average"
    )
    yield from _outcome("left alone", answer.alone)
    if answer.steered is not answer.alone:
        yield from _outcome(f"with policy {answer.steered.policy}", answer.steered)
    if answer.quality is not None:
        yield (
            f"the model explains half of the windows it was fitted to within "
            f"{100 * answer.quality.typical:.1f} %"
        )
    for note in answer.notes:
        yield f"note: {note}"


def _outcome(title: str, one: PredictedRun) -> Iterator[str]:
    from penstock import text

    kept = "" if one.throughput >= 0.97 * one.offered else ", so it falls behind"
    yield f"{title}: {text.rate(one.throughput)} rows/s{kept}"
    for name, latency in one.latency.items():
        if latency.mean is None:
            yield f"  {name}: no record got through"
            continue
        word = "keeps" if latency.mean <= latency.bound else "misses"
        yield (
            f"  {name}: mean {text.span(latency.mean)}, p95 {text.span(latency.p95)}, {word} its "
            f"bound of {text.span(latency.bound)} (met in {text.share(latency.met)} of windows)"
        )
    plan = "; ".join(
        f"{'+'.join(p.operators)} = {p.parallelism}"
        + (f" every {text.span(p.cadence)}" if p.cadence else "")
        for p in one.plan.pipelines
    )
    yield f"  plan: {plan}"
    yield (
        f"  cost: {text.count(one.slot_seconds)} slot-seconds, {one.plan.slots} slots on "
        f"{one.plan.executors} executor{'s' * (one.plan.executors != 1)} at the end; "
        f"{one.changes} change{'s' * (one.changes != 1)}"
    )
