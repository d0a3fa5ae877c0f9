"""The command `policies`: who can decide, how it does that, and what can be set."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from penstock.cli.streams import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.policies import Description


def add(commands: Any) -> None:
    """Make the command known to the parser."""
    made = commands.add_parser(
        "policies",
        help="list the policies, or explain one",
        description="List who can decide on changes, or explain one of them and its parameters.",
    )
    made.add_argument("name", metavar="NAME", nargs="?", help="explain this one")
    made.add_argument("--json", action="store_true", help="one JSON object on standard output")
    made.set_defaults(do=_policies)


def _policies(given: argparse.Namespace, streams: Streams) -> int:
    from penstock import policies

    if given.name is not None:
        one = policies.describe(given.name)
        lines = [json.dumps(_json(one), indent=2)] if given.json else _explained(one)
    else:
        found = {name: _described(name) for name in policies.names()}
        shown = [
            _json(one) if not isinstance(one, str) else _broken(n, one) for n, one in found.items()
        ]
        lines = [json.dumps({"policies": shown}, indent=2)] if given.json else _listed(found)
    for line in lines:
        print(line, file=streams.out, flush=True)
    return 0


def _described(name: str) -> Description | str:
    """One policy that cannot be loaded is no reason to hide the others: then why not."""
    from penstock import policies

    try:
        return policies.describe(name)
    except InvalidInput as error:
        return str(error)


def _listed(found: dict[str, Description | str]) -> list[str]:
    width = max(map(len, found))
    lines = []
    for name, one in found.items():
        if isinstance(one, str):
            lines.append(f"{name:<{width}}  {one}")
            continue
        lines += [f"{name:<{width}}  {one.summary}", f"{'':<{width}}  from: {one.source}"]
        options = ", ".join(f"{option.name}={option.default}" for option in one.options)
        if options:
            lines.append(f"{'':<{width}}  parameters: {options}")
    return lines


def _explained(one: Description) -> list[str]:
    lines = [f"{one.name}: {one.summary}", f"from: {one.source}"]
    lines += ["", *one.details.splitlines()] if one.details else []
    if one.options:
        name = max(len(option.name) for option in one.options)
        default = max(len(option.default) for option in one.options)
        lines.append("")
        lines += [f"  {o.name:<{name}} = {o.default:<{default}}  {o.kind}" for o in one.options]
    return lines


def _json(one: Description) -> dict[str, Any]:
    return {
        "name": one.name,
        "summary": one.summary,
        "details": one.details,
        "from": one.source,
        "parameters": [{"name": o.name, "kind": o.kind, "default": o.default} for o in one.options],
    }


def _broken(name: str, error: str) -> dict[str, Any]:
    return {"name": name, "error": error}
