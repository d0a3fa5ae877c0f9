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

from penstock.cli import setting
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
    made.add_argument("--cores", metavar="C", type=int, help="slots of a machine (4)")
    made.add_argument("--plan", metavar="FILE", help="start with this plan (JSON)")
    made.add_argument("--load", metavar="L", help=load)
    made.add_argument("--arrivals", metavar="A", help=_ARRIVALS)
    made.add_argument("--for", dest="seconds", metavar="T", default="10m", help="how long (10m)")
    made.add_argument("--change", metavar="C", action="append", default=[], help=change)
    made.add_argument("--cost", metavar="O=T", action="append", default=[], help=_COST)
    made.add_argument(
        "--selectivity", metavar="O=X", action="append", default=[], help="records out for one in"
    )
    made.add_argument("--from", dest="measured", metavar="D", help="costs as a run measured them")
    made.add_argument("--model", metavar="FILE", help="a model as `calibrate --out` writes it")
    made.add_argument("--batches", action="store_true", help="in micro-batches, as Spark runs")
    made.add_argument("--queue", metavar="N", type=int, help="records that wait for an instance")
    made.add_argument("--seed", metavar="S", type=int, default=0, help="chance (0)")
    made.add_argument("--run-dir", metavar="D", help="where everything is kept")
    made.add_argument("--json", action="store_true", help="one JSON object on standard output")
    made.set_defaults(do=_simulate)


def _simulate(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.cli import flows, plans
    from penstock.control import directory
    from penstock.control.run import run
    from penstock.engines.simulator.engine import SimulatorEngine
    from penstock.models.load import parse

    reference = flows.Reference.read(given.flow)
    policy = setting.policy(given.policy, given.settings)
    plan = None if given.plan is None else plans.read(given.plan)
    if given.load is not None:
        parse(given.load)
    home = given.run_dir or directory.choose(reference.name, None, time.time())
    try:
        flow = _loaded(reference)
        engine = SimulatorEngine(_model(given, flow), load=given.load, seed=given.seed)
        summary = run(
            flow,
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

    from penstock.report.table import summary_table

    Console(file=streams.out).print(summary_table(summary))
    return 0


def _model(given: argparse.Namespace, flow: Dataflow) -> Model:
    from penstock.engines.simulator import arrivals, costs, modelfile
    from penstock.engines.simulator.model import MicroBatch, Model, Node

    comes = None if given.arrivals is None else arrivals.parse(given.arrivals)
    if given.model is not None:
        if given.cost or given.selectivity or given.measured:
            raise InvalidInput(
                "a model says what operators cost: leave --cost, --from and such out"
            )
        fitted = modelfile.read(given.model)
        model = fitted.model(flow.graph, given.nodes, comes, given.cores)
        return model if given.queue is None else replace(model, queue=given.queue)
    factors = {name: _number(text) for name, text in _pairs(given.selectivity).items()}
    steps = costs.steps(flow.graph, _pairs(given.cost), factors, given.measured)
    model = Model(
        steps,
        nodes=given.nodes,
        node=Node(cores=4 if given.cores is None else given.cores),
        arrivals=comes or arrivals.Poisson(),
        batch=MicroBatch() if given.batches else None,
    )
    return model if given.queue is None else replace(model, queue=given.queue)


def _loaded(reference: Any) -> Dataflow:
    """The dataflow. Only a file that makes Spark columns needs a session of Spark's for that."""
    try:
        found: Dataflow = reference.load("out")
    except InvalidInput:
        if reference.file is None:
            raise
        from penstock.engines.spark.session import session

        session(None, {})
        found = reference.load("out")
    return found


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
