"""The command `dashboard`, and what `run --dashboard` says."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from penstock.cli.streams import Streams

if TYPE_CHECKING:
    from penstock.dashboard.beside import Beside

_USUAL = -1  # the usual port, or any if that is taken


def add(commands: Any) -> None:
    """Make the command known to the parser."""
    made = commands.add_parser(
        "dashboard",
        help="show a run in a browser",
        description="Serve a page that shows a run, under way or over, until Ctrl-C.",
    )
    made.add_argument("run_dir", metavar="RUN_DIR", help="the run directory of the flow")
    made.add_argument(
        "--port",
        metavar="P",
        type=_port,
        help="where (8765, or any other if that is taken; 0: any)",
    )
    made.add_argument(
        "--host",
        metavar="H",
        default="127.0.0.1",
        help="the address to serve at (127.0.0.1: this machine only; others need the token)",
    )
    made.add_argument(
        "--token",
        metavar="T",
        help="what a page needs to ask for something (a new one each time); others on this "
        "machine can read it in the list of processes",
    )
    made.set_defaults(do=_dashboard)


def add_beside(run: argparse.ArgumentParser) -> None:
    """`run --dashboard`."""
    run.add_argument(
        "--dashboard",
        metavar="PORT",
        nargs="?",
        type=_port,
        const=_USUAL,
        help="show the run in a browser too; --dashboard=PORT says where on this machine",
    )


@contextmanager
def beside(given: argparse.Namespace, streams: Streams) -> Iterator[Beside | None]:
    """Before Spark starts: a port that is taken should not wait for that."""
    if given.dashboard is None:
        yield None
        return
    from penstock.dashboard.beside import Beside

    port = None if given.dashboard == _USUAL else given.dashboard
    with closing(Beside(port)) as dashboard:
        print(f"penstock: dashboard at {dashboard.url}", file=streams.err, flush=True)
        yield dashboard


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port: write a number up to 65535")
    return int(text)


def _dashboard(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.dashboard.serving import address, check_installed, listen, serve

    check_installed()
    from penstock.dashboard.access import Access
    from penstock.dashboard.run_reader import check
    from penstock.store.run_directory import local

    home = local(given.run_dir)
    check(home)
    token = Access(token=given.token or secrets.token_urlsafe(24)).token
    with listen(given.port, given.host) as listening:
        where = address(listening, token)
        print(f"penstock: dashboard of {home} at {where}", file=streams.out, flush=True)
        with suppress(KeyboardInterrupt):  # the usual end
            serve(home, listening, token)
    return 0
