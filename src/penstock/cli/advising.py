"""The command that asks a policy what it would have decided."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli import guarding, setting
from penstock.cli.streams import Streams, tell
from penstock.errors import InvalidInput, PenstockError

if TYPE_CHECKING:
    from penstock.predict.advice import Advice


def add(commands: Any) -> None:
    """Make the command known to the parser."""
    advise = commands.add_parser(
        "advise",
        help="say what a policy would have decided",
        description="Play the snapshots of a run to a policy, or put one case to it.",
    )
    advise.add_argument("run_dir", metavar="RUN_DIR", nargs="?", help="a run, whole or under way")
    advise.add_argument("--snapshot", metavar="FILE", help="a case as `penstock history` writes it")
    advise.add_argument("--policy", metavar="P", required=True, help="whom to ask")
    setting.add(advise)
    guarding.add_limits(advise)
    advise.add_argument("--json", action="store_true", help="one JSON object on standard output")
    advise.set_defaults(do=_advise)


def _advise(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.plan.limits import Limits
    from penstock.predict import advice
    from penstock.store import context_file, history, run_options
    from penstock.store.run_directory import local

    if (given.run_dir is None) == (given.snapshot is None):
        raise InvalidInput("say what to look at: a run directory, or --snapshot and a file")
    policy = setting.policy(given.policy, given.settings)
    limits = guarding.limits(given)
    if given.snapshot is not None:
        written = _read(given.snapshot)
        try:
            context = context_file.from_json(written)
        except PenstockError as error:
            raise InvalidInput(f"the case '{given.snapshot}': {error}") from None
        if limits != Limits():
            context = replace(context, limits=limits)
        one = advice.advise(policy, context)
        shown = {"flow": context.graph.name, "policy": policy.name, **one.to_json()}
        tell(streams, shown, _lines([one], whole=True))
        return int(one.error is not None)
    home = local(given.run_dir)
    graph = history.dataflow(home)
    budget = (lambda one: run_options.limits(home, one.time)) if limits == Limits() else limits
    found = [*advice.replay(policy, graph, history.seen(home), budget)]
    shown = {
        "flow": graph.name,
        "policy": policy.name,
        "snapshots": len(found),
        "decisions": [one.to_json() for one in found],
    }
    wanted = sum(one.change is not None for one in found)
    last = f"{policy.name} would have changed something at {wanted} of {len(found)} snapshots"
    tell(streams, shown, [*_lines(found), last])
    return int(any(one.error is not None for one in found))


def _lines(found: Iterable[Advice], *, whole: bool = False) -> Iterator[str]:
    """A line each time that something else is wanted; `whole`: also if nothing is."""
    from penstock import text

    before: object = None
    for one in found:
        vetoes = "; ".join(map(str, one.review.vetoes))
        now = (one.change and one.change.after, tuple(v.rule for v in one.review.vetoes), one.error)
        news = one.change is not None or bool(vetoes) or one.error is not None
        if (news and now != before) or whole:
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


_DIGITS = 18
