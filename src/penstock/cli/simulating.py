"""The command `simulate`: a dataflow on a cluster that is not there."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli import setting, starting
from penstock.cli.streams import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.dataflow.flow import Dataflow
    from penstock.engines.simulator.model import Model

_COST = (
    "time of an operator for a record: count=2ms, count=2ms~0.5 with a coefficient of variation, "
    "count=2ms~exp; may be given several times"
)
_ARRIVALS = (
    "poisson, deterministic, bursty:10 (records of a burst) or gamma:2.0 (cv); poisson unless "
    "there is a model, which is of generated records that come evenly"
)


_PACE = 5.0
"""Seconds of work that a batch takes at most, as on Spark: those of a window."""


def add(commands: Any, flow: str, load: str, change: str) -> None:
    """Make the command known to the parser."""
    made = commands.add_parser(
        "simulate",
        help="run a dataflow on a simulated cluster",
        description="Run a dataflow on a simulated cluster: no Spark, no records, no waiting.",
    )
    made.add_argument("flow", metavar="FLOW", help=flow)
    made.add_argument("--policy", metavar="P", default="static", help="who decides (static)")
    setting.add(made)
    made.add_argument("--nodes", metavar="N", type=int, default=1, help="machines there are (1)")
    made.add_argument("--plan", metavar="FILE", help="start with this plan (JSON)")
    made.add_argument("--load", metavar="L", help=load)
    made.add_argument("--for", dest="seconds", metavar="T", default="10m", help="how long (10m)")
    made.add_argument("--change", metavar="C", action="append", default=[], help=change)
    add_cluster(made)
    made.add_argument("--run-dir", metavar="D", help="where everything is kept")
    made.add_argument("--json", action="store_true", help="one JSON object on standard output")
    made.set_defaults(do=_simulate)


def add_cluster(command: Any) -> None:
    """Options that say what is simulated."""
    add = command.add_argument
    add("--cores", metavar="C", type=int, help="slots of a machine (4)")
    add("--arrivals", metavar="A", help=_ARRIVALS)
    add("--cost", metavar="O=T", action="append", default=[], help=_COST)
    add("--selectivity", metavar="O=X", action="append", default=[], help="records out for one in")
    add("--from", dest="measured", metavar="D", help="costs as a run measured them")
    add("--model", metavar="FILE", help="a model as `calibrate --out` writes it")
    add("--batches", action="store_true", help="in micro-batches, as Spark runs")
    add("--queue", metavar="N", type=int, help="records that wait for an instance")
    add("--seed", metavar="S", type=int, default=0, help="chance (0)")


def _simulate(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.app import run
    from penstock.cli import flows, plans
    from penstock.dataflow.load_profile import parse
    from penstock.engines.simulator.engine import SimulatorEngine
    from penstock.store import run_directory
    from penstock.store.run_directory import local

    reference = flows.Reference.read(given.flow)
    policy = setting.policy(given.policy, given.settings)
    plan = None if given.plan is None else plans.read(given.plan)
    if given.load is not None:
        parse(given.load)
    given_dir = given.run_dir and local(given.run_dir)
    home = given_dir or run_directory.choose(reference.name, None, time.time())
    try:
        flow = starting.loaded_lightly(reference)
        engine = SimulatorEngine(model(given, flow, given.nodes), load=given.load, seed=given.seed)
        summary = run(
            flow.graph if given.load is None else flow.graph.with_load(given.load),
            policy=policy,
            plan=plan,
            engine=engine,
            seconds=given.seconds,
            changes=given.change,
            run_dir=home,
            verify=False,
            clock=engine.clock,
        )
    finally:
        if given.run_dir is None:
            with suppress(OSError):
                Path(home).rmdir()  # it never started: leave no empty directory behind
    if given.json:
        print(json.dumps(summary.to_json(), indent=2), file=streams.out, flush=True)
        return 0
    from rich.console import Console

    from penstock.views.summary_table import summary_table

    Console(file=streams.out).print(summary_table(summary))
    return 0


def model(given: argparse.Namespace, flow: Dataflow, nodes: int) -> Model:
    """What the options say is simulated."""
    from penstock.engines.simulator import arrivals
    from penstock.engines.simulator.model import MicroBatch, Model, Node
    from penstock.predict import model_file, operator_costs

    comes = None if given.arrivals is None else arrivals.parse(given.arrivals)
    if given.model is not None:
        if given.cost or given.selectivity or given.measured:
            raise InvalidInput(
                "a model says what operators cost: leave --cost, --from and such out"
            )
        fitted = model_file.read(given.model)
        made = fitted.model(flow.graph, nodes, comes, given.cores)
        return made if given.queue is None else replace(made, queue=given.queue)
    factors = {name: _number(text) for name, text in _pairs(given.selectivity).items()}
    steps = operator_costs.steps(flow.graph, _pairs(given.cost), factors, given.measured)
    made = Model(
        steps,
        nodes=nodes,
        node=Node(cores=4 if given.cores is None else given.cores),
        arrivals=comes or arrivals.Poisson(),
        batch=MicroBatch(pace=_PACE) if given.batches else None,
    )
    return made if given.queue is None else replace(made, queue=given.queue)


def _pairs(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidInput(f"cannot read '{text}': write it like count=2ms")
        found[name] = value
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"'{text}' is not a number of records out for one in") from None
