"""The commands that learn from a run: `calibrate` fits the simulator to it, `whatif` asks it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli import setting
from penstock.cli.streams import Streams, tell
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.predict.calibration import Calibration
    from penstock.predict.whatif import PredictedRun, Prediction

_LOAD = "x2 for twice the load of the run, or any load as `run --load` reads it (x1)"


def add(commands: Any) -> None:
    """Make the commands known to the parser."""
    calibrate = commands.add_parser(
        "calibrate",
        help="fit the simulator to a recorded run",
        description="Find the costs with which the simulator does as a recorded run on Spark did.",
    )
    calibrate.add_argument("run_dirs", metavar="RUN_DIR", nargs="+", help="runs of one dataflow")
    calibrate.add_argument(
        "--out", metavar="FILE", help="write the model there, for `simulate --model`"
    )
    calibrate.add_argument("--json", action="store_true", help="one JSON object on standard output")
    calibrate.set_defaults(do=_calibrate)

    whatif = commands.add_parser(
        "whatif",
        help="say what would become of a run under another load or policy",
        description="Simulate a run on from its plan of today, left alone and under a policy.",
    )
    whatif.add_argument("run_dir", metavar="RUN_DIR", help="a run, whole or under way")
    whatif.add_argument("--load", metavar="L", default="x1", help=_LOAD)
    whatif.add_argument("--policy", metavar="P", help="who decides (the run's policy)")
    setting.add(whatif)
    whatif.add_argument("--nodes", metavar="N", type=int, help="machines there are (as in the run)")
    whatif.add_argument("--for", dest="seconds", metavar="T", default="10m", help="how long (10m)")
    whatif.add_argument("--model", metavar="FILE", help="a model as `calibrate --out` writes it")
    whatif.add_argument("--seed", metavar="S", type=int, default=0, help="chance (0)")
    whatif.add_argument("--json", action="store_true", help="one JSON object on standard output")
    whatif.set_defaults(do=_whatif)


# --- calibrate ----------------------------------------------------------------------------------


def _calibrate(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.predict import batch_observations, calibration, model_file
    from penstock.store.run_directory import local

    folders = [local(one) for one in given.run_dirs]
    found = calibration.fit([batch_observations.recording(folder) for folder in folders])
    data = model_file.to_json(found, folders)
    if given.out is not None:
        try:
            Path(given.out).expanduser().write_text(json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise InvalidInput(f"cannot write '{given.out}': {error.strerror}") from None
    return tell(streams, data, _fitted(found, given.out))


def _fitted(found: Calibration, out: str | None) -> Iterator[str]:
    from penstock import text

    quality, batch, node = found.quality, found.batch, found.node
    yield (
        f"{found.graph.name}: fitted to {quality.windows} windows of pipelines, {quality.left_out} "
        f"left out; half of them are explained to {100 * quality.typical:.1f} %, nine tenths to "
        f"{100 * quality.most:.0f} %"
    )
    yield (
        f"a batch: {text.span(batch.planning)} planning, {text.span(batch.log)} log, "
        f"{text.span(batch.job)} job, {text.span(batch.partition)} a task in the driver, "
        f"{text.span(batch.commit)} commit"
    )
    still = f", {text.share(batch.idle)} of these waiting" if batch.idle else ""
    yield (
        f"a task: {text.span(batch.task)}, {text.span(batch.output)} to write, "
        f"{text.span(batch.state)} a part of state{still}, "
        f"{1e6 * batch.row:.2f} µs a row; {node.cores} slots on {node.processors:g} processors"
    )
    for name, step in found.steps.items():
        if step.service.mean or step.selectivity != 1:
            waits = f", {text.share(1 - step.cpu)} of it waiting" if step.cpu < 0.995 else ""
            skew = f", skew {step.keys.skew:g}" if found.graph[name].stateful else ""
            yield (
                f"{name}: {1000 * step.service.mean:.4g} ms a row{waits}, "
                f"{step.selectivity:g} out for one in{skew}"
            )
    for note in found.notes:
        yield f"note: {note}"
    if out is not None:
        yield f"written to {out}"


# --- what if ------------------------------------------------------------------------------------


def _whatif(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.app import run
    from penstock.dataflow import duration
    from penstock.predict import model_file, whatif
    from penstock.store.run_directory import local

    if given.policy is None and given.settings:
        raise InvalidInput("--set is for a policy: say which with --policy")
    question = whatif.Question(
        given.load,
        None if given.policy is None else setting.policy(given.policy, given.settings),
        given.nodes,
        duration.seconds(given.seconds),
        given.seed,
    )
    fitted = None if given.model is None else model_file.read(given.model)
    answer = whatif.ask(local(given.run_dir), question, fitted, run=run)
    return tell(streams, answer.to_json(), _told(answer))


def _told(answer: Prediction) -> Iterator[str]:
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
