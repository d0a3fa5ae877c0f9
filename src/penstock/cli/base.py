"""The class of all commands: how words are parsed, and how an error becomes an exit code."""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from penstock.cli.standard_output import Streams
from penstock.errors import PenstockError

# Exit codes: 0 success, 1 the work was done and its result is bad, 2 it could not be done, 3 the
# work was done and too many rows became dead letters, 70 an error in Penstock, 130 stopped at once
# by Ctrl-C (as shells count it).
INEXACT, UNUSABLE, DEAD_LETTERS, INTERNAL, INTERRUPTED = 1, 2, 3, 70, 130

_VERBOSITY = "penstock.verbosity"


def command(
    name: str,
    *,
    spark: bool = False,
    quiet: Callable[[click.Context], bool] | None = None,
    **more: Any,
) -> Callable[[Callable[..., int | None]], Command]:
    """Make a command of a function that takes the streams first and returns its exit code.

    spark: what Spark writes to standard error goes to a log file. quiet: whether, with the
    parameters of a context, everything that is not the command's own output goes there.
    """

    def decorate(function: Callable[..., int | None]) -> Command:
        made = click.command(name, cls=Command, spark=spark, quiet=quiet, **more)
        return made(click.pass_obj(function))

    return decorate


class Command(click.Command):
    """A command that reports each error in one line, and in JSON where that is asked for."""

    def __init__(
        self,
        *args: Any,
        spark: bool = False,
        quiet: Callable[[click.Context], bool] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._spark = spark
        self._quiet = quiet
        verbose(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # completion has half a command line
            args = self._sorted(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> int:
        as_json = ctx.params.pop("json", False)
        quiet = self._quiet is not None and self._quiet(ctx)
        with (
            Streams(json=as_json, quiet=quiet, spark=self._spark) as streams,
            _logging(verbosity(ctx), streams),
        ):
            ctx.obj = streams
            try:
                return int(super().invoke(ctx) or 0)
            except (click.ClickException, click.exceptions.Exit):
                raise
            except PenstockError as error:
                return failed(streams, UNUSABLE, str(error))
            except KeyboardInterrupt as stopped:
                return failed(streams, INTERRUPTED, str(stopped) or "interrupted")
            except BrokenPipeError:  # nobody reads: let nothing be flushed
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                return 1
            except Exception as error:
                first = (str(error).strip().splitlines() or [""])[0]
                what = f"unexpected {type(error).__name__}: {first}"
                return failed(streams, INTERNAL, f"{what} (PENSTOCK_DEBUG=1 shows where)")

    def _sorted(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options first, each with its value attached, then `--` and the arguments.

        Click would take `-2` for an option and `--json` for the value of the option before it. An
        option may be shortened as long as it is clear which one is meant.
        """
        known = {name: p for p in self.get_params(ctx) for name in p.opts}
        options: list[str] = []
        arguments: list[str] = []
        words = list(args)
        while words:
            word = words.pop(0)
            if word == "--":
                arguments += words
                break
            if not _is_option(word):
                arguments.append(word)
                continue
            name, equals, value = word.partition("=")
            name = _spelled_out(ctx, name, list(known))
            option = known.get(name)
            if isinstance(option, click.Option) and not (option.is_flag or option.count):
                if not equals and words and not _is_option(words[0]):
                    equals, value = "=", words.pop(0)
                if not equals and not option._flag_needs_value:
                    raise click.UsageError(f"the option '{name}' needs a value", ctx)
                if option._flag_needs_value and value.startswith("-"):
                    option.type_cast_value(ctx, value)  # Click would take it for an option
            options.append(f"{name}{equals}{value}")
        return [*options, "--", *arguments]


def _count(ctx: click.Context, _: click.Parameter, times: int) -> None:
    ctx.meta[_VERBOSITY] = verbosity(ctx) + times


verbose = click.option(
    "-v",
    "--verbose",
    count=True,
    expose_value=False,
    callback=_count,
    help="Print log messages to standard error; -vv prints more.",
)
"""The option -v, which may stand before the command and after it."""


def verbosity(ctx: click.Context) -> int:
    """How many -v were given."""
    return int(ctx.meta.get(_VERBOSITY, 0))


@contextmanager
def _logging(verbosity: int, streams: Streams) -> Iterator[None]:
    if not verbosity:
        yield
        return
    from penstock import log

    handler = log.to_stderr(logging.INFO if verbosity == 1 else logging.DEBUG, streams.err)
    try:
        yield
    finally:
        log.remove(handler)


def failed(streams: Streams, code: int, message: str) -> int:
    """Print what is wrong in one line, after the trace if that is asked for; the exit code."""
    if os.environ.get("PENSTOCK_DEBUG") not in (None, "", "0"):
        traceback.print_exc(file=streams.err)
    print(f"penstock: {message}", file=streams.err, flush=True)
    if streams.log is not None and streams.log.stat().st_size > 0:
        print(f"penstock: Spark's own messages are in {streams.log}", file=streams.err, flush=True)
    if streams.json:
        print(json.dumps({"error": message}, indent=2), file=streams.out, flush=True)
    return code


def _is_option(word: str) -> bool:
    """True for `-v` and `--json`, False for `-`, `-2` and `-1s`."""
    return re.match(r"-[^0-9.]", word) is not None


def _spelled_out(ctx: click.Context, name: str, known: list[str]) -> str:
    """The long option that this one is or abbreviates. Raises `UsageError` if it is unclear."""
    if not name.startswith("--") or name in known:
        return name
    meant = [one for one in known if one.startswith(name)]
    if len(meant) > 1:
        raise click.UsageError(f"the option '{name}' may be {' or '.join(meant)}", ctx)
    if not meant:
        raise click.UsageError(f"no such option '{name}'{did_you_mean(name, known)}", ctx)
    return meant[0]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known one that is closest, if any is."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean '{close[0]}'?" if close else ""
