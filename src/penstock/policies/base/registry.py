"""Policies by name: built-in ones, and entry points of other packages.

A package adds a policy with an entry point in the group `penstock.policies`. It names a class, or a
function without arguments that returns a policy. The optional attribute `source` says where the
policy comes from. Built-in names cannot be overridden.

Options follow the name: `threshold:above=0.7,step=2` sets fields of the policy, which must be a
dataclass.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

from penstock.errors import InvalidInput, PenstockError
from penstock.policies.base import options
from penstock.policies.base.policy import OnDemand, Policy

GROUP = "penstock.policies"

_OURS: Mapping[str, str] = {
    "drs": "penstock.policies.baselines.drs:Drs",
    "ds2": "penstock.policies.baselines.ds2:Ds2",
    "es-stream": "penstock.policies.es_stream.policy:EsStream",
    "latency": "penstock.policies.nephele.policy:LatencyPolicy",
    "least-link-load": "penstock.policies.stela.strategies:LeastLinkLoad",
    "organic": "penstock.policies.joker.policy:Organic",
    "round-robin": "penstock.policies.stela.strategies:RoundRobin",
    "static": "penstock.policies.baselines.static:Static",
    "stela": "penstock.policies.stela.policy:Stela",
    "stepwise": "penstock.policies.stepwise.policy:Stepwise",
    "threshold": "penstock.policies.baselines.threshold:Threshold",
}

_ON_DEMAND = "stela"
"""The policy that is asked to scale out and in if the one of the run cannot."""

_SOURCES: Mapping[str, str] = {
    "drs": "Fu and others, DRS: Dynamic Resource Scheduling for Real-Time Analytics over Fast "
    "Streams, ICDCS 2015",
    "ds2": "Kalavri and others, Three Steps is All You Need: Fast, Accurate, Automatic Scaling "
    "Decisions for Distributed Streaming Dataflows, OSDI 2018",
    "es-stream": "Wu, Sun, Gao, Li and Buyya, Elastic Scaling of Stateful Operators Over "
    "Fluctuating Data Streams, IEEE Transactions on Services Computing 2024",
    "latency": "Lohrmann, Janacik and Kao, Elastic Stream Processing with Latency Guarantees, "
    "ICDCS 2015",
    "least-link-load": "a baseline of the Stela paper",
    "organic": "Kahveci and Gedik, Joker: Elastic Stream Processing with Organic Adaptation, "
    "Journal of Parallel and Distributed Computing 2020",
    "round-robin": "a baseline of the Stela paper, and the default of Apache Storm",
    "static": "the baseline for all other policies",
    "stela": "Xu, Peng and Gupta, Stela: Enabling Stream Processing Systems to Scale-in and "
    "Scale-out On-demand, IC2E 2016",
    "stepwise": "Liu, Dastjerdi, Calheiros, Qu and Buyya, A Stepwise Auto-Profiling Method for "
    "Performance Optimization of Streaming Applications, ACM TAAS 2017",
    "threshold": "the utilisation rule that most papers compare with",
}


@dataclass(frozen=True)
class Option:
    """A field that can be set after the name of a policy; `default` in text form."""

    name: str
    kind: str
    default: str


@dataclass(frozen=True)
class Description:
    """What a policy does (one line, then details), its source, and its options."""

    name: str
    summary: str
    details: str
    source: str
    options: tuple[Option, ...]


def names() -> tuple[str, ...]:
    """Names of all policies, sorted."""
    return tuple(sorted({*_OURS, *_others()}))


def get(text: str) -> Policy:
    """Create a policy from name and options, such as `threshold:above=0.7,step=2`.

    Raises `InvalidInput` listing the known names or options.
    """
    name, _, rest = text.partition(":")
    path, made = _maker(name := name.strip())
    given = options.split(rest)
    with _blaming(name, path):
        values = {key: _value(name, made, key, written) for key, written in given.items()}
        policy: Policy = made(**values)
    _whole(name, path, policy)
    return policy


def on_demand(policy: Policy | None) -> OnDemand:
    """The given policy if it scales on demand, else the default one that does."""
    own = getattr(policy, "inner", policy)  # of a policy that wraps another one
    if isinstance(own, OnDemand):
        return own
    default = get(_ON_DEMAND)
    assert isinstance(default, OnDemand)
    return default


def describe(name: str) -> Description:
    """Describe a policy and its options. Raises `InvalidInput` as `get` does."""
    path, made = _maker(name)
    with _blaming(name, path):
        found = _described(name, path, made)
        if all(option.default for option in found.options):
            _whole(name, path, made())
    return found


def _described(name: str, path: str, made: Callable[..., Any]) -> Description:
    words = (made.__doc__ or "").strip()
    summary, _, details = words.partition("\n")
    settings = _settings(made)
    kinds = get_type_hints(made) if settings else {}
    found = (
        Option(key, options.kind(kinds[key]), options.formatted(_default(entry)))
        for key, entry in settings.items()
    )
    lines = (line.strip() for line in details.strip().splitlines())
    source = _SOURCES.get(name) or getattr(made, "source", f"another package, {path}")
    return Description(name, summary, "\n".join(lines), str(source), tuple(found))


def _whole(name: str, path: str, policy: Any) -> None:
    """Check that an object has what the loop needs: `name` and `decide`."""
    if not callable(getattr(policy, "decide", None)):
        raise InvalidInput(f"policy '{name}' from '{path}' has no method 'decide'")
    if not isinstance(getattr(policy, "name", None), str):
        raise InvalidInput(f"policy '{name}' from '{path}' has no attribute 'name' of type str")


def _others() -> Mapping[str, EntryPoint]:
    return {e.name: e for e in entry_points(group=GROUP)}


def _maker(name: str) -> tuple[str, Callable[..., Any]]:
    """Import path of a policy, and the class or function that creates it."""
    if name in _OURS:
        entry = EntryPoint(name, _OURS[name], GROUP)
    elif (found := _others().get(name)) is not None:
        entry = found
    else:
        raise InvalidInput(f"unknown policy '{name}'{_hint(name, names(), 'policies')}")
    with _blaming(name, entry.value):
        return entry.value, entry.load()


@contextmanager
def _blaming(name: str, path: str) -> Iterator[None]:
    """Turn any failure of an import or a constructor into `InvalidInput`."""
    try:
        yield
    except PenstockError as error:
        said = " ".join(str(error).split()).removeprefix(f"{name}: ")  # our policies begin with it
        ours = said.startswith(f"policy '{name}'")
        raise InvalidInput(said if ours else f"policy '{name}': {said}") from error
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InvalidInput(f"policy '{name}' from '{path}' cannot be loaded: {said}") from error


def _settings(made: Callable[..., Any]) -> Mapping[str, Field[Any]]:
    """Fields of a policy that can be set as options."""
    if not (isinstance(made, type) and is_dataclass(made)):
        return {}
    return {f.name: f for f in fields(made) if f.init}


def _value(name: str, made: Callable[..., Any], key: str, written: str) -> Any:
    settings = _settings(made)
    if not settings:
        raise InvalidInput(f"policy '{name}' has no options, found '{key}'")
    if key not in settings:
        hint = _hint(key, settings, "options")
        raise InvalidInput(f"policy '{name}' has no option '{key}'{hint}")
    try:
        return options.read(get_type_hints(made)[key], written)
    except InvalidInput as error:
        raise InvalidInput(f"policy '{name}', option '{key}': {error}") from None


def _default(entry: Field[Any]) -> Any:
    if entry.default is not MISSING:
        return entry.default
    return entry.default_factory() if entry.default_factory is not MISSING else MISSING


def _hint(word: str, known: Iterable[str], what: str) -> str:
    close = difflib.get_close_matches(word, tuple(known), n=1)
    return (
        f", did you mean '{close[0]}'?" if close else ";"
    ) + f" known {what}: {', '.join(known)}"
