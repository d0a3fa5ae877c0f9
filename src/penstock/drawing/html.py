"""HTML as values: what is text is escaped, what is markup has come through here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from penstock.drawing.svg import clean


class Html(str):
    """Markup that may stand in a page as it is."""

    __slots__ = ()


Child = str | Html | Iterable["Child"] | None
"""Text, markup, or several of them; None is nothing."""

_EMPTY = frozenset({"br", "hr", "img", "meta"})


def tag(name: str, *children: Child, **attributes: str | None) -> Html:
    """An element. `class_` is written class, `aria_label` aria-label; None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = joined(children)
    return Html(f"<{name}{given}>" if name in _EMPTY else f"<{name}{given}>{inside}</{name}>")


def joined(children: Child) -> Html:
    """One after the other."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str):
        return Html(escape(clean(children)))
    return Html("".join(map(joined, children)))


def table(
    heads: Sequence[Child], rows: Iterable[Sequence[Child]], *, numbers: Iterable[int] = ()
) -> Html:
    """A table that may be wider than its page; the columns in `numbers` stand to the right."""
    right = frozenset(numbers)

    def cell(name: str, n: int, child: Child) -> Html:
        return tag(name, child, class_="number" if n in right else None)

    head = tag("tr", (cell("th", n, one) for n, one in enumerate(heads)))
    body = (tag("tr", (cell("td", n, one) for n, one in enumerate(row))) for row in rows)
    shown = tag("table", tag("thead", head) if any(heads) else None, tag("tbody", body))
    return tag("div", shown, class_="wide")


def pairs(rows: Iterable[tuple[str, Child]]) -> Html:
    """Names and what they stand for."""
    return tag("dl", (tag("div", tag("dt", name), tag("dd", what)) for name, what in rows))
