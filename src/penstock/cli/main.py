"""The command `penstock`: read the words, build values, call the library."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.cli import (
    advising,
    asking,
    calibrating,
    choosing,
    explaining,
    guarding,
    profiling,
    recalling,
    setting,
    showing,
    simulating,
    starting,
)
from penstock.cli.streams import Streams
from penstock.errors import InvalidInput, PenstockError
from penstock.workloads import LAB

if TYPE_CHECKING:
    from penstock.control.status import View
    from penstock.views.prometheus import Exporter

# Exit codes: 0 well, 1 the work was done and its result is bad, 2 it could not be done, 3 the work
# was done and too many rows became dead letters, 70 an error of ours, 130 stopped at once by Ctrl-C
# (as shells count it).
_EXIT_INEXACT, _EXIT_DEAD = 1, 3

_FLOW = "a built-in workload (see `penstock workloads`) or path/to/file.py:name"
_LOAD = (
    "load of all generators: 5000/s, steps:1000,4000,1000@20s, ramp:..., sine:..., spikes:..., "
    "trace:file.csv"
)


_CHANGE = (
    "what to change when: 20s:count=4, 30s:executors=2, 40s:split count; may be given several times"
)
_BACKUP = "let the time between commits of state follow the load within bounds, e.g. 200ms..5s"
_CONF = "a setting of Spark, e.g. spark.jars.packages=...; may be given several times"


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code."""
    try:
        given = parser().parse_args(_joined(sys.argv[1:] if argv is None else argv))
    except _Misuse as error:
        asked = "--json" in (sys.argv[1:] if argv is None else argv)
        print(f"penstock: {error}", file=sys.stderr)
        if asked:
            print(json.dumps({"error": str(error)}, indent=2))
        return 2
    as_json = bool(getattr(given, "json", False))
    quiet = _wants_live(given) or getattr(given, "engine", "") == "spark"
    apart = bool(getattr(given, "spark", False))
    with Streams(json=as_json, quiet=quiet, apart=apart) as streams:
        try:
            return int(given.do(given, streams))
        except PenstockError as error:
            return _failed(streams, 2, str(error))
        except KeyboardInterrupt as stopped:
            return _failed(streams, 130, str(stopped) or "interrupted")
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads: let nothing be flushed
            return 1
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            what = f"unexpected {type(error).__name__}: {first}"
            return _failed(streams, 70, f"{what} (PENSTOCK_DEBUG=1 shows where)")


class _Misuse(Exception):
    """Words that the command does not understand, and who tells how it wants them."""


def _joined(words: Sequence[str]) -> list[str]:
    """`--for -1s` as `--for=-1s`, so that it is found wrong for what it is, and not missing."""
    found: list[str] = []
    for word in words:
        if found and re.match(r"--[a-z][a-z-]*$", found[-1]) and re.match(r"-[0-9.]", word):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


