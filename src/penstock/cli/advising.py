"""The commands that look back: what happened in a run, and what a policy would have decided."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli import guarding, setting
from penstock.cli.streams import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.control.advice import Advice


def add(commands: Any) -> None:
    """Make the commands known to the parser."""
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

    history = commands.add_parser(
        "history",
        help="tell what happened in a run",
        description="Tell changes, refusals and vetoes of a run, or write down its last moment.",
    )
    history.add_argument("run_dir", metavar="RUN_DIR", help="a run, whole or under way")
    history.add_argument(
        "--snapshot", action="store_true", help="print the last moment as a case for `advise`"
    )
    history.add_argument("--at", metavar="T", help="with --snapshot: this moment of the run")
    history.add_argument("--out", metavar="FILE", help="with --snapshot: write it there")
    history.add_argument("--json", action="store_true", help="one JSON object on standard output")
    history.set_defaults(do=_history)


# --- advise -------------------------------------------------------------------------------------


def _advise(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.control import advice, case, history
    from penstock.plan.limits import Limits

    if (given.run_dir is None) == (given.snapshot is None):
        raise InvalidInput("say what to look at: a run directory, or --snapshot and a file")
    policy = setting.policy(given.policy, given.settings)
    limits = guarding.limits(given)
    if given.snapshot is not None:
        context = case.from_json(_read(given.snapshot))
        if limits != Limits():
            context = replace(context, limits=limits)
        one = advice.advise(policy, context)
        shown = {"flow": context.graph.name, "policy": policy.name, **one.to_json()}
        return _tell(given, streams, shown, _lines([one], whole=True))
    home = Path(given.run_dir).expanduser()
    graph = history.dataflow(home)
    found = [*advice.replay(policy, graph, history.seen(home), limits)]
    shown = {
        "flow": graph.name,
        "policy": policy.name,
        "snapshots": len(found),
        "decisions": [one.to_json() for one in found],
    }
    wanted = sum(one.change is not None for one in found)
    last = f"{policy.name} would have changed something at {wanted} of {len(found)} snapshots"
    return _tell(given, streams, shown, [*_lines(found), last])


def _lines(found: Iterable[Advice], *, whole: bool = False) -> Iterator[str]:
    """A line each time that something else is wanted; `whole`: also if nothing is."""
    from penstock.report import text

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
        return json.loads(Path(path).expanduser().read_text())
    except OSError as error:
        raise InvalidInput(f"cannot read the case '{path}': {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"the case '{path}' is not JSON: {error}") from None


# --- history ------------------------------------------------------------------------------------


def _history(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.control import history

    home = Path(given.run_dir).expanduser()
    graph = history.dataflow(home)
    if given.snapshot:
        return _write(given, streams, json.dumps(_moment(given, home), indent=2))
    if given.at is not None or given.out is not None:
        raise InvalidInput("--at and --out are for --snapshot: which moment, and where to")
    told = [*history.read(home / history.DECISIONS)]
    news = [d for d in told if d.get("refused") or d.get("vetoes") or d.get("error")]
    made = [*history.read(home / history.TRANSITIONS)]
    shown = {"flow": graph.name, "transitions": made, "not_done": news, "decisions": len(told)}
    return _tell(given, streams, shown, _events(made, news))


def _events(made: list[dict[str, Any]], news: list[dict[str, Any]]) -> list[str]:
    """In the order in which they happened; what was told again and again stands once."""
    from penstock.report import text

    lines = [
        (
            t["time"],
            t["at_s"],
            f"{'; '.join(t['changes'])} ({t['interruption_ms']:.0f} ms without "
            f"output): {t['reason']}",
        )
        for t in made
    ]
    for one in news:
        vetoes = "; ".join(f"{v['rule']}: {v['reason']}" for v in one.get("vetoes") or ())
        why = one["refused"] or one.get("error") or vetoes
        kind = "refused" if one["refused"] else "error" if one.get("error") else "vetoed"
        lines.append((one["time"], one["at"], f"{kind}: {one['reason']} [{why}]"))
    return [f"[{text.clock(at):>5}] {what}" for _, at, what in sorted(lines)]


def _moment(given: argparse.Namespace, home: Path) -> dict[str, Any]:
    """The context of a moment: the snapshots of its run up to then, and the plan in force."""
    from penstock.control import case, history
    from penstock.control.context import Context
    from penstock.dataflow import duration

    until = None if given.at is None else duration.seconds(given.at)
    found: list[history.Seen] = []
    for one in history.seen(home):
        if one.first:
            found = []
        if until is None or one.snapshot.at <= until:
            found.append(one)
    if not found:
        raise InvalidInput(f"nothing was measured in '{home}' by then")
    last = found[-1]
    recent = tuple(one.snapshot for one in found[-120:])
    return case.to_json(Context(history.dataflow(home), last.plan, recent, last.snapshot.at))


def _write(given: argparse.Namespace, streams: Streams, case: str) -> int:
    if given.out is None:
        print(case, file=streams.out, flush=True)
        return 0
    try:
        Path(given.out).expanduser().write_text(f"{case}\n")
    except OSError as error:
        raise InvalidInput(f"cannot write to '{given.out}': {error.strerror}") from None
    return 0


def _tell(
    given: argparse.Namespace, streams: Streams, shown: dict[str, Any], lines: Iterable[str]
) -> int:
    if given.json:
        print(json.dumps(shown, indent=2), file=streams.out, flush=True)
        return 0
    for line in lines:
        print(line, file=streams.out, flush=True)
    return 0
