"""`penstock calibrate`: fit the simulator to recorded runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.predict.calibration import Calibration


@base.command("calibrate")
@click.argument(
    "run_dirs",
    metavar="RUN_DIR...",
    nargs=-1,
    required=True,
    help="Directories of runs of one dataflow on Spark.",
    shell_complete=options.complete_directory,
)
@click.option("--out", metavar="FILE", help="Write the model to this file, for --model.")
@options.as_json
def command(streams: Streams, run_dirs: tuple[str, ...], out: str | None) -> None:
    """Fit the costs of the simulator to recorded runs on Spark.

    Example: penstock calibrate runs/mine --out model.json
    """
    from penstock.predict import calibration, model_file, observations
    from penstock.store.run_directory import local

    folders = [local(one) for one in run_dirs]
    found = calibration.fit([observations.read_run(folder) for folder in folders])
    data = model_file.to_json(found, folders)
    if out is not None:
        try:
            Path(out).expanduser().write_text(json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise InvalidInput(f"cannot write '{out}': {error.strerror}") from None
    streams.print(data, _fitted(found, out))


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
    for name, cost in found.costs.items():
        if cost.service.mean or cost.selectivity != 1:
            waits = f", {text.share(1 - cost.cpu)} of it waiting" if cost.cpu < 0.995 else ""
            skew = f", skew {cost.keys.skew:g}" if found.graph[name].stateful else ""
            yield (
                f"{name}: {1000 * cost.service.mean:.4g} ms a row{waits}, "
                f"{cost.selectivity:g} out for one in{skew}"
            )
    for note in found.notes:
        yield f"note: {note}"
    if out is not None:
        yield f"written to {out}"
