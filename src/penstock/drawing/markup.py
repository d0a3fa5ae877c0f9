"""HTML as values: text is escaped; only `Html` passes unescaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape

from penstock.drawing import svg
from penstock.drawing.svg import clean


class Html(str):
    """Markup that needs no escaping."""

    __slots__ = ()


Child = str | Html | Iterable["Child"] | None
"""Text, markup, or a sequence of these; None renders nothing."""

_EMPTY = frozenset({"br", "hr", "img", "meta"})


def tag(name: str, *children: Child, **attributes: str | None) -> Html:
    """An HTML element: `class_` becomes class, `aria_label` becomes aria-label.

    An attribute of None is omitted.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = joined(children)
    return Html(f"<{name}{given}>" if name in _EMPTY else f"<{name}{given}>{inside}</{name}>")


def joined(children: Child) -> Html:
    """Concatenate children, escaping text."""
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
    """A table that scrolls if it is too wide; columns in `numbers` are right-aligned."""
    right = frozenset(numbers)

    def cell(name: str, n: int, child: Child) -> Html:
        return tag(name, child, class_="number" if n in right else None)

    head = tag("tr", (cell("th", n, one) for n, one in enumerate(heads)))
    body = (tag("tr", (cell("td", n, one) for n, one in enumerate(row))) for row in rows)
    shown = tag("table", tag("thead", head) if any(heads) else None, tag("tbody", body))
    return tag("div", shown, class_="wide")


def pairs(rows: Iterable[tuple[str, Child]]) -> Html:
    """A description list (`dl`) of names and values."""
    return tag("dl", (tag("div", tag("dt", name), tag("dd", what)) for name, what in rows))


# --- stylesheet -----------------------------------------------------------------------------------

_LIGHT = (
    "--paper:#ffffff;--ink:#1b2733;--faint:#5a6878;--line:#dfe5ec;--field:#f4f7fa;"
    "--accent:#7a4fc0;--good:#12725e;--warn:#8a5c00;--bad:#b3261e"
)
_DARK = (
    "--paper:#14181d;--ink:#e6ebf1;--faint:#9aa8b8;--line:#2b333d;--field:#1a2027;"
    "--accent:#b79af0;--good:#4fc9ab;--warn:#e6b450;--bad:#ff8a80"
)

_TURNED = "filter:invert(.91) hue-rotate(180deg)"  # inverts pictures made for a light page

_PARTS = """\
.penstock{color:var(--ink);background:var(--paper);line-height:1.5;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:14px}
.penstock *{box-sizing:border-box}
.penstock h1{font-size:26px;margin:0 0 2px;overflow-wrap:anywhere}
.penstock h2{font-size:18px;margin:34px 0 8px;padding-top:14px;border-top:1px solid var(--line)}
.penstock h3{font-size:14px;margin:18px 0 6px}
.penstock p{margin:6px 0;max-width:78ch}
.penstock .faint{color:var(--faint)}
.penstock .good{color:var(--good)}.penstock .warn{color:var(--warn)}.penstock .bad{color:var(--bad)}
.penstock .strong{font-weight:600}
.penstock .badge{display:inline-block;border:1px solid currentColor;border-radius:99px;\
padding:0 9px;font-size:12px;font-weight:600;vertical-align:middle}
.penstock .tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));\
gap:10px;margin:16px 0}
.penstock .tile{background:var(--field);border:1px solid var(--line);\
border-radius:10px;padding:9px 13px}
.penstock .tile b{display:block;font-size:20px;line-height:1.25}
.penstock .tile span{color:var(--faint);font-size:12px}
.penstock .wide{overflow-x:auto;max-width:100%}
.penstock table{border-collapse:collapse;font-size:13px;margin:6px 0;background:none}
.penstock th{text-align:left;color:var(--faint);font-weight:500;white-space:nowrap;background:none}
.penstock th,.penstock td{padding:4px 14px 4px 0;border-bottom:1px solid var(--line);\
vertical-align:top;text-align:left}
.penstock td{overflow-wrap:break-word;background:none;color:var(--ink)}
.penstock .number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.penstock dl{margin:6px 0}
.penstock dl>div{display:flex;gap:14px;padding:3px 0;border-bottom:1px solid var(--line)}
.penstock dt{flex:0 0 130px;color:var(--faint)}
.penstock dd{margin:0;min-width:0;overflow-wrap:anywhere}
.penstock details{margin:4px 0}.penstock summary{cursor:pointer;color:var(--faint)}
.penstock ul{margin:6px 0;padding-left:20px}
.penstock code{font-size:12.5px;overflow-wrap:anywhere;background:none;color:inherit}
.penstock figure{margin:12px 0;overflow-x:auto}
.penstock figure>svg,.penstock figure>img{min-width:640px}
.penstock img{max-width:100%;height:auto}
.penstock figcaption{color:var(--faint);font-size:12.5px}
.penstock.note{padding:4px 14px 8px;border-radius:8px}
.penstock.note h3{margin:8px 0 4px}
.penstock .dots{letter-spacing:1px;color:var(--faint)}
"""

_PRINT = """\
@media print{
.penstock h2{break-after:avoid}
.penstock figure,.penstock tr,.penstock .tile{break-inside:avoid}
.penstock details:not([open])>*:not(summary){display:none}
.penstock .wide,.penstock figure{overflow:visible}
}
"""


@cache
def stylesheet() -> str:
    """CSS of pages and notebooks: follows the reader's colour scheme, prints light."""
    return "\n".join(
        (
            f".penstock{{{_LIGHT}}}",
            f"@media screen and (prefers-color-scheme:dark){{.penstock{{{_DARK}}}}}",
            *(f"{page} .penstock{{{_LIGHT}}}" for page in svg.LIGHT),
            *(f"{page} .penstock{{{_DARK}}}" for page in svg.DARK),
            f"@media screen and (prefers-color-scheme:dark){{.penstock img{{{_TURNED}}}}}",
            *(f"{page} .penstock img{{filter:none}}" for page in svg.LIGHT),
            *(f"{page} .penstock img{{{_TURNED}}}" for page in svg.DARK),
            _PARTS,
            _PRINT,
        )
    )
