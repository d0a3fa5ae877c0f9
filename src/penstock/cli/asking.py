"""The commands that ask a running flow for something: a change, or another way to be steered."""

from __future__ import annotations

import argparse
import json
from typing import Any

from penstock.cli.streams import Streams
from penstock.errors import InvalidInput

_SETTING = (
    "NAME=NUMBER, where any operator names its pipeline: count=4, executors=2, "
    "without=3 (that executor), count.cadence=500ms, count.admission=1000 (or unlimited), "
    "count.ceiling=16 (or automatic)"
)


def add(commands: Any) -> None:
    """Make the commands known to the parser."""
    scale = _command(commands, "scale", "change settings of a running flow, all of them at once")
    scale.add_argument("words", metavar="SETTING", nargs="+", help=_SETTING)
    scale.set_defaults(request=_settings)
    fuse = _command(commands, "fuse", "make one pipeline of two neighbours of a running flow")
    fuse.add_argument("words", metavar="OPERATOR", nargs=2, help="one in each of the two")
    split = _command(commands, "split", "cut a pipeline of a running flow in two")
    split.add_argument("words", metavar="OPERATOR", nargs=1, help="where the second one begins")
    _command(commands, "pause", "let the sources of a running flow take nothing")
    _command(commands, "resume", "let the sources of a paused flow take again, without a limit")
    for name, what in (
        ("scale-out", "add executors to a running flow, and instances where they gain most"),
        ("scale-in", "take executors from a running flow, those that it misses least"),
    ):
        on_demand = _command(commands, name, what)
        on_demand.add_argument("words", metavar="N", nargs=1, help="how many executors")
    policy = _command(commands, "policy", "switch the policy of a running flow")
    policy.add_argument(
        "words", metavar="MODE", nargs=1, help="on, advise (say what it would do), or off"
    )


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=what, description=f"{what[0].upper()}{what[1:]}."
    )
    made.add_argument("run_dir", metavar="RUN_DIR", help="the run directory of the flow")
    made.add_argument(
        "--timeout", metavar="T", default="60s", help="wait no longer for the answer (60s)"
    )
    made.add_argument("--json", action="store_true", help="one JSON object on standard output")
    made.set_defaults(do=_ask, words=[], request=lambda words: " ".join([name, *words]))
    return made


def _settings(words: list[str]) -> str:
    for word in words:
        if "=" not in word:
            raise InvalidInput(f"cannot read the setting '{word}': write {_SETTING}")
    return ", ".join(words)


def _ask(given: argparse.Namespace, streams: Streams) -> int:
    from penstock.dataflow import duration
    from penstock.store.mailbox import ask

    answer = ask(given.run_dir, given.request(given.words), duration.seconds(given.timeout))
    said = json.dumps(answer.to_json(), indent=2) if given.json else answer.message
    print(said, file=streams.out, flush=True)
    return 0
