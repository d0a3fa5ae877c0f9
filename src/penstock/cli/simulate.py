"""`penstock simulate`: run a dataflow on a simulated cluster."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli import base, options
from penstock.cli.cluster import Cluster, cluster
from penstock.cli.standard_output import Streams

if TYPE_CHECKING:
    from penstock.policies.base.policy import Policy


@base.command("simulate")
@options.flow()
@options.policy(
    "Policy that decides on changes (see `penstock policies`).", default="static", show_default=True
)
@click.option(
    "--nodes",
    metavar="MACHINES",
    type=int,
    default=1,
    show_default=True,
    help="Machines of the cluster.",
)
@options.plan
@options.load
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    default="10m",
    show_default=True,
    help="Simulated time.",
)
@options.changes
@cluster
@options.new_run_dir
@options.as_json
def command(
    streams: Streams,
    flow: str,
    policy: Policy,
    nodes: int,
    plan: str | None,
    load: str | None,
    seconds: str,
    changes: tuple[str, ...],
    cluster: Cluster,
    run_dir: str | None,
) -> None:
    """Run a dataflow on a simulated cluster, without Spark.

    Example: penstock simulate linear --nodes 4 --load 200/s --policy ds2
    """
    from penstock.app import run
    from penstock.cli import flows
    from penstock.dataflow.load_profile import parse
    from penstock.engines.simulator.engine import SimulatorEngine
    from penstock.store import run_directory
    from penstock.store.run_directory import local
    from penstock.views.summary_table import summary_table

    reference = flows.Reference.read(flow)
    start = options.read_plan(plan)
    if load is not None:
        parse(load)
    given = run_dir and local(run_dir)
    home = given or run_directory.choose(reference.name, None, time.time())
    try:
        graph = (built := flows.loaded_lightly(reference)).graph
        engine = SimulatorEngine(cluster.simulated(built, nodes), load=load, seed=cluster.seed)
        summary = run(
            graph if load is None else graph.with_load(load),
            policy=policy,
            plan=start,
            engine=engine,
            seconds=seconds,
            changes=changes,
            run_dir=home,
            verify=False,
            clock=engine.clock,
        )
    finally:
        if run_dir is None:
            with suppress(OSError):
                Path(home).rmdir()  # it never started: leave no empty directory behind
    streams.render(summary.to_json(), [summary_table(summary)])
