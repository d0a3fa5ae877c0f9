"""Profiling of dataflows, as `penstock profile`, `compare` and `capacity` do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import options
from penstock.cli.cluster import Cluster, cluster
from penstock.cli.standard_output import Streams

if TYPE_CHECKING:
    from penstock.cli.flows import Reference
    from penstock.plan.limits import Limits
    from penstock.predict.profiling import Profiled

_WINDOW = 1.0
"""Seconds of one observation on a simulated cluster, where only random numbers differ."""


@dataclass(frozen=True)
class Profiling:
    """How to profile: what the options say."""

    load: str | None
    seconds: str | None
    run_dir: str | None
    executors: int
    limits: Limits
    settings: Sequence[str]
    spark: options.SparkOptions
    simulate: bool
    cluster: Cluster

    def profiles(self, flows_given: Sequence[str], streams: Streams) -> list[Profiled]:
        """Profile one dataflow after the other; Ctrl-C ends the current one and skips the rest."""
        from penstock.cli import flows
        from penstock.dataflow import duration
        from penstock.dataflow.load_profile import parse

        # Everything is read before Spark starts, so that a typing error is reported at once.
        references = [flows.Reference.read(text) for text in flows_given]
        options.read_policy("stepwise", self.settings)
        if self.load is not None:
            parse(self.load)
        if self.seconds is not None:
            duration.seconds(self.seconds)
        found: list[Profiled] = []
        with flows.session(self.spark.master):
            for number, reference in enumerate(references, start=1):
                home: str | Path | None = self.run_dir
                if home is not None and len(references) > 1:
                    home = Path(home) / f"{number}-{reference.name}"
                found.append(self._profile(reference, home, streams))
                if found[-1].interrupted:
                    break
        streams.keep_log(Path(found[-1].run_dir))
        return found

    def _profile(
        self, reference: Reference, run_dir: str | Path | None, streams: Streams
    ) -> Profiled:
        from penstock.app import profile
        from penstock.cli import flows
        from penstock.engines.simulator.engine import SimulatorEngine
        from penstock.policies.stepwise.policy import Stepwise
        from penstock.views.plain_lines import ProgressView

        policy = options.read_policy("stepwise", self.settings)
        assert isinstance(policy, Stepwise)
        engine = None
        with flows.run_directory(reference, run_dir) as home:
            out = home and Path(home) / "out"
            if self.simulate:
                flow = flows.loaded_lightly(reference, out or "out")
                model = self.cluster.simulated(flow, self.executors)
                engine = SimulatorEngine(model, seed=self.cluster.seed, window=_WINDOW)
            else:
                flow = flows.loaded(reference, self.spark.master, self.spark.conf, out)
            return profile(
                flow,
                policy=policy,
                engine=engine,
                clock=None if engine is None else engine.clock,
                load=self.load,
                executors=self.executors,
                limits=self.limits,
                master=self.spark.master,
                conf=self.spark.conf,
                seconds=self.seconds,
                run_dir=home,
                view=ProgressView(streams.err),
            )


def _profiling(given: dict[str, Any]) -> Profiling:
    return Profiling(**{name: given.pop(name) for name in Profiling.__annotations__})


def profiling(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of profiling, passed as the argument `profiling`."""
    shared = (
        click.option(
            "--load",
            metavar="LOAD",
            help=f"Load that stresses the dataflow.  [default: ten times its own] {options.LOAD}",
        ),
        click.option(
            "--for",
            "seconds",
            metavar="DURATION",
            help="End after this time, with what was found by then, e.g. 20m.",
        ),
        options.new_run_dir,
        click.option(
            "--executors",
            metavar="EXECUTORS",
            type=int,
            default=1,
            show_default=True,
            help="Executors to profile with.",
        ),
        options.limits,
        options.settings,
        options.spark,
        options.as_json,
        click.option(
            "--simulate",
            is_flag=True,
            help="Profile without Spark, on a simulated cluster of as many machines as --executors "
            "says; the options below describe it.",
        ),
        cluster,
    )
    decorated = options.combined("profiling", _profiling)(function)
    for option in reversed(shared):
        decorated = option(decorated)
    return decorated


def run_command(flow: str, found: Profiled) -> str:
    """The command line that runs a dataflow with the plan that was found."""
    return f" penstock run {flow} --plan {found.run_dir}/plan.json"