class _Parser(argparse.ArgumentParser):
    """Leaves it to `main` to say what is wrong, since that may have to be JSON."""

    def error(self, message: str) -> NoReturn:
        hint = f"; {LAB}" if "invalid choice: 'experiment'" in message else ""
        raise _Misuse(f"{message}{hint} (`{self.prog} --help` tells more)")


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    top = _Parser(prog="penstock", description="Elastic stream processing on Apache Spark.")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="run a dataflow", description="Run a dataflow on Spark.")
    run.add_argument("flow", metavar="FLOW", help=_FLOW)
    run.add_argument("--master", metavar="M", help="Spark's master (default: this machine)")
    run.add_argument("--conf", metavar="K=V", action="append", default=[], help=_CONF)
    run.add_argument("--plan", metavar="FILE", help="start with this plan (JSON)")
    run.add_argument("--load", metavar="L", help=_LOAD)
    run.add_argument(
        "--for", dest="seconds", metavar="T", help="stop and drain after, e.g. 60s or 5m"
    )
    run.add_argument("--change", metavar="C", action="append", default=[], help=_CHANGE)
    run.add_argument("--backup", metavar="A..B", help=_BACKUP)
    run.add_argument(
        "--dead-letters-at-most",
        metavar="SHARE",
        default="0.1",
        help="exit code 3 if a larger share of the rows became dead letters (0.1; 1: never)",
    )
    run.add_argument("--run-dir", metavar="D", help="where everything is kept; continues a run")
    run.add_argument("--policy", metavar="P", default="static", help="who decides (static)")
    setting.add(run)
    guarding.add(run)
    run.add_argument("--metrics-port", metavar="N", type=int, help="serve metrics for Prometheus")
    run.add_argument(
        "--metrics-address", metavar="A", help="where to serve them (127.0.0.1: this machine only)"
    )
    showing.add_beside(run)
    run.add_argument("--out", metavar="DIR", help="where a built-in workload writes its output")
    run.add_argument("--no-view", action="store_true", help="show nothing while it runs")
    run.add_argument("--json", action="store_true", help="one JSON object on standard output")
    run.set_defaults(do=_run, spark=True)

    explaining.add(commands, _FLOW, _CONF)
    asking.add(commands)
    advising.add(commands)
    recalling.add(commands)
    showing.add(commands)
    simulating.add(commands, _FLOW, _LOAD, _CHANGE)
    calibrating.add(commands)
    profiling.add(commands, _FLOW, _LOAD, _CONF)
    choosing.add(commands)
    for entry in entry_points(group="penstock.commands"):  # commands of other packages
        entry.load().add(commands)

    doctor = commands.add_parser(
        "doctor",
        help="check this machine",
        description="Check what Penstock needs of this machine, and say what to do.",
    )
    doctor.add_argument("--json", action="store_true", help="one JSON object on standard output")
    doctor.set_defaults(do=_doctor)

    listing = commands.add_parser("workloads", help="list the built-in dataflows")
    listing.add_argument("--json", action="store_true", help="one JSON object on standard output")
    listing.set_defaults(do=_workloads)

    number = commands.add_parser("version", help="print the version")
    number.set_defaults(do=_version)
    return top


# --- the commands -------------------------------------------------------------------------------


