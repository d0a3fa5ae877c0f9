"""Options and arguments that several commands share, and the values that are made of them.

A decorator like `limits` adds options and passes their value to the function as one argument.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from penstock.errors import InvalidInput, InvalidPlan

if TYPE_CHECKING:
    from penstock.control.guard import Guard
    from penstock.plan.limits import Limits
    from penstock.plan.plan import Plan
    from penstock.policies.base.policy import Policy

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

LOAD = (
    "Load of all generators: 5000/s, steps:1000,4000,1000@20s, ramp:..., sine:..., spikes:... or "
    "trace:file.csv."
)
ABOUT_SETTINGS = (
    "A parameter of the policy, e.g. above=0.7 (see `penstock policies`). May be repeated."
)


def combined(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Add options, and pass what `make` makes of their values as the argument `name`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            return function(*args, **{name: make(given)}, **given)

        for option in reversed(options):
            option(called)
        return called

    return decorate


# --- what is run --------------------------------------------------------------------------------


def complete_flow(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    from penstock import workloads

    found = [CompletionItem(one) for one in workloads.names() if one.startswith(text)]
    return [*found, CompletionItem(text, type="file")]


def complete_directory(
    ctx: click.Context, param: click.Parameter, text: str
) -> list[CompletionItem]:
    return [CompletionItem(text, type="dir")]


def complete_policy(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
    from penstock import policies

    return [one for one in policies.names() if one.startswith(text)]


def flow(name: str = "flow", **more: Any) -> Decorator:
    """The argument FLOW."""
    about = "A built-in workload (see `penstock workloads`) or path/to/file.py:name."
    return click.argument(
        name, **{"metavar": "FLOW", "help": about, "shell_complete": complete_flow, **more}
    )


def run_dir(about: str = "The directory of a run, finished or still running.") -> Decorator:
    """The argument RUN_DIR."""
    return click.argument(
        "run_dir", metavar="RUN_DIR", help=about, shell_complete=complete_directory
    )


plan = click.option("--plan", metavar="FILE", help="Start with this plan, a JSON file.")
changes = click.option(
    "--change",
    "changes",
    metavar="TIME:REQUEST",
    multiple=True,
    help="Change the plan at a time of the run: 20s:count=4, 30s:executors=2, 40s:split count. "
    "May be repeated.",
)
load = click.option("--load", metavar="LOAD", help=LOAD)
new_run_dir = click.option(
    "--run-dir",
    metavar="DIR",
    shell_complete=complete_directory,
    help="Directory of the run, for its state and its history.",
)
model = click.option(
    "--model", metavar="FILE", help="Costs that `penstock calibrate --out` has fitted."
)
seed = click.option(
    "--seed", metavar="INTEGER", type=int, default=0, show_default=True, help="Random seed."
)
as_json = click.option(
    "--json", is_flag=True, help="Print one JSON object, and nothing else, on standard output."
)


def read_plan(path: str | None) -> Plan | None:
    """The plan in a JSON file, alone or as the `plan` of an object, as `explain --json` has it."""
    from penstock.plan.plan import Plan

    if path is None:
        return None
    try:
        data = json.loads(Path(path).expanduser().read_text())
    except OSError as error:
        raise InvalidInput(f"cannot read the plan file '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"the plan file '{path}' is not text") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"the plan file '{path}' is not JSON: {error.msg} in line {error.lineno}"
        ) from None
    except (ValueError, RecursionError):  # more digits or brackets than anybody writes
        raise InvalidInput(f"the plan file '{path}' is not JSON we can read") from None
    if isinstance(data, dict) and "plan" in data:
        data = data["plan"]
    try:
        return Plan.from_json(data)
    except InvalidPlan as error:
        raise InvalidPlan(f"the plan file '{path}': {error}") from None


# --- Spark --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparkOptions:
    """Which Spark is used: its master, None for this machine, and settings by name."""

    master: str | None
    conf: Mapping[str, str]


def _spark(given: dict[str, Any]) -> SparkOptions:
    pairs = [text.partition("=") for text in given.pop("conf")]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise InvalidInput(f"cannot read the setting '{name}': write --conf name=value")
    return SparkOptions(given.pop("master"), {name: value for name, _, value in pairs})


spark = combined(
    "spark",
    _spark,
    click.option("--master", metavar="URL", help="Spark's master.  [default: this machine]"),
    click.option(
        "--conf",
        metavar="NAME=VALUE",
        multiple=True,
        help="A setting of Spark, e.g. spark.jars.packages=... May be repeated.",
    ),
)


# --- policies -----------------------------------------------------------------------------------

settings = click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help=ABOUT_SETTINGS
)


def read_policy(name: str, settings: Sequence[str] | None) -> Policy:
    """The policy of a name, `threshold` or `threshold:above=0.7`, with these settings.

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


def _policy(given: dict[str, Any]) -> Policy | None:
    name, chosen = given.pop("policy"), given.pop("settings")
    if name is not None:
        return read_policy(name, chosen)
    if chosen:
        raise InvalidInput("--set is for a policy: say which with --policy")
    return None


def policy(about: str, **more: Any) -> Decorator:
    """--policy and --set, passed as the policy, None if none is named."""
    option = click.option(
        "--policy", metavar="POLICY", help=about, shell_complete=complete_policy, **more
    )
    return combined("policy", _policy, option, settings)


def _limits(given: dict[str, Any]) -> Limits:
    from penstock.plan.limits import Limits

    return Limits(slots=given.pop("max_slots"), executors=given.pop("max_executors"))


limits = combined(
    "limits",
    _limits,
    click.option("--max-slots", metavar="SLOTS", type=int, help="Most instances in total."),
    click.option("--max-executors", metavar="EXECUTORS", type=int, help="Most executors."),
)


def _guard(given: dict[str, Any]) -> Guard:
    from penstock.control.blackout_periods import Quiet
    from penstock.control.guard import Guard
    from penstock.dataflow import duration

    words = {name: given.pop(name) for name in ("cooldown", "settle", "undo", "horizon")}
    times = {name: duration.seconds(word) for name, word in words.items() if word is not None}
    return Guard(**times, quiet=tuple(Quiet.parse(text) for text in given.pop("quiet")))


def _time(name: str, about: str) -> Decorator:
    return click.option(name, metavar="DURATION", help=about)


guard = combined(
    "guard",
    _guard,
    _time("--cooldown", "Least time between two changes.  [default: 10s]"),
    _time("--settle", "Longest time to wait for a backlog to go.  [default: 30s]"),
    _time("--undo", "Reverse no change before this time has passed.  [default: 30s]"),
    _time("--horizon", "Time within which a change has to pay.  [default: 5m]"),
    click.option(
        "--quiet",
        metavar="FROM..TO",
        multiple=True,
        help="When nothing may change: 22:00..06:00 (every day) or 10m..20m (of the run). May be "
        "repeated.",
    ),
)
