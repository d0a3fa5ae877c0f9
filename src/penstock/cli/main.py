"""The command `penstock`: its groups of commands, loaded when they are used."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

import click

from penstock.cli.base import UNUSABLE, did_you_mean, verbose
from penstock.errors import InvalidInput, PenstockError
from penstock.workloads import LAB

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Run and change a flow": (
        *("run", "explain", "scale", "scale-out", "scale-in", "fuse", "split"),
        *("pause", "resume", "policy"),
    ),
    "Look at a run": ("history", "report", "dashboard", "export", "metrics"),
    "Predict": ("simulate", "calibrate", "whatif", "advise", "profile", "compare", "capacity"),
    "Get help": ("help", "policies", "workloads", "doctor", "version"),
}
"""The commands by headings of the help; the module of each is named as the command."""

EXTENSIONS = "Research and extensions"
"""The heading of commands of other distributions."""

GROUP = "penstock.commands"
"""Entry points of commands: a `click.Command`, or a module with one named `command`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(penstock.main(words, prog_name="penstock", standalone_mode=False) or 0)
    except click.ClickException as error:
        message = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "penstock"
        return _misused(f"{message[:1].lower()}{message[1:]} (`{path} --help` tells more)", words)
    except PenstockError as error:
        return _misused(str(error), words)


def _misused(message: str, words: list[str]) -> int:
    print(f"penstock: {message}", file=sys.stderr)
    if "--json" in words:
        print(json.dumps({"error": message}, indent=2))
    return UNUSABLE


def versions() -> str:
    """The versions of Penstock and of Spark for Python."""
    return f"penstock {version('penstock')} with pyspark {version('pyspark')}"


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(versions())
        ctx.exit()


class CommandGroup(click.Group):
    """Commands that are imported when they are used, listed under headings."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(name for names in SECTIONS.values() for name in names), *extensions()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if any(cmd_name in names for names in SECTIONS.values()):
            module = import_module(f"penstock.cli.{cmd_name.replace('-', '_')}")
            found: click.Command = module.command
            return found
        point = extensions().get(cmd_name)
        return None if point is None else _loaded(point)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            hint = did_you_mean(name, self.list_commands(ctx))
            hint = f"; {LAB}" if name == "experiment" else hint
            raise click.UsageError(f"no such command '{name}'{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in {**SECTIONS, EXTENSIONS: tuple(extensions())}.items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name, self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        try:
            found = self.get_command(ctx, name)
        except InvalidInput as error:  # one that is broken hides no others
            return str(error)
        return "" if found is None else found.get_short_help_str(limit=100)


def extensions() -> Mapping[str, EntryPoint]:
    """The commands of other distributions, by name; those of Penstock cannot be replaced."""
    ours = {name for names in SECTIONS.values() for name in names}
    return {one.name: one for one in entry_points(group=GROUP) if one.name not in ours}


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands with their names, in the order of the help."""
    with click.Context(penstock, info_name="penstock") as context:
        for name in penstock.list_commands(context):
            found = penstock.get_command(context, name)
            if found is not None:
                yield name, found


def _loaded(point: EntryPoint) -> click.Command:
    try:
        found: Any = point.load()
    except Exception as error:
        raise InvalidInput(
            f"the command '{point.name}' from '{point.value}' cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    found = getattr(found, "command", found)
    if not isinstance(found, click.Command):
        raise InvalidInput(
            f"the command '{point.name}' from '{point.value}' is neither a click.Command nor a "
            "module with one named 'command': its distribution has to be corrected"
        )
    return found


@click.group(
    cls=CommandGroup,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`penstock COMMAND --help` explains a command and gives an example.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the versions of Penstock and of pyspark.",
)
@verbose
def penstock() -> None:
    """Elastic stream processing on Apache Spark."""
