"""`penstock help`: explain all commands, or one."""

from __future__ import annotations

import click

from penstock.cli import base
from penstock.cli.standard_output import Streams


@base.command("help")
@click.argument("name", metavar="[COMMAND]", required=False, help="The command to explain.")
@click.pass_context
def command(ctx: click.Context, streams: Streams, name: str | None) -> None:
    """Explain all commands, or one of them.

    Example: penstock help scale
    """
    group = ctx.parent
    assert group is not None
    if name is None:
        streams.print({}, [group.get_help()])
        return
    assert isinstance(group.command, click.Group)
    _, explained, _ = group.command.resolve_command(group, [name])
    assert explained is not None
    with click.Context(explained, info_name=name, parent=group) as context:
        streams.print({}, [explained.get_help(context)])
