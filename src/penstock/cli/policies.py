"""`penstock policies`: the policies and their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli import base, options
from penstock.cli.standard_output import Streams
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.policies import Description


@base.command("policies")
@click.argument(
    "name",
    metavar="[POLICY]",
    required=False,
    help="Explain this policy.",
    shell_complete=options.complete_policy,
)
@options.as_json
def command(streams: Streams, name: str | None) -> None:
    """List the policies, or explain one and its parameters.

    Example: penstock policies threshold
    """
    from penstock import policies

    if name is not None:
        one = policies.describe(name)
        streams.print(_json(one), _explained(one))
        return
    found = {each: _described(each) for each in policies.names()}
    shown = [
        {"name": each, "error": one} if isinstance(one, str) else _json(one)
        for each, one in found.items()
    ]
    streams.print({"policies": shown}, _listed(found))


def _described(name: str) -> Description | str:
    """The description of a policy, or why it cannot be loaded, which hides no others."""
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
