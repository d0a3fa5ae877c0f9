"""The option `--set`: fields of the policy that was chosen."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.policies.base.policy import Policy

_SET = (
    "a parameter of the policy, e.g. above=0.7 (see `penstock policies`); may be given several "
    "times"
)


def add(command: argparse.ArgumentParser) -> None:
    """Make the option known to the parser of a command."""
    command.add_argument("--set", dest="settings", metavar="K=V", action="append", help=_SET)


def policy(name: str, settings: Sequence[str] | None) -> Policy:
    """The policy of a name, `threshold` or `threshold:above=0.7`, with the settings that are given.

    Raises `InvalidInput` as `penstock.policies.get` does.
    """
    from penstock import policies

    if not settings:
        return policies.get(name)
    for text in settings:
        if not all(part.strip() for part in text.split(",")):
            raise InvalidInput(f"cannot read the option '{text}': write it like above=0.7")
    base, _, written = name.partition(":")
    return policies.get(f"{base}:{','.join(filter(None, [written, *settings]))}")