def _run(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.app import run
    from penstock.cli import flows, plans
    from penstock.control.requests import parse_change
    from penstock.control.run_input import dead_letter_limit, in_time
    from penstock.dataflow.duration import seconds
    from penstock.dataflow.load_profile import parse
    from penstock.policies.es_stream.commit_interval import Interval

    reference = flows.Reference.read(given.flow)
    conf = starting.settings(given.conf)
    if given.out is not None and reference.file is not None:
        raise InvalidInput("--out is for built-in workloads; a file says where its output goes")
    plan = None if given.plan is None else plans.read(given.plan)
    if given.load is not None:
        parse(given.load)  # a typing error should not wait for Spark to start
    backup = None if given.backup is None else Interval.parse(given.backup)
    changes = [parse_change(text) for text in given.change]
    in_time(changes, None if given.seconds is None else seconds(given.seconds))
    at_most = dead_letter_limit(given.dead_letters_at_most)
    limits, guard = guarding.limits(given), guarding.guard(given)
    policy = setting.policy(given.policy, given.settings)
    with (
        starting.home(reference, given.run_dir) as home,
        starting.session(given.master),
        _serving(given, streams) as exporter,
        showing.beside(given, streams) as dashboard,
    ):
        summary = run(
            starting.loaded(
                reference, given.master, conf, given.out or (home and Path(home) / "out")
            ),
            policy=policy,
            plan=plan,
            master=given.master,
            conf=conf,
            load=given.load,
            seconds=given.seconds,
            changes=changes,
            backup=backup,
            limits=limits,
            guard=guard,
            advise=given.advise,
            run_dir=home,
            dead_letters_at_most=at_most,
            view=_view(given, streams),
            metrics=exporter,
            dashboard=dashboard,
        )
    streams.keep_log(Path(summary.run_dir))
    if given.json:
        _print_json(streams, summary.to_json())
    else:
        from rich.console import Console

        from penstock.views.summary_table import summary_table

        Console(file=streams.out).print(summary_table(summary))
    inexact = summary.exact is False
    if inexact:
        print(
            f"penstock: the result of '{summary.flow}' is not exact: {summary.exact_reason}; "
            f"see {summary.run_dir}",
            file=streams.err,
        )
    for change in summary.changes_left:
        print(f"penstock: the change '{change}' never came: the run ended before", file=streams.err)
    if summary.dead_letters.too_many:
        letters = summary.dead_letters
        print(
            f"penstock: {letters.rows:,} of {letters.entered:,} rows became dead letters, more "
            f"than {100 * letters.at_most:g}%; see {summary.run_dir}/dead for the errors, "
            "--dead-letters-at-most allows more",
            file=streams.err,
        )
    return _EXIT_INEXACT if inexact else _EXIT_DEAD if summary.dead_letters.too_many else 0


def _doctor(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.cli.doctor import Level, examine

    checks = examine()
    failed = any(c.level is Level.FAIL for c in checks)
    if given.json:
        _print_json(streams, {"ok": not failed, "checks": [c.to_json() for c in checks]})
        return int(failed)
    from rich.console import Console
    from rich.text import Text

    console = Console(file=streams.out)
    style = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}
    for check in checks:
        line = Text.assemble((f" {check.level.value:<5}", style[check.level]), f"{check.name}: ")
        console.print(line.append(check.found), soft_wrap=True)
        if check.advice:
            console.print(Text(f"       → {check.advice}"), soft_wrap=True)
    words = "something here keeps Penstock from running" if failed else "ready to run"
    console.print(Text(f"\n {words}", "bold red" if failed else "bold green"))
    return int(failed)


def _workloads(given: argparse.Namespace, streams: Streams) -> int:
    from penstock import workloads

    known = [workloads.describe(name) for name in workloads.names()]
    if not known and not given.json:
        print(f"penstock: no workloads are installed; {workloads.LAB}", file=streams.err)
        return 0
    if given.json:
        shown = [{"name": w.name, "description": w.description, "from": w.source} for w in known]
        _print_json(streams, {"workloads": shown})
        return 0
    width = max(len(w.name) for w in known)
    for one in known:
        print(f"{one.name:<{width}}  {one.description}  ({one.source})", file=streams.out)
    return 0


def _version(given: argparse.Namespace, streams: Streams) -> int:
    print(f"penstock {version('penstock')} with pyspark {version('pyspark')}", file=streams.out)
    return 0


# --- helpers ------------------------------------------------------------------------------------


def _view(given: argparse.Namespace, streams: Streams) -> View | None:
    if given.no_view:
        return None
    if not streams.quiet:
        from penstock.views.plain_lines import PlainView

        return PlainView(streams.err)
    from rich.console import Console

    from penstock.views.live import LiveView

    # Rich asks the descriptors 0 to 2 for the size of the terminal; two of them point elsewhere.
    width = None if sys.stdin.isatty() else os.get_terminal_size(streams.err.fileno()).columns
    return LiveView(Console(file=streams.err, width=width))


@contextmanager
def _serving(given: argparse.Namespace, streams: Streams) -> Iterator[Exporter | None]:
    """Before Spark starts: a port that is taken should not wait for that."""
    from penstock.views.prometheus import LOOPBACK, Exporter

    if given.metrics_port is None:
        if given.metrics_address is not None:
            raise InvalidInput("--metrics-address needs --metrics-port: which port to serve at")
        yield None
        return
    with closing(Exporter(given.metrics_port, given.metrics_address or LOOPBACK)) as exporter:
        print(f"penstock: metrics at {exporter.url}", file=streams.err, flush=True)
        yield exporter


def _wants_live(given: argparse.Namespace) -> bool:
    return (
        given.do is _run
        and not given.no_view
        and sys.stderr.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def _print_json(streams: Streams, value: dict[str, Any]) -> None:
    print(json.dumps(value, indent=2), file=streams.out, flush=True)


def _failed(streams: Streams, code: int, message: str) -> int:
    """Say what is wrong in one line, or with the trace if it is asked for."""
    if os.environ.get("PENSTOCK_DEBUG") not in (None, "", "0"):
        traceback.print_exc(file=streams.err)
    print(f"penstock: {message}", file=streams.err, flush=True)
    if streams.log is not None and streams.log.stat().st_size > 0:
        print(f"penstock: Spark's own messages are in {streams.log}", file=streams.err, flush=True)
    if streams.json:
        _print_json(streams, {"error": message})
    return code
