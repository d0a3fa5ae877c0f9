"""Checks whether a function can be called as its operator calls it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

_TABLES = {
    "pandas": re.compile(r"\b(?:pandas|pd)\.(?:\w+\.)*(?:DataFrame|Series)\b"),
    "Arrow": re.compile(r"\b(?:pyarrow|pa)\.(?:\w+\.)*(?:RecordBatch|Table)\b"),
}
"""Annotations that name the tables of a library."""


def call_problems(what: str, function: Callable[..., Any], form: str, *given: str) -> Iterator[str]:
    """Yield a message if a function cannot be called with these arguments.

    what: `function`, `processor` ...; form: what calls it; given: arguments in words. A function
    without a known signature is not checked.
    """
    signature = _signature(function)
    if signature is None:
        return
    try:
        signature.bind(*given)
    except TypeError:
        calls = f"{form} calls it with {len(given)}" + (f": {', '.join(given)}" if given else "")
        yield f"its {what} takes {_arguments(signature)}, and {calls}"


def table_annotation(function: Callable[..., Any], library: str, parameters: int = 1) -> str | None:
    """Return the annotation of a parameter or the result that names a table of a library.

    library: `pandas` or `Arrow`; parameters: how many to look at. The annotation is returned as
    written, e.g. `frame: pd.DataFrame`; None if there is none.
    """
    raw, resolved = _signature(function), _signature(function, resolve=True)
    if raw is None:
        return None
    for signature in (raw, resolved or raw):
        for name in [*raw.parameters][:parameters]:
            if _TABLES[library].search(_text(signature.parameters[name].annotation)):
                return f"{name}: {_text(raw.parameters[name].annotation)}"
        if _TABLES[library].search(_text(signature.return_annotation)):
            return f"return: {_text(raw.return_annotation)}"
    return None


def _signature(function: Callable[..., Any], resolve: bool = False) -> inspect.Signature | None:
    try:
        return inspect.signature(function, eval_str=resolve)
    except Exception:  # built in, or annotated with a name that is not imported
        return None


def _text(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    plain = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    return f"{annotation.__module__}.{annotation.__qualname__}" if plain else str(annotation)


def _arguments(signature: inspect.Signature) -> str:
    parameters, kinds = signature.parameters.values(), inspect.Parameter
    by_place = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    number = sum(p.kind in by_place for p in parameters)
    named = [p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY and p.default is p.empty]
    found = f"{number or 'no'} argument{'s' * (number > 1)}"
    return f"{found}, and '{named[0]}' without a default by name" if named else found
