"""The options that describe a simulated cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import options
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.dataflow.flow import Dataflow
    from penstock.engines.simulator.model import Model

_PACE = 5.0
"""Longest work of a batch in seconds: the window of a run on Spark."""


@dataclass(frozen=True)
class Cluster:
    """The options as they are written; None where one is not given."""

    cores: int | None
    arrivals: str | None
    cost: Sequence[str]
    selectivity: Sequence[str]
    measured: str | None
    model: str | None
    batches: bool
    queue: int | None
    seed: int

    def simulated(self, flow: Dataflow, nodes: int) -> Model:
        """What is simulated: this dataflow on so many machines."""
        from penstock.engines.simulator import arrivals
        from penstock.engines.simulator.model import Machine, MicroBatch, Model
        from penstock.predict import model_file, operator_costs

        given = None if self.arrivals is None else arrivals.parse(self.arrivals)
        if self.model is not None:
            if self.cost or self.selectivity or self.measured:
                raise InvalidInput(
                    "a model says what operators cost: leave --cost, --from and such out"
                )
            made = model_file.read(self.model).model(flow.graph, nodes, given, self.cores)
        else:
            factors = {name: _number(text) for name, text in _pairs(self.selectivity).items()}
            costs = _pairs(self.cost)
            made = Model(
                operator_costs.costs_of(flow.graph, costs, factors, self.measured),
                nodes=nodes,
                node=Machine(cores=4 if self.cores is None else self.cores),
                arrivals=given or arrivals.Poisson(),
                batch=MicroBatch(pace=_PACE) if self.batches else None,
            )
        return made if self.queue is None else replace(made, queue=self.queue)


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


def _cluster(given: dict[str, Any]) -> Cluster:
    return Cluster(**{name: given.pop(name) for name in Cluster.__annotations__})


cluster = options.combined(
    "cluster",
    _cluster,
    click.option("--cores", metavar="SLOTS", type=int, help="Slots of a machine.  [default: 4]"),
    click.option(
        "--arrivals",
        metavar="PROCESS",
        help="How records arrive: poisson, deterministic, bursty:10 (records of a burst) or "
        "gamma:2.0 (coefficient of variation).  [default: poisson; with --model deterministic]",
    ),
    click.option(
        "--cost",
        metavar="OPERATOR=DURATION",
        multiple=True,
        help="Time of an operator for a record: count=2ms, count=2ms~0.5 with a coefficient of "
        "variation, count=2ms~exp. May be repeated.",
    ),
    click.option(
        "--selectivity",
        metavar="OPERATOR=RATIO",
        multiple=True,
        help="Records out of an operator for one in. May be repeated.",
    ),
    click.option(
        "--from",
        "measured",
        metavar="RUN_DIR",
        shell_complete=options.complete_directory,
        help="Take the costs that this run measured.",
    ),
    options.model,
    click.option("--batches", is_flag=True, help="Run in micro-batches, as Spark does."),
    click.option(
        "--queue", metavar="RECORDS", type=int, help="Most records that wait for an instance."
    ),
    options.seed,
)
