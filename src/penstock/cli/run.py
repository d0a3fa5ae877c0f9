"""`penstock run`: run a dataflow on Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli import base, options
from penstock.cli.dashboard import Port
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.control.guard import Guard
    from penstock.control.status import View
    from penstock.control.summary import Summary
    from penstock.dashboard.child_process import Beside
    from penstock.plan.limits import Limits
    from penstock.policies.base.policy import Policy
    from penstock.views.prometheus import Exporter

_USUAL_PORT = -1


def _live(ctx: click.Context) -> bool:
    """True if the terminal shows a live view, and so must show nothing else."""
    terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return terminal and not ctx.params["no_view"] and not base.verbosity(ctx)


@base.command("run", spark=True, quiet=_live)
@options.flow()
@options.spark
@options.plan
@options.load
@click.option(
    "--for", "seconds", metavar="DURATION", help="Stop and drain after this time, e.g. 60s or 5m."
)
@options.changes
@click.option(
    "--backup",
    metavar="MIN..MAX",
    help="Let the time between commits of state follow the load within these bounds, e.g. "
    "200ms..5s.",
)
@click.option(
    "--dead-letters-at-most",
    metavar="SHARE",
    default="0.1",
    show_default=True,
    help="Exit with code 3 if a larger share of the rows became dead letters (1: never).",
)
@options.new_run_dir
@options.policy(
    "Policy that decides on changes (see `penstock policies`).", default="static", show_default=True
)
@click.option("--advise", is_flag=True, help="Print what the policy would change; change nothing.")
@options.limits
@options.guard
@click.option(
    "--metrics-port", metavar="PORT", type=int, help="Serve metrics for Prometheus at this port."
)
@click.option(
    "--metrics-address",
    metavar="ADDRESS",
    help="Address to serve metrics at.  [default: 127.0.0.1, this machine only]",
)
@click.option(
    "--dashboard",
    metavar="[PORT]",
    type=Port(),
    is_flag=False,
    flag_value=_USUAL_PORT,
    help="Show the run in a browser too, at port 8765 (any free one if that is in use) or PORT.",
)
@click.option("--out", metavar="DIR", help="Directory for the output of a built-in workload.")
@click.option("--no-view", is_flag=True, help="Print nothing while it runs.")
@options.as_json
def command(
    streams: Streams,
    flow: str,
    spark: options.SparkOptions,
    plan: str | None,
    load: str | None,
    seconds: str | None,
    changes: tuple[str, ...],
    backup: str | None,
    dead_letters_at_most: str,
    run_dir: str | None,
    policy: Policy,
    advise: bool,
    limits: Limits,
    guard: Guard,
    metrics_port: int | None,
    metrics_address: str | None,
    dashboard: int | None,
    out: str | None,
    no_view: bool,
) -> int:
    """Run a dataflow on Spark.

    With --run-dir of an earlier run, continue that run.

    Example: penstock run wordcount --load 5000/s --for 60s
    """
    from penstock.app import run
    from penstock.cli import flows
    from penstock.control.requests import parse_change
    from penstock.control.run_input import dead_letter_limit, in_time
    from penstock.dataflow.duration import seconds as parse_duration
    from penstock.dataflow.load_profile import parse
    from penstock.policies.es_stream.commit_interval import Interval

    # Everything is read before Spark starts, so that a typing error is reported at once.
    reference = flows.Reference.read(flow)
    if out is not None and reference.file is not None:
        raise InvalidInput("--out is for built-in workloads; a file says where its output goes")
    start = options.read_plan(plan)
    if load is not None:
        parse(load)
    interval = None if backup is None else Interval.parse(backup)
    script = [parse_change(text) for text in changes]
    in_time(script, None if seconds is None else parse_duration(seconds))
    at_most = dead_letter_limit(dead_letters_at_most)
    with (
        flows.run_directory(reference, run_dir) as home,
        flows.session(spark.master),
        _exporter(metrics_port, metrics_address, streams) as exporter,
        _dashboard(dashboard, streams) as page,
    ):
        output = out or (home and Path(home) / "out")
        summary = run(
            flows.loaded(reference, spark.master, spark.conf, output),
            policy=policy,
            plan=start,
            master=spark.master,
            conf=spark.conf,
            load=load,
            seconds=seconds,
            changes=script,
            backup=interval,
            limits=limits,
            guard=guard,
            advise=advise,
            run_dir=home,
            dead_letters_at_most=at_most,
            view=None if no_view else _view(streams),
            metrics=exporter,
            dashboard=page,
        )
    streams.keep_log(Path(summary.run_dir))
    return _report(summary, streams)


def _report(summary: Summary, streams: Streams) -> int:
    """Print the summary and what went wrong; the exit code."""
    from penstock.views.summary_table import summary_table

    streams.render(summary.to_json(), [summary_table(summary)])
    inexact = summary.exact is False
    if inexact:
        streams.note(
            f"the result of '{summary.flow}' is not exact: {summary.exact_reason}; "
            f"see {summary.run_dir}"
        )
    for change in summary.changes_left:
        streams.note(f"the change '{change}' never came: the run ended before")
    letters = summary.dead_letters
    if letters.too_many:
        streams.note(
            f"{letters.rows:,} of {letters.entered:,} rows became dead letters, more "
            f"than {100 * letters.at_most:g}%; see {summary.run_dir}/dead for the errors, "
            "--dead-letters-at-most allows more"
        )
    return base.INEXACT if inexact else base.DEAD_LETTERS if letters.too_many else 0


def _view(streams: Streams) -> View:
    if not streams.quiet:
        from penstock.views.plain_lines import PlainView

        return PlainView(streams.err)
    from rich.console import Console

    from penstock.views.live import LiveView

    # Rich asks the descriptors 0 to 2 for the size of the terminal; two of them are redirected.
    width = None if sys.stdin.isatty() else os.get_terminal_size(streams.err.fileno()).columns
    return LiveView(Console(file=streams.err, width=width))


@contextmanager
def _exporter(port: int | None, address: str | None, streams: Streams) -> Iterator[Exporter | None]:
    """The server of metrics, before Spark starts: a port may be in use."""
    from penstock.views.prometheus import LOOPBACK, Exporter

    if port is None:
        if address is not None:
            raise InvalidInput("--metrics-address needs --metrics-port: which port to serve at")
        yield None
        return
    with closing(Exporter(port, address or LOOPBACK)) as exporter:
        streams.note(f"metrics at {exporter.url}")
        yield exporter


@contextmanager
def _dashboard(port: int | None, streams: Streams) -> Iterator[Beside | None]:
    """The dashboard, before Spark starts: a port may be in use."""
    if port is None:
        yield None
        return
    from penstock.dashboard.child_process import Beside

    with closing(Beside(None if port == _USUAL_PORT else port)) as dashboard:
        streams.note(f"dashboard at {dashboard.url}")
        yield dashboard
