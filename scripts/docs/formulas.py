"""Formulas as MathML, made while the pages are built: `$...$` and `$$...$$`, but not in code.

Browsers draw MathML themselves, so a page needs no script and no font from elsewhere. A formula
leaves a mark in the Markdown, which could misread it, and comes back when the page is HTML.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from latex2mathml.converter import convert

_PARTS = re.compile(
    r"(?P<fence>^(?P<mark>```+|~~~+).*?^(?P=mark)[ ]*$)"
    r"|(?P<code>`[^`\n]*`)"
    r"|\$\$(?P<block>.+?)\$\$"
    r"|\$(?P<inline>[^$\s](?:[^$\n]*[^$\s])?)\$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"FORMULA(\d+)ENDS")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    found: list[str] = []

    def marked(match: re.Match[str]) -> str:
        block, inline = match["block"], match["inline"]
        if block is None and inline is None:
            return match[0]
        found.append(mathml(block or inline, block is not None))
        return f"FORMULA{len(found) - 1}ENDS"

    page.formulas = found
    return _PARTS.sub(marked, markdown)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    return _MARK.sub(lambda match: page.formulas[int(match[1])], html)


@cache
def mathml(latex: str, block: bool) -> str:
    """One formula."""
    return str(convert(" ".join(latex.split()), display="block" if block else "inline"))
