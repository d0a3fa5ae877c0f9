"""Code blocks of the README and the documentation, and what a test is to do with each.

A comment right before a block says so where it is not the usual: `<!-- test: spark -->` is run on
Spark, `<!-- test: parsed: reason -->` is only read by the parser of the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITTEN = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "results"]
PAGES = (ROOT / "README.md", *WRITTEN)
RUN_LANGUAGES = ("python", "sh")
SHOWN_LANGUAGES = ("text", "toml", "json")

_FENCE = re.compile(
    r"(?:^<!-- test: (?P<test>[^>]*?) -->\n)?"
    r"^```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block; `test` is what the comment before it says."""

    page: str
    line: int
    language: str
    text: str
    title: str | None
    test: str

    @property
    def spark(self) -> bool:
        return self.test == "spark"

    @property
    def parsed_only(self) -> bool:
        return self.test.startswith("parsed: ")

    def commands(self) -> Iterator[list[str]]:
        """The words of each line of a shell block."""
        for line in self.text.splitlines():
            if words := shlex.split(line, comments=True):
                yield words

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """All blocks of a page, in order."""
    text = path.read_text()
    return [
        Block(
            page=str(path.relative_to(ROOT)),
            line=text.count("\n", 0, match.start("text")),
            language=match["language"],
            text=match["text"],
            title=found[1] if (found := _TITLE.search(match["info"])) else None,
            test=match["test"] or "",
        )
        for match in _FENCE.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks(page)]


def titled(name: str) -> Block:
    """The first block that is a file of that name."""
    return next(block for block in ALL if block.title == name)


def inline_commands(text: str) -> list[str]:
    """Commands of ours within sentences and tables."""
    return re.findall(r"`(penstock [a-z][^`]*)`", text)
