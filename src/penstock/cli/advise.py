"""`penstock advise`: what a policy would have decided."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput, PenstockError

if TYPE_CHECKING:
    from penstock.plan.limits import Limits
    from penstock.policies.base.policy import Policy
    from penstock.predict.advice import Advice

_DIGITS = 18
"""Most digits of a whole number with which arithmetic goes on."""


@base.command("advise")
@click.argument(
    "run_dir",
    metavar="[RUN_DIR]",
    required=False,
    help="The directory of a run, finished or still running.",
    shell_complete=options.complete_directory,
)
@click.option(
    "--snapshot", metavar="FILE", help="A case, as `penstock history --snapshot` writes it."
)
@options.policy("Policy to ask.", required=True)
@options.limits
@options.as_json
def command(
    streams: Streams, run_dir: str | None, snapshot: str | None, policy: Policy, limits: Limits
) -> int:
    """Print what a policy would have decided in a run.

    It is given the snapshots of the run, or one case with --snapshot.

    Example: penstock advise runs/mine --policy ds2
    """
    if run_dir is not None and snapshot is None:
        return _replay(streams, run_dir, policy, limits)
    if run_dir is None and snapshot is not None:
        return _case(streams, snapshot, policy, limits)
    raise InvalidInput("say what to look at: a run directory, or --snapshot and a file")


def _replay(streams: Streams, run_dir: str, policy: Policy, limits: Limits) -> int:
    from penstock.plan.limits import Limits
    from penstock.predict import advice
    from penstock.store import history, run_options
    from penstock.store.run_directory import local

    home = local(run_dir)
    graph = history.dataflow(home)
    budget = (lambda one: run_options.limits(home, one.time)) if limits == Limits() else limits
    found = [*advice.replay(policy, graph, history.recorded_snapshots(home), budget)]
    wanted = sum(one.change is not None for one in found)
    shown = {
        "flow": graph.name,
        "policy": policy.name,
        "snapshots": len(found),
        "decisions": [one.to_json() for one in found],
    }
    last = f"{policy.name} would have changed something at {wanted} of {len(found)} snapshots"
    streams.print(shown, [*_lines(found), last])
    return base.INEXACT if any(one.error is not None for one in found) else 0


def _case(streams: Streams, file: str, policy: Policy, limits: Limits) -> int:
    from penstock.plan.limits import Limits
    from penstock.predict import advice
    from penstock.store import context_file

    written = _read(file)
    try:
        context = context_file.from_json(written)
    except PenstockError as error:
        raise InvalidInput(f"the case '{file}': {error}") from None
    if limits != Limits():
        context = replace(context, limits=limits)
    one = advice.advise(policy, context)
    shown = {"flow": context.graph.name, "policy": policy.name, **one.to_json()}
    streams.print(shown, _lines([one], always=True))
    return base.INEXACT if one.error is not None else 0


def _lines(found: Iterable[Advice], *, always: bool = False) -> Iterator[str]:
    """A line each time the advice differs from the one before; `always`: even for no change."""
    from penstock import text

    before: object = None
    for one in found:
        vetoes = "; ".join(map(str, one.review.vetoes))
        now = (one.change and one.change.after, tuple(v.rule for v in one.review.vetoes), one.error)
        news = one.change is not None or bool(vetoes) or one.error is not None
        if (news and now != before) or always:
            what = f"vetoed [{vetoes}]" if vetoes else str(one.change or "no change")
            yield f"[{text.clock(one.at):>5}] {what}: {one.review.wanted.reason}"
        before = now


def _read(path: str) -> Any:
    try:
        return json.loads(Path(path).expanduser().read_text(), parse_int=_whole)
    except OSError as error:
        raise InvalidInput(f"cannot read the case '{path}': {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"the case '{path}' is not JSON we can read: {error}") from None
    except RecursionError:
        raise InvalidInput(f"the case '{path}' is nested too deeply to be one") from None


def _whole(digits: str) -> int:
    """A whole number that arithmetic can go on with. Raises ValueError."""
    if len(digits) > _DIGITS:
        raise ValueError(f"{digits[:_DIGITS]}... has more than {_DIGITS} digits")
    return int(digits)
