"""`penstock dashboard`: a run in a browser."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams


class Port(click.ParamType[int]):
    """A TCP port."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):  # a default
            return value
        if not value.isdecimal() or int(value) > 65535:
            self.fail(f"'{value}' is no port: write a number up to 65535", param, ctx)
        return int(value)


@base.command("dashboard")
@options.run_dir()
@click.option(
    "--port",
    metavar="PORT",
    type=Port(),
    help="Port to serve at; 0 is any free one.  [default: 8765, or any if that is in use]",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to serve at. The default is for this machine only; at others a browser needs "
    "the token.",
)
@click.option(
    "--token",
    metavar="TOKEN",
    help="What a page needs to request a change. Other users of this machine can read it in the "
    "list of processes.  [default: a new one each time]",
)
def command(streams: Streams, run_dir: str, port: int | None, host: str, token: str | None) -> None:
    """Show a run in a browser until Ctrl-C.

    Example: penstock dashboard runs/mine
    """
    from penstock.dashboard.serving import address, check_installed, listen, serve

    check_installed()
    from penstock.dashboard.access import Access
    from penstock.dashboard.run_reader import check
    from penstock.store.run_directory import local

    home = local(run_dir)
    check(home)
    secret = Access(token=token or secrets.token_urlsafe(24)).token
    with listen(port, host) as listening:
        where = address(listening, secret)
        print(f"penstock: dashboard of {home} at {where}", file=streams.out, flush=True)
        with suppress(KeyboardInterrupt):  # the usual end
            serve(home, listening, secret)
